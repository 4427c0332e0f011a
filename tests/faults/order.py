"""Bounds the place in the log at which an operation can have looked.

It is not before anything that was acknowledged when the operation was sent, and not behind anything that was only asked
for after it was answered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from faults.claims import claims_of, is_asked_by, parts_of_batch
from faults.record import Attempt
from faults.timeline import Past
from faults.violations import Findings

Event = Mapping[str, Any]

_SEQ_TOLD = frozenset({"start", "drill", "show_cloud", "change_policy"})


class Order:
    """The bounds; see the module's docstring. The attempts are those at one cloud."""

    def __init__(self, past: Past, attempts: Sequence[Attempt], findings: Findings) -> None:
        self._past = past
        self._findings = findings
        self._times: list[float] = []
        self._floors: list[int] = []
        self._born = self._trace(_asking(attempts))
        for attempt in sorted(attempts, key=lambda one: one.answered):
            if not attempt.is_unknown:
                floor = max(self._floors[-1] if self._floors else 0, self._proven(attempt))
                self._times.append(attempt.answered)
                self._floors.append(floor)

    def floor(self, sent: float) -> int:
        """The highest seq that some answer had shown before this moment."""
        place = bisect_left(self._times, sent)
        return self._floors[place - 1] if place else 0

    def ceiling(self, answered: float) -> int:
        """The highest seq of an event that somebody may have asked for until this moment."""
        return bisect_right(self._born, answered)

    def window(self, attempt: Attempt) -> tuple[int, int]:
        """The seqs after which an answer may show the cloud."""
        return self.floor(attempt.sent), self.ceiling(attempt.answered)

    def _trace(self, asking: Mapping[tuple[str, str], list[Attempt]]) -> list[float]:
        """Find who asked for each event, and so the moment from which on it can have been there."""
        born, newest = [], 0.0
        for event in self._past.log:
            key = _asked_for(event)
            if key is not None:
                newest = max(newest, self._born_at(event, asking.get(key, []), newest))
            born.append(newest)
        return born

    def _born_at(self, event: Event, asking: list[Attempt], newest: float) -> float:
        """Return the time at which somebody may first have asked for it; `newest` is that of the events before it."""
        may_have = [one for one in asking if _may_have_caused(one, event)]
        if not may_have:
            self._findings.add("unasked", "nobody asked for this event, or whoever did was refused", asking, [event])
            return newest
        in_order = [one for one in may_have if one.is_unknown or one.answered >= newest]
        if not in_order:
            what = "the event stands behind one that was only asked for after whoever asked for this was answered"
            self._findings.add("order", what, may_have, [event])
            return newest
        return min(one.sent for one in in_order)

    def _proven(self, attempt: Attempt) -> int:
        """Return the proven length of the log at the time of this answer."""
        seqs = [self._first_true(attempt)]
        if attempt.is_done and attempt.what in _SEQ_TOLD:
            seqs.append(attempt.answer["seq"])
        if attempt.is_done and attempt.what == "list_events":
            seqs += [event["seq"] for event in attempt.answer["events"][-1:]]
        latest = self.ceiling(attempt.answered)  # what is told of later events is false, and proves nothing
        return max((seq for seq in seqs if seq <= latest), default=0)

    def _first_true(self, attempt: Attempt) -> int:
        """The first seq, not before the attempt's floor, from which on all that is claimed was true at least once."""
        floor, first = self.floor(attempt.sent), 0
        for claim in claims_of(self._past, attempt) or ():
            if not claim.holds(claim.timeline.at(floor)):
                later = (seq for seq, value in claim.timeline.changes() if seq > floor and claim.holds(value))
                first = max(first, next(later, 0))
        return first


def _asking(attempts: Iterable[Attempt]) -> defaultdict[tuple[str, str], list[Attempt]]:
    """Return who asked, by what was asked for."""
    asking: defaultdict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        for part in parts_of_batch(attempt) if attempt.what == "batch" else (attempt,):
            name = "" if part.what in ("drill", "change_policy") else part.asked.get("id") or part.asked.get("name", "")
            asking[part.what, name].append(part)
    return asking


def _asked_for(event: Event) -> tuple[str, str] | None:
    """Return the request that such an event needs; None if nobody asks for it."""
    what = _WHAT.get(event["kind"])
    if event["kind"] == "instance_evicted" and event["reason"] == "drill":
        what = "drill"
    if what is None:
        return None
    return what, "" if what in ("drill", "change_policy") else next(event[name] for name in _NAMES if name in event)


_NAMES = ("id", "node", "flavor")
_WHAT = {
    "instance_started": "start",
    "instance_rejected": "start",
    "instance_stopped": "stop",
    "node_added": "add_node",
    "node_drained": "drain_node",
    "node_opened": "open_node",
    "node_removed": "remove_node",
    "flavor_added": "add_flavor",
    "policy_changed": "change_policy",
    "eviction_confirmed": "confirm",
    "instance_moved": "move",
}


def _may_have_caused(attempt: Attempt, event: Event) -> bool:
    if not (attempt.is_done or attempt.is_unknown):
        return False
    if attempt.what == "start":
        return is_asked_by(event, attempt.asked)
    if attempt.what == "move":
        return bool(attempt.asked["node"] == event["node"])
    if attempt.what == "change_policy":
        return bool(attempt.asked["policy"].items() <= event["policy"].items())
    if attempt.what == "drill":
        return (not attempt.is_done or attempt.answer["seq"] == event["seq"]) and attempt.asked.get(
            "instance", event["id"]
        ) == event["id"]
    return True


def batches_of(attempts: Iterable[Attempt]) -> Iterator[tuple[list[str], list[Attempt]]]:
    """Each batch's new ids in their order, of those that nothing but this batch asks to start, and its attempts."""
    attempts = list(attempts)
    alone = {one.asked["id"] for one in attempts if one.what == "start"}
    batches: defaultdict[tuple[str, ...], list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.what == "batch":
            ids = tuple(step["start"]["id"] for step in one.asked["operations"] if "start" in step)
            if ids and not alone & set(ids):
                batches[ids].append(one)
    for ids, asked in batches.items():
        yield list(ids), asked
