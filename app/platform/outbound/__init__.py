"""Requests to addresses that others have chosen: bounded, and never to the inside."""
