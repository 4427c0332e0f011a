"""The summary that is printed at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faults.pauses import Pause, by_kind
from faults.record import NO_CONNECTION
from faults.run import Outcome
from faults.violations import Violation

_MOST_TOLD = 20
_NAMES = {None: "no answer", NO_CONNECTION: "no connection"}


def summarise(outcome: Outcome, pauses: Sequence[Pause], violations: Sequence[Violation]) -> str:
    """The violations with what shows them, then the figures."""
    lines = [violation.told() for violation in violations[:_MOST_TOLD]]
    if len(violations) > _MOST_TOLD:
        lines.append(f"... and {len(violations) - _MOST_TOLD} more: see violations.txt")
    return "\n".join([*lines, "", *_load(outcome), "", *_faults(outcome, pauses), "", _verdict(violations)])


def _load(outcome: Outcome) -> list[str]:
    unknown = sum(attempt.is_unknown for attempt in outcome.attempts)
    answers = Counter(_NAMES.get(attempt.status, attempt.status) for attempt in outcome.attempts)
    asked = Counter(attempt.what for attempt in outcome.attempts)
    events = {cloud: len(log) for cloud, log in outcome.logs.items()}
    streams = sum(follow.connections for follow in outcome.follows)
    return [
        f"operations: {len(outcome.attempts)} in {outcome.ended - outcome.begun:.0f} s, {unknown} with unknown outcome",
        f"    answers: {_counts(answers)}",
        f"    asked:   {_counts(asked)}",
        f"events: {_counts(Counter(events))}; {len(outcome.follows)} followers over {streams} streams",
    ]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def _faults(outcome: Outcome, pauses: Sequence[Pause]) -> list[str]:
    inflicted = Counter(one.fault.kind for one in outcome.inflicted)
    longest = by_kind(pauses)
    lines = ["fault              times   longest pause of a cloud (no acknowledged write)"]
    return lines + [f"{kind:18} {times:5}   {longest[kind].seconds:6.2f} s" for kind, times in inflicted.items()]


def _verdict(violations: Sequence[Violation]) -> str:
    rules = Counter(violation.rule for violation in violations)
    return f"violations: {len(violations)}" + (f" ({_counts(rules)})" if violations else "")
