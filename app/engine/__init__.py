"""Cluster state, placement, eviction and slot counting: the one implementation that all drivers call."""
