"""Present use of a cloud's cores, from its folded state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.values import Market, NodeStatus
from app.engine.cloud import Cloud, Node, Running


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
    """Return the cloud's present usage. Removed nodes do not count."""
    total = sum(node.capacity.cores for node in cloud.nodes.values() if node.status is not NodeStatus.REMOVED)
    return _usage(cloud, cloud.running.values(), total)


def usage_by_node(cloud: Cloud) -> list[NodeUsage]:
    """Return the usage of every node that is present, in node order."""
    running: dict[str, list[Running]] = {}
    for instance in cloud.running.values():
        running.setdefault(instance.node, []).append(instance)
    there = [node for node in cloud.nodes.values() if node.status is not NodeStatus.REMOVED]
    there.sort(key=lambda node: node.index)
    return [NodeUsage(node, _usage(cloud, running.get(node.name, ()), node.capacity.cores)) for node in there]


def _usage(cloud: Cloud, running: Iterable[Running], total: int) -> Usage:
    cores: Counter[Market] = Counter()
    counts: Counter[Market] = Counter()
    for instance in running:
        cores[instance.market] += cloud.flavors[instance.flavor].resources.cores
        counts[instance.market] += 1
    return Usage(cores[Market.ON_DEMAND], cores[Market.SPOT], total, counts[Market.ON_DEMAND], counts[Market.SPOT])
