"""Handlers for jobs, for peers, and for what peers ask."""
