"""Present use of a cloud's cores, from its folded state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.cloud import Cloud, Node


@dataclass(frozen=True, slots=True)
class Usage:
    """Cores in use by market, all cores, and the number of running instances."""

    on_demand: int
    spot: int
    total: int
    on_demand_count: int
    spot_count: int

    @property
    def used(self) -> int:
        """Cores in use."""
        return self.on_demand + self.spot

    @property
    def free(self) -> int:
        """Cores not in use."""
        return max(0, self.total - self.used)

    @property
    def share(self) -> float | None:
        """The share of cores in use, 0 to 1; None without nodes."""
        return self.used / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """One node and the instances on it."""

    node: Node
    usage: Usage


def usage_of(cloud: Cloud) -> Usage:
    """Return the cloud's present usage."""
    total = sum(node.capacity.cores for node in cloud.nodes.values())
    cores, counts = cloud.use_by_node()[0].sum(axis=0).tolist(), cloud.running_counts()
    return _usage(cores, counts, total)


def usage_by_node(cloud: Cloud) -> list[NodeUsage]:
    """Return the usage of every node, in node order."""
    cores, counts = (part.tolist() for part in cloud.use_by_node())
    return [
        NodeUsage(node, _usage(cores[node.index], counts[node.index], node.capacity.cores))
        for node in cloud.nodes_in_order()
    ]


def _usage(cores: Sequence[int], counts: Sequence[int], total: int) -> Usage:
    return Usage(cores[0], cores[1], total, counts[0], counts[1])
