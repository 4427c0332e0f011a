"""Rejected spot starts of the past, followed as virtual instances: would they have been evicted?

Each is injected at its moment into a replay of the log, as the youngest there, and evicts nobody (`replay`). The log
holds what the cloud admitted under its SLA, so that is the company in which it is followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from app.domain.values import Policy
from app.engine.intervals import EDGES_US
from app.forecast.replay import Replay
from app.forecast.replayed import History

LONGEST_US = EDGES_US[-1]
"""The longest lifetime that is followed, 57 days. No world lives longer."""


class Followed(NamedTuple):
    """A past start. said: the probability that was estimated at its moment, without a level."""

    at_us: int
    lifetime_us: int
    said: float


class KnownEnd(NamedTuple):
    """A followed start whose end is known. evicted: within its declared lifetime."""

    start: Followed
    evicted: bool


@dataclass(slots=True)
class _OfFlavor:
    """The pending starts of a flavor, and the replay that follows them from `begin_us` on; None if it was given up."""

    begin_us: int
    pending: list[Followed] = field(default_factory=list)
    replay: Replay | None = None


class VirtualStarts:
    """Follows rejected starts. What it finds does not depend on when it is asked to go on."""

    def __init__(self, policy: Policy) -> None:
        self._policy = replace(policy, horizon_us=LONGEST_US + 1)
        self._flavors: dict[str, _OfFlavor] = {}

    @property
    def kept_bytes(self) -> int:
        """The memory of the replays."""
        return sum(array.nbytes for one in self._flavors.values() if one.replay for array in one.replay.run)

    def forget_replays(self) -> None:
        """Give up the replays. They begin anew when they are needed, and find the same."""
        for one in self._flavors.values():
            one.replay = None

    def follow(self, flavor: str, start: Followed, begin_us: int) -> None:
        """Follow a start from now on. A flavor's first replay begins at `begin_us`, with the recorded placements."""
        self._flavors.setdefault(flavor, _OfFlavor(begin_us)).pending.append(start)

    def advance(self, history: History, until_us: int) -> Iterator[KnownEnd]:
        """Go on through the operations before `until_us`, and return the starts whose ends became known.

        A start that the replay has no room for, or that came to be known too late, is dropped.
        """
        for flavor, one in self._flavors.items():
            if one.pending:
                evicted_us = self._lead(history, flavor, one, until_us)
                pending, one.pending = one.pending, []
                for start in pending:
                    lasted_us = evicted_us.get(start.at_us)
                    if lasted_us is None:
                        continue
                    if lasted_us <= start.lifetime_us or start.at_us + start.lifetime_us < until_us:
                        yield KnownEnd(start, lasted_us <= start.lifetime_us)
                    else:
                        one.pending.append(start)

    def _lead(self, history: History, flavor: str, one: _OfFlavor, until_us: int) -> dict[int, int]:
        """Lead the replay on; return how long each pending start that was injected stays, by its moment.

        A start that is still there stays endlessly.
        """
        operations = history.operations(until_us)
        first = int(np.searchsorted(operations.at_us, one.begin_us))
        if one.replay is None:
            demand = history.flavors[flavor]
            one.replay = Replay(history.opening(one.begin_us), one.begin_us, demand, self._policy)
        at_us, times_us = operations.at_us[first:], np.array([start.at_us for start in one.pending], np.int64)
        gaps = np.searchsorted(at_us, times_us, side="right")
        rest = operations.part(first + one.replay.done)
        one.replay.advance(rest, history.node_count, history.row_count, gaps)
        samples = one.replay.samples(at_us, until_us, times_us)
        lasted = np.where(samples.was_evicted, samples.lasted_us, LONGEST_US + 1)
        return dict(zip(samples.started_us.tolist(), lasted.tolist(), strict=True))
