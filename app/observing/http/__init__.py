"""Handlers for discovery, health and metrics."""
