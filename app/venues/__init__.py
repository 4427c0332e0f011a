"""Venues: places where others sell machines, and what their prices say of how long a machine is kept."""
