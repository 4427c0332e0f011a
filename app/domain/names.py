"""Names that are made for flavors and nodes where a recorded workload has none."""

from __future__ import annotations


def flavor_name(cores: int) -> str:
    """The flavor of an instance with this many cores."""
    return f"c{cores}"


def node_name(index: int) -> str:
    """The name of the node at this place in node order."""
    return f"node-{index}"
