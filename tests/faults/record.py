"""The record of all operations: what was asked of whom and when, and what was answered and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

NO_CONNECTION = 0
"""In place of a status: nobody took the request."""
SURELY_NOT = frozenset({NO_CONNECTION, 429})
SURELY_NOT_CODES = frozenset(
    {"preemptible.service.overloaded", "preemptible.log.contended", "preemptible.service.stopping"}
)
"""Refusals after which nothing was decided (docs/client.md); any other 5xx, or no answer, leaves that open."""


@dataclass(slots=True)
class Attempt:
    """One request. `asked` is its meaning; `status` is None where no answer came.

    `sent` and `answered` are readings of `time.monotonic`; an attempt without an answer has the time it was given up.
    """

    number: int
    what: str
    cloud: str
    process: str
    asked: Mapping[str, Any]
    sent: float
    answered: float = 0.0
    status: int | None = None
    answer: Any = None

    @property
    def code(self) -> str | None:
        """The error's permanent code, where the answer is an error."""
        errors = self.answer.get("errors") if isinstance(self.answer, dict) else None
        return errors[0]["code"] if errors else None

    @property
    def is_done(self) -> bool:
        """True if it was answered with success."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_unknown(self) -> bool:
        """True if it is open whether it was done."""
        if self.status is None:
            return True
        return self.status >= 500 and self.code not in SURELY_NOT_CODES

    def told(self) -> str:
        """One line for people."""
        took = f"{self.sent:.3f}..{self.answered:.3f}"
        asked = json.dumps(self.asked, sort_keys=True)
        answer = json.dumps(self.answer, sort_keys=True)
        return f"#{self.number} {took} {self.process} {self.cloud} {self.what} {asked} -> {self.status} {answer[:600]}"


@dataclass(slots=True)
class Follow:
    """The events that one follower of a cloud's stream was sent, in order of arrival, over all its connections."""

    cloud: str
    frames: list[tuple[int, str]] = field(default_factory=list)
    connections: int = 0


class Record:
    """All attempts of a run, kept and written to a file as they end."""

    def __init__(self, file: Path) -> None:
        self.attempts: list[Attempt] = []
        self.follows: list[Follow] = []
        self._file = file.open("w")
        self._next = 0

    def begin(self, what: str, cloud: str, process: str, asked: Mapping[str, Any], now: float) -> Attempt:
        """An attempt that is about to be sent."""
        self._next += 1
        return Attempt(self._next, what, cloud, process, asked, now)

    def end(self, attempt: Attempt, now: float, status: int | None, answer: object) -> None:
        """Its answer came, or it was given up."""
        attempt.answered, attempt.status, attempt.answer = now, status, answer
        self.attempts.append(attempt)
        self._file.write(json.dumps(asdict(attempt)) + "\n")

    def close(self) -> None:
        self._file.close()


def read_record(file: Path) -> Iterator[Attempt]:
    """The attempts of a record that was kept."""
    with file.open() as lines:
        for line in lines:
            yield Attempt(**json.loads(line))
