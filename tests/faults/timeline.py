"""The state after each event of a log: of one thing, and of everything in a cloud."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any


class Timeline:
    """The values that one thing had, each from a seq on. Before the first it has the value `none`."""

    def __init__(self, none: Any = None) -> None:
        self._seqs = [0]
        self._values = [none]

    def set(self, seq: int, value: Any) -> None:
        """From this seq on the value is another; seqs come in ascending order."""
        if value == self._values[-1]:
            return
        if self._seqs[-1] == seq:
            self._values[-1] = value
        else:
            self._seqs.append(seq)
            self._values.append(value)

    def at(self, seq: int) -> Any:
        """The value after this event."""
        return self._values[bisect_right(self._seqs, seq) - 1]

    def during(self, first: int, last: int) -> Iterator[Any]:
        """The values after the events from the first to the last; none where the last stands before the first."""
        if first <= last:
            yield self.at(first)
            yield from self._values[bisect_right(self._seqs, first) : bisect_right(self._seqs, last)]

    def changes(self) -> Iterator[tuple[int, Any]]:
        """The seqs from which on there was another value, and that."""
        yield from zip(self._seqs, self._values, strict=True)


class Past:
    """A cloud's whole past, read from its log: every thing's timeline.

    By name or id: `instances` (the event of the start, and that of the end or None), `extensions` (all decisions so
    far), `places` (the node where it has its room; None: it does not run), `nodes`
    (status and capacity; None: there is none), `loads` (how many on-demand instances run on a node),
    `flavors` (the demand), `handovers` (`waiting`, `confirmed` or None). Of the cloud: `policy`, `counts`, `spot` (how
    many spot instances run), `shelf`
    (what a list of nodes says), `running` and `waiting` (the ids of all that run, and of all hand-overs that wait).
    `decided`, `ended`: the events of all starts and ends. `inside`: seqs after which nobody can see the log, since
    they lie within what is committed as a whole, with the reason.
    """

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.instances: defaultdict[str, Timeline] = defaultdict(Timeline)
        self.extensions: defaultdict[str, Timeline] = defaultdict(lambda: Timeline(()))
        self.places: defaultdict[str, Timeline] = defaultdict(Timeline)
        self.nodes: defaultdict[str, Timeline] = defaultdict(Timeline)
        self.loads: defaultdict[str, Timeline] = defaultdict(lambda: Timeline(0))
        self.flavors: defaultdict[str, Timeline] = defaultdict(Timeline)
        self.handovers: defaultdict[str, Timeline] = defaultdict(Timeline)
        self.policy, self.counts, self.spot = Timeline(), Timeline(), Timeline(0)
        self.shelf, self.running, self.waiting = Timeline(()), Timeline(frozenset()), Timeline(frozenset())
        self.decided: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, dict[str, Any]] = {}
        self.inside: dict[int, str] = {}

    @property
    def last_seq(self) -> int:
        return len(self.log)
