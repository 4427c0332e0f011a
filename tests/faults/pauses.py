"""Measures pauses in which the service as a whole took no writes, by kind of fault."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from faults.plan import BOUNDED, Inflicted
from faults.record import Attempt
from faults.violations import Violation

READS = frozenset({"show_cloud", "show_instance", "list_running", "list_nodes", "list_handovers", "list_events"})
_AFTERMATH_S = 3.0
"""So long after its end a fault still counts as the cause of a pause, unless the next one has begun."""


@dataclass(frozen=True)
class Pause:
    """The longest time without an acknowledged write to a cloud, while a fault was in force or just after."""

    inflicted: Inflicted
    cloud: str
    seconds: float


def longest_pauses(inflicted: Sequence[Inflicted], attempts: Iterable[Attempt], ended: float) -> list[Pause]:
    """For each fault, the longest pause of the cloud that paused longest."""
    writes: defaultdict[str, list[float]] = defaultdict(list)
    for one in attempts:
        if one.what not in READS and one.is_done:
            writes[one.cloud].append(one.answered)
    begins = [*(one.begun for one in inflicted[1:]), ended]
    pauses = []
    for one, next_begins in zip(inflicted, begins, strict=True):
        until = min(one.ended + _AFTERMATH_S, next_begins)
        longest = max((_longest_gap(sorted(times), one.begun, until), cloud) for cloud, times in writes.items())
        pauses.append(Pause(one, longest[1], longest[0]))
    return pauses


def _longest_gap(times: Sequence[float], begun: float, until: float) -> float:
    """A gap that was there when the fault began counts from then on only."""
    marks = [begun, *(time for time in times if begun < time < until), until]
    return max(later - earlier for earlier, later in pairwise(marks))


def by_kind(pauses: Iterable[Pause]) -> dict[str, Pause]:
    """The longest pause of each kind of fault."""
    longest: dict[str, Pause] = {}
    for pause in pauses:
        kind = pause.inflicted.fault.kind
        if kind not in longest or pause.seconds > longest[kind].seconds:
            longest[kind] = pause
    return longest


def too_long(pauses: Iterable[Pause], most_s: float) -> list[Violation]:
    """Pauses above what is allowed, after the kinds of faults for which there is a bound."""
    return [
        Violation("pause", pause.cloud, f"no write was acknowledged for {pause.seconds:.1f} s during {_told(pause)}")
        for pause in pauses
        if pause.inflicted.fault.kind in BOUNDED and pause.seconds > most_s
    ]


def _told(pause: Pause) -> str:
    fault = pause.inflicted.fault
    return f"{fault.kind} of {fault.target} at {pause.inflicted.begun:.1f} (second {fault.at_s:.0f} of the load)"
