"""Rules for records that a log could not take unchanged. Every rule has a permanent name (docs/import.md)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from app.importing.rules.records import FileLine

LINES_NAMED = 5


class Effect(StrEnum):
    """The effect of a rule on a line."""

    LEFT_OUT = "left_out"
    CHANGED = "changed"
    NOTED = "noted"


class PastRule(StrEnum):
    """The names of the rules. `RULES` describes each."""

    STOP_WITHOUT_START = "stop_without_start"
    START_WHILE_RUNNING = "start_while_running"
    NEGATIVE_DURATION = "negative_duration"
    UNKNOWN_START = "unknown_start"
    UNKNOWN_DURATION = "unknown_duration"
    UNKNOWN_CORES = "unknown_cores"
    NEVER_RAN = "never_ran"
    PARTIAL_EXECUTION = "partial_execution"
    TOO_WIDE = "too_wide"
    REJECTED_SPOT = "rejected_spot"
    NOTICE = "notice"
    QUOTA = "quota"
    MOVE = "move"
    NODES_REPLACED = "nodes_replaced"
    UNMET_DEMAND = "unmet_demand"
    DUPLICATE = "duplicate"
    BEFORE_RECORD = "before_record"
    UNREADABLE_SERVER = "unreadable_server"
    RENAMED = "renamed"
    REORDERED = "reordered"
    UNKNOWN_WAIT = "unknown_wait"
    REQUESTED_CORES = "requested_cores"
    ROUNDED_UP = "rounded_up"
    SPLIT = "split"
    UNKNOWN_FLAVOR = "unknown_flavor"
    RESIZED = "resized"
    SHELVED = "shelved"
    SIZE_OF_LATER = "size_of_later"
    BEGAN_BEFORE = "began_before"
    GAP_SHORTENED = "gap_shortened"
    STOPPED_AT_END = "stopped_at_end"
    DRAWN_UP_END = "drawn_up_end"
    NODE_KEPT = "node_kept"
    ZERO_DURATION = "zero_duration"
    RUNNING_AT_START = "running_at_start"
    RUNNING_AT_END = "running_at_end"
    ENDS_WITH_RECORD = "ends_with_record"
    LONG_GAP = "long_gap"
    OVERCOMMITTED = "overcommitted"
    NO_ROOM = "no_room"


RULES: dict[PastRule, tuple[Effect, str]] = {
    PastRule.STOP_WITHOUT_START: (Effect.LEFT_OUT, "a stop of what does not run: it began before the record, or ended"),
    PastRule.START_WHILE_RUNNING: (Effect.LEFT_OUT, "a start of an id that runs already"),
    PastRule.NEGATIVE_DURATION: (Effect.LEFT_OUT, "an instance that stops before it starts"),
    PastRule.UNKNOWN_START: (Effect.LEFT_OUT, "a job without a submit time"),
    PastRule.UNKNOWN_DURATION: (Effect.LEFT_OUT, "a job without a run time"),
    PastRule.UNKNOWN_CORES: (Effect.LEFT_OUT, "a job with neither allocated nor requested processors"),
    PastRule.NEVER_RAN: (Effect.LEFT_OUT, "a job that was cancelled before it ran, or an instance that never ran"),
    PastRule.PARTIAL_EXECUTION: (Effect.LEFT_OUT, "a part of a job that has a line for the whole, too"),
    PastRule.TOO_WIDE: (Effect.LEFT_OUT, "an instance that is wider than every node or every flavor"),
    PastRule.REJECTED_SPOT: (Effect.LEFT_OUT, "a spot start that was rejected: it never was a load"),
    PastRule.NOTICE: (Effect.LEFT_OUT, "a notice of risk or of an eviction: it decided nothing"),
    PastRule.QUOTA: (Effect.LEFT_OUT, "a quota of an owner: what is brought has no owners"),
    PastRule.MOVE: (Effect.LEFT_OUT, "a move to another node or size: it is placed anew, and stays as it is"),
    PastRule.NODES_REPLACED: (Effect.LEFT_OUT, "a change of a node, where --nodes gives the platform"),
    PastRule.UNMET_DEMAND: (Effect.LEFT_OUT, "a server that found no host: demand that was not met"),
    PastRule.DUPLICATE: (Effect.LEFT_OUT, "a server that was recorded before, in another table or database"),
    PastRule.BEFORE_RECORD: (Effect.LEFT_OUT, "a server that ended before the time from which the record is whole"),
    PastRule.UNREADABLE_SERVER: (Effect.LEFT_OUT, "a server with an id or a time that cannot be one"),
    PastRule.RENAMED: (Effect.CHANGED, "an id that was used before: .r2, .r3, ... is added"),
    PastRule.REORDERED: (Effect.CHANGED, "a time before that of an earlier line: the past is sorted by time"),
    PastRule.UNKNOWN_WAIT: (Effect.CHANGED, "a job without a wait time: it starts when it is submitted"),
    PastRule.REQUESTED_CORES: (Effect.CHANGED, "a job without allocated processors: the requested ones count"),
    PastRule.ROUNDED_UP: (Effect.CHANGED, "a size between two flavors: the larger one is taken"),
    PastRule.SPLIT: (Effect.CHANGED, "a job wider than a node: it becomes instances .p1, .p2, ..."),
    PastRule.UNKNOWN_FLAVOR: (Effect.CHANGED, "a flavor that the log did not add: it is made of the line's size"),
    PastRule.RESIZED: (Effect.CHANGED, "a server that was resized: it becomes an instance for each size, .2, .3, ..."),
    PastRule.SHELVED: (Effect.CHANGED, "a server that was shelved and left its host: an instance for each stay"),
    PastRule.SIZE_OF_LATER: (Effect.CHANGED, "the size before a resize is not known: the last one counts"),
    PastRule.BEGAN_BEFORE: (Effect.CHANGED, "a server that ran when the whole record begins: it starts there"),
    PastRule.GAP_SHORTENED: (Effect.CHANGED, "nothing happened for longer than --longest-gap: time is cut out"),
    PastRule.STOPPED_AT_END: (Effect.CHANGED, "no end in the record: it stops at the end, as --stop-at-end asks for"),
    PastRule.DRAWN_UP_END: (
        Effect.CHANGED,
        "evicted or rejected in the record, not here: its declared lifetime ends it",
    ),
    PastRule.NODE_KEPT: (Effect.CHANGED, "a node that was removed while on-demand instances run on it: it is drained"),
    PastRule.ZERO_DURATION: (Effect.NOTED, "an instance that stops when it starts"),
    PastRule.RUNNING_AT_START: (Effect.NOTED, "starts in the first minute: it may have run before the record began"),
    PastRule.RUNNING_AT_END: (Effect.NOTED, "no end in the record: it runs on in the cloud"),
    PastRule.ENDS_WITH_RECORD: (Effect.NOTED, "stops in the last minute: it may have run on after the record"),
    PastRule.LONG_GAP: (Effect.NOTED, "nothing happened for more than a day; --longest-gap would cut it"),
    PastRule.OVERCOMMITTED: (Effect.NOTED, "a recorded node held more cores than any node of --nodes has"),
    PastRule.NO_ROOM: (Effect.NOTED, "a start that the platform had no room for: it is in the log as rejected"),
}


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count} times"


class RuleCounts:
    """Counts how often each rule applied, and keeps the first places."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = list(files)
        self._counts: dict[PastRule, int] = {}
        self._places: dict[PastRule, list[FileLine]] = {}

    def add(self, rule: PastRule, place: FileLine) -> None:
        """Count that the rule applied to this line."""
        self.add_many(rule, 1, (place,))

    def add_many(self, rule: PastRule, count: int, places: Iterable[FileLine]) -> None:
        """Count that the rule applied this often, first to these lines."""
        if not count:
            return
        self._counts[rule] = self._counts.get(rule, 0) + count
        named = self._places.setdefault(rule, [])
        named.extend(list(places)[: LINES_NAMED - len(named)])

    def count(self, rule: PastRule) -> int:
        """Return how often the rule applied."""
        return self._counts.get(rule, 0)

    def told(self) -> str:
        """Return what was left out and why, with the first lines, as the end of a sentence."""
        left_out = [rule for rule, (effect, _) in RULES.items() if effect is Effect.LEFT_OUT and rule in self._counts]
        return "".join(
            f"; {rule}, {_times(self._counts[rule])}: {RULES[rule][1]} ({self._lines(rule)})" for rule in left_out
        )

    def _lines(self, rule: PastRule) -> str:
        several = len(self._files) > 1
        lines = [f"{self._files[one.file]}:{one.line}" if several else f"{one.line}" for one in self._places[rule]]
        more = ", ..." if self._counts[rule] > len(lines) else ""
        return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}{more}"

    def report(self) -> list[dict[str, Any]]:
        """Return every rule that applied, as JSON values, in the order of `RULES`."""
        return [
            {
                "rule": str(rule),
                "effect": str(effect),
                "count": self._counts[rule],
                "what": what,
                "lines": [{"file": self._files[place.file], "line": place.line} for place in self._places[rule]],
            }
            for rule, (effect, what) in RULES.items()
            if rule in self._counts
        ]
