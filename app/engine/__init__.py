"""Cluster state, placement, eviction and slot counting: the one implementation for all drivers."""
