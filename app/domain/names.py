"""Generated names of flavors and nodes, for recorded workloads that have none."""

from __future__ import annotations


def flavor_name(cores: int) -> str:
    """Return the name of the flavor with this many cores."""
    return f"c{cores}"


def node_name(index: int) -> str:
    """Return the name of the node at this index in node order."""
    return f"node-{index}"
