"""Times when room is free, found by trying every deadline of every hand-over, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.domain.values import Resources
from app.engine.cloud import Cloud, Handover, Running


def naive_ready_us(
    cloud: Cloud, places: Sequence[str], flavor: str, evicted: Sequence[str], deadline_us: int, now_us: int
) -> int | None:
    """Return what `Cloud.ready_us` promises: the time when the last of the nodes is ready."""
    times = [_ready_us(cloud, (node, places.count(node)), flavor, evicted, deadline_us, now_us) for node in places]
    return max((time for time in times if time is not None), default=None)


def _ready_us(
    cloud: Cloud, at: tuple[str, int], flavor: str, evicted: Sequence[str], deadline_us: int, now_us: int
) -> int | None:
    node, count = at

    def size(name: str) -> Resources:
        return cloud.flavors[name].resources

    def machines(of: Iterable[Running | Handover]) -> list[tuple[Running | Handover, Resources]]:
        return [(one, size(one.flavor)) for one in of for place in one.nodes or (one.node,) if place == node]

    leaving = [demand for _, demand in machines(cloud.running[name] for name in evicted)]
    there = [(deadline_us, demand) for demand in leaving]
    there += [(one.deadline_us, demand) for one, demand in machines(cloud.handovers.values())]
    booked = [*[size(flavor)] * count, *(demand for _, demand in machines(cloud.running.values()))]
    for until_us in (now_us, *sorted(at_us for at_us, _ in there)):
        stays = [demand for at_us, demand in there if at_us > until_us]
        if _is_within(cloud.nodes[node].capacity, booked, leaving, stays):
            return until_us if until_us > now_us else None
    raise AssertionError("it never fits")


def _is_within(
    capacity: Resources, booked: Sequence[Resources], leaving: Sequence[Resources], stays: Sequence[Resources]
) -> bool:
    for kind, size in enumerate(capacity):
        used = sum(one[kind] for one in booked) - sum(one[kind] for one in leaving) + sum(one[kind] for one in stays)
        if size and used > size:
            return False
    return True
