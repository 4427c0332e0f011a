"""Capacity, placement and victims, as docs/architecture.md and README.md state them; written for clearness alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

RESOURCES = ("cores", "memory_mib", "disk_gib")
Amounts = dict[str, int]


@dataclass
class Instance:
    """A running instance. `overruns_at`: when its declared lifetime is over; what `goes_first` has none."""

    id: str
    seq: int
    is_spot: bool
    demand: Amounts
    overruns_at: datetime | None
    goes_first: bool = False

    def overruns(self, now: datetime) -> bool:
        """Return True if its declared lifetime is over."""
        return not self.goes_first and self.overruns_at is not None and now > self.overruns_at


@dataclass
class Node:
    """A node with what runs on it, in the order of the starts."""

    name: str
    capacity: Amounts
    status: str = "open"
    running: list[Instance] = field(default_factory=list)

    def free(self) -> Amounts:
        """Return what no instance holds; 0 for resources that the node does not count."""
        return {
            name: self.capacity[name] and self.capacity[name] - sum(one.demand[name] for one in self.running)
            for name in RESOURCES
        }

    def holds(self, demand: Amounts, leaving: Iterable[Instance] = ()) -> bool:
        """Return True if the demand fits after some instances have left."""
        gone = {one.id for one in leaving}
        stay = [one.demand for one in self.running if one.id not in gone]
        return all(
            not self.capacity[name] or sum(one[name] for one in (*stay, demand)) <= self.capacity[name]
            for name in RESOURCES
        )

    def is_over(self) -> bool:
        return any(amount < 0 for amount in self.free().values())

    def spot(self) -> list[Instance]:
        return [one for one in self.running if one.is_spot]

    def spot_to_go(self, now: datetime) -> list[Instance]:
        """Spot instances in the order in which they would go: what goes first, who overruns, younger before older."""
        return sorted(self.spot(), key=lambda one: (one.goes_first, one.overruns(now), one.seq), reverse=True)


def end_of(started: datetime, lifetime_s: float | None) -> datetime | None:
    """Return the end of a declared lifetime."""
    return None if lifetime_s is None else started + timedelta(seconds=lifetime_s)


def first_fit(nodes: Sequence[Node], demand: Amounts) -> Node | None:
    """The first open node, in node order, that has room."""
    return next((node for node in nodes if node.status == "open" and node.holds(demand)), None)


def could_take(nodes: Sequence[Node], demand: Amounts) -> Node | None:
    """An open node that would have room without its spot instances."""
    return next((node for node in nodes if node.status == "open" and node.holds(demand, node.spot())), None)


def could_displace(nodes: Sequence[Node], demand: Amounts, now: datetime) -> Node | None:
    """An open node that would have room without its overrunning instances."""
    for node in nodes:
        if node.status == "open" and node.holds(demand, [one for one in node.spot() if one.overruns(now)]):
            return node
    return None


def faults_of_victims(node: Node, demand: Amounts, victims: Sequence[str], now: datetime) -> Iterator[str]:
    """Find faults in the victims of a start, which still run on its node.

    They must be a minimal set, youngest first, and reach no farther back in age than making room needs.
    """
    order = node.spot_to_go(now)
    chosen = [one for one in order if one.id in victims]
    if [one.id for one in chosen] != list(victims):
        yield "the victims are not spot instances of the node, youngest first"
        return
    if not node.holds(demand, chosen):
        yield "the victims do not make room"
    for spared in chosen:
        if node.holds(demand, [one for one in chosen if one is not spared]):
            yield f"{spared.id} was evicted without need"
    younger = order[: order.index(chosen[-1])]
    if node.holds(demand, younger):
        yield f"{chosen[-1].id} was evicted, although younger ones alone would have made room"
