"""Handlers for events and webhooks."""
