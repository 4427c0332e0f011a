"""Discovery, health and metrics."""
