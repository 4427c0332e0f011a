"""Handlers for clusters, and for advice on checkpoints."""
