"""The attempts that a host has heard of: which it holds room for, which run, and how the others ended.

Everything is in the events. `decide_*` return the events that a message or the clock leads to; the caller writes them
down, applies them, and only then answers with `word_on`. So what a host has said it knows after a restart, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain.jobs import AttemptKey, Word
from app.engine.jobs.attempts import LeaseTerms

_OPEN = frozenset({Word.HELD, Word.STAGING, Word.RUNNING})


class AttemptHeld(NamedTuple):
    """Room is held for an attempt until a time; nothing of it runs after `ends_us`."""

    key: AttemptKey
    until_us: int
    ends_us: int


class AttemptStaging(NamedTuple):
    """An attempt was awarded in time, and room is held on until its inputs are here, at most until a time."""

    key: AttemptKey
    until_us: int


class ForeignAdmitted(NamedTuple):
    """An attempt was awarded in time, and its inputs are here: its instances start."""

    key: AttemptKey


class ForeignEnded(NamedTuple):
    """An attempt is over, or never began: the word that the host keeps to from now on."""

    key: AttemptKey
    word: Word
    reason: str | None = None


HostEvent = AttemptHeld | AttemptStaging | ForeignAdmitted | ForeignEnded


@dataclass(slots=True)
class HostedAttempt:
    """An attempt as its host knows it. Times are of the host's clock; an attempt that never had room has none.

    `reason`: why it was refused or ended, if its host said so.
    """

    word: Word
    until_us: int = 0
    ends_us: int = 0
    reason: str | None = None


@dataclass
class HostSide:
    """The attempts of all origins at one host. Its keeper may have final words forgotten, long after they were said."""

    attempts: dict[AttemptKey, HostedAttempt] = field(default_factory=dict)
    _numbers: dict[tuple[str, str], set[int]] = field(default_factory=dict, repr=False)
    _open: dict[AttemptKey, None] = field(default_factory=dict, repr=False)

    def apply(self, event: HostEvent) -> None:
        """Fold one event."""
        key = event.key
        match event:
            case AttemptHeld():
                self.attempts[key] = HostedAttempt(Word.HELD, event.until_us, event.ends_us)
            case AttemptStaging():
                self.attempts[key].word, self.attempts[key].until_us = Word.STAGING, event.until_us
            case ForeignAdmitted():
                self.attempts[key].word = Word.RUNNING
            case ForeignEnded():
                known = self.attempts.setdefault(key, HostedAttempt(event.word))
                known.reason, known.word = event.reason, event.word
        self._enter(key)

    def put(self, key: AttemptKey, known: HostedAttempt | None) -> None:
        """Put an attempt back as it was known before; None: it was not, or is to be forgotten."""
        if known is None:
            del self.attempts[key]
        else:
            self.attempts[key] = known
        self._enter(key)

    def newest(self, key: AttemptKey) -> int:
        """Return the number of the newest attempt that is known of the same job; 0 without any."""
        return max(self._numbers.get((key.origin, key.job), ()), default=0)

    def word_on(self, key: AttemptKey) -> Word:
        """Return what the host says of an attempt."""
        known = self.attempts.get(key)
        if known is not None:
            return known.word
        return Word.SUPERSEDED if key.attempt < self.newest(key) else Word.UNKNOWN

    def decide_offer(self, key: AttemptKey, terms: LeaseTerms, now_us: int, *, is_admitted: bool) -> list[HostEvent]:
        """Hold room for an attempt that was not heard of before, if it is admitted; first end the older ones."""
        if key in self.attempts or key.attempt < self.newest(key):
            return self.decide_time(now_us)
        older = [
            ForeignEnded(one, Word.SUPERSEDED)
            for one in self.open_attempts()
            if (one.origin, one.job) == (key.origin, key.job)
        ]
        if not is_admitted:
            return [*older, ForeignEnded(key, Word.REFUSED)]
        return [*older, AttemptHeld(key, now_us + terms.hold_us, terms.ends_us(now_us))]

    def decide_award(self, key: AttemptKey, now_us: int, stage_us: int = 0) -> list[HostEvent]:
        """Start an attempt whose room is held still. One that was never heard of can never be offered later.

        One with inputs, which have `stage_us` to come, starts once they are here.
        """
        known = self.attempts.get(key)
        if known is None:
            return [] if self.word_on(key) is Word.SUPERSEDED else [ForeignEnded(key, Word.UNKNOWN)]
        if self._may_start(known, now_us):
            return [AttemptStaging(key, now_us + stage_us) if stage_us else ForeignAdmitted(key)]
        return self.decide_time(now_us)

    def decide_staged(self, key: AttemptKey, now_us: int) -> list[HostEvent]:
        """Start an attempt whose inputs are all here, if they came in time."""
        known = self.attempts.get(key)
        is_in_time = known is not None and known.word is Word.STAGING and now_us < known.until_us
        return [ForeignAdmitted(key)] if is_in_time else []

    def decide_cancel(self, key: AttemptKey) -> list[HostEvent]:
        """End an attempt at the wish of its origin, also before it was heard of."""
        known = self.attempts.get(key)
        is_over = self.word_on(key) is Word.SUPERSEDED if known is None else known.word not in _OPEN
        return [] if is_over else [ForeignEnded(key, Word.CANCELLED)]

    def decide_end(self, key: AttemptKey, word: Word) -> list[HostEvent]:
        """Take the end of a running or held attempt: it finished or failed, or native jobs need its room."""
        known = self.attempts.get(key)
        return [ForeignEnded(key, word)] if known is not None and known.word in _OPEN else []

    def decide_time(self, now_us: int) -> list[HostEvent]:
        """Let held room go when its time is over, and end what has come to the end of its lease."""
        found: list[HostEvent] = []
        for key in self.open_attempts():
            known = self.attempts[key]
            if known.word is not Word.RUNNING and now_us >= known.until_us:
                found.append(ForeignEnded(key, Word.EXPIRED))
            elif known.word is Word.RUNNING and now_us >= known.ends_us:
                found.append(ForeignEnded(key, Word.FAILED))
        return found

    def open_attempts(self) -> Iterator[AttemptKey]:
        """Yield the attempts that hold room or run."""
        return iter([*self._open])

    def _enter(self, key: AttemptKey) -> None:
        known, job = self.attempts.get(key), (key.origin, key.job)
        if known is None:
            self._numbers[job].discard(key.attempt)
            if not self._numbers[job]:
                del self._numbers[job]
        else:
            self._numbers.setdefault(job, set()).add(key.attempt)
        if known is not None and known.word in _OPEN:
            self._open[key] = None
        else:
            self._open.pop(key, None)

    def _may_start(self, known: HostedAttempt, now_us: int) -> bool:
        return known.word is Word.HELD and now_us < known.until_us
