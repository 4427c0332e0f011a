"""Requests for events and webhooks."""
