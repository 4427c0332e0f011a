"""The violations that the checker finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faults.record import Attempt

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Violation:
    """A broken rule, by name, with the operations and the events that show it."""

    rule: str
    cloud: str
    what: str
    attempts: Sequence[Attempt] = ()
    events: Sequence[Event] = ()

    def told(self) -> str:
        """Some lines for people."""
        lines = [f"[{self.rule}] {self.cloud}: {self.what}"]
        lines += [f"    operation {attempt.told()}" for attempt in self.attempts]
        lines += [f"    event {dict(event)}" for event in self.events]
        return "\n".join(lines)


@dataclass
class Findings:
    """The violations found in one cloud so far."""

    cloud: str
    found: list[Violation] = field(default_factory=list)

    def add(self, rule: str, what: str, attempts: Sequence[Attempt] = (), events: Sequence[Event] = ()) -> None:
        self.found.append(Violation(rule, self.cloud, what, tuple(attempts), tuple(events)))
