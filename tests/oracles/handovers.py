"""Times when room is free, found by trying every deadline of every hand-over, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.values import Resources
from app.engine.cloud import Cloud


def naive_ready_us(
    cloud: Cloud, node: str, flavor: str, evicted: Sequence[str], deadline_us: int, now_us: int
) -> int | None:
    """Return what `Cloud.ready_us` promises."""

    def size(name: str) -> Resources:
        return cloud.flavors[name].resources

    leaving = [size(cloud.running[name].flavor) for name in evicted if cloud.running[name].node == node]
    there = [(deadline_us, demand) for demand in leaving]
    there += [(one.deadline_us, size(one.flavor)) for one in cloud.handovers.values() if one.node == node]
    booked = [size(flavor), *(size(one.flavor) for one in cloud.running.values() if one.node == node)]
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
