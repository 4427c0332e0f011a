"""Webhooks, and the pulses of clouds, in PostgreSQL."""
