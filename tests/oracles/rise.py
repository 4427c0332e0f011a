"""The rise curve in plain Python: every start, interval and room by itself, from the events of the log."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import log

from app.domain.events import InstanceRejected, InstanceStarted, InstanceStopped, Recorded
from app.domain.values import Market, Resources
from oracles.pressing import pressing

BIN_US = 600_000_000
DAY_US = 144 * BIN_US
Change = tuple[int, int, int, int]
"""Time, 0 for an end that the log does not hold (it precedes the log's events of its time), position, size."""


def changes(log: Sequence[Recorded], flavors: dict[str, Resources], resource: int) -> list[Change]:
    """Return how the on-demand load changes, in order."""
    found: list[Change] = []
    running: dict[str, int] = {}
    counted = pressing(log)
    for item in log:
        event = item.event
        if isinstance(event, InstanceRejected) and event.instance_id not in counted:
            continue
        if isinstance(event, InstanceStarted | InstanceRejected) and event.market is Market.ON_DEMAND:
            size = flavors[event.flavor][resource]
            found.append((event.at_us, 1, 2 * item.seq, size))
            if isinstance(event, InstanceStarted):
                running[event.instance_id] = size
            elif event.lifetime_us:
                found.append((event.at_us + event.lifetime_us, 0, item.seq, -size))
            else:
                found.append((event.at_us, 1, 2 * item.seq + 1, -size))
        elif isinstance(event, InstanceStopped) and event.instance_id in running:
            found.append((event.at_us, 1, 2 * item.seq, -running.pop(event.instance_id)))
    return sorted(found)


def highest(steps: Sequence[Change], begin_us: int, end_us: int) -> tuple[int, int]:
    """Return the load just before `begin_us`, and the highest from then to before `end_us`."""
    level = sum(size for at_us, _, _, size in steps if at_us < begin_us)
    top = load = level
    for at_us, _, _, size in steps:
        if begin_us <= at_us < end_us:
            load += size
            top = max(top, load)
    return level, top


def shares(
    steps: Sequence[Change], begin_us: int, until_us: int, rooms: Sequence[int], intervals: int
) -> list[list[float]]:
    """Return G(room, L) for each room and each interval's end L: the product-limit formula over all starts.

    A greater room never has a greater share than a smaller one of them.
    """
    bins = (until_us - begin_us) // BIN_US
    starts = [begin_us + start * BIN_US for start in range(bins)]
    spans = [0, *(BIN_US * 2**k for k in range(intervals))]
    rises = [
        [_rise(steps, start, span) for start in starts if start + span <= begin_us + bins * BIN_US] for span in spans
    ]
    return _falling([_share_passed(rises, room) for room in rooms])


def heights(
    steps: Sequence[Change], begin_us: int, until_us: int, tops: Sequence[int], intervals: int
) -> list[list[float]]:
    """Return the share of starts whose highest load by each interval's end lay above each top: likewise.

    Every start is at risk at first, also one whose load is above the top at once.
    """
    bins = (until_us - begin_us) // BIN_US
    starts = [begin_us + start * BIN_US for start in range(bins)]
    highest_loads = [
        [highest(steps, start, start + span)[1] for start in starts if start + span <= begin_us + bins * BIN_US]
        for span in (BIN_US * 2**k for k in range(intervals))
    ]
    return _falling([_share_passed([[0] * bins, *highest_loads], top) for top in tops])


def activity(asked: Sequence[tuple[int, int]], begin_us: int, until_us: int, capacity: int) -> float:
    """Return by how much more was asked for on the last day, whole bins and the present one, than on a usual day.

    `asked`: time and size of each on-demand start before `until_us`.
    """
    bins = (until_us - begin_us) // BIN_US
    since_us = begin_us + max(bins - 144, 0) * BIN_US
    usual = sum(size for _, size in asked) * DAY_US / (until_us - begin_us)
    last = sum(size for at_us, size in asked if at_us >= since_us) * DAY_US / (until_us - since_us)
    return log((last + usual / 2 + capacity / 50) / (usual * 1.5 + capacity / 50)) if asked else 0.0


def _falling(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[min(column) for column in zip(*rows[: at + 1], strict=True)] for at in range(len(rows))]


def _rise(steps: Sequence[Change], start_us: int, span_us: int) -> int:
    level, top = highest(steps, start_us, start_us + span_us)
    return top - level


def _share_passed(rises: Sequence[Sequence[int]], room: int) -> list[float]:
    survival, found = 1.0, []
    for before, within in itertools.pairwise(rises):
        at_risk = [rise for earlier, rise in zip(before, within, strict=False) if earlier <= room]
        survival *= 1.0 - sum(rise > room for rise in at_risk) / max(len(at_risk), 1)
        found.append(1.0 - survival)
    return found
