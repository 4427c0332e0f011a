"""Requests to addresses that callers have chosen: bounded, and never to the internal network."""
