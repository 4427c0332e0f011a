"""The records of jobs: at the cloud that they were submitted to, and at a host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from app.domain.events import JobRequested, RoomHeld
from app.domain.jobs import AttemptKey, AwayEnd, Word
from app.engine.cloud.joborder import JobPlace
from app.engine.jobs.attempts import LeaseTerms
from app.engine.jobs.originside import JobAway


class Try(NamedTuple):
    """An attempt to run a job at a peer. `outcome`: how it ended, or why it came to nothing; `why`: in its host's word.

    `eviction_probability`: the largest probability of preemption that the host promised.
    """

    number: int
    peer: str
    offered_us: int
    awarded_us: int | None = None
    reclaim_us: int | None = None
    ended_us: int | None = None
    outcome: str | None = None
    why: str | None = None
    eviction_probability: float | None = None


class Collection(NamedTuple):
    """The end of what a job left behind at a host: when its outputs were fetched, or the reason why they never will."""

    at_us: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job at its origin. `left`: how many of its instances run here; `away`: what became of it at other clouds.

    `collected`: None as long as nothing is known of its outputs.
    """

    asked: JobRequested
    away: JobAway
    tries: tuple[Try, ...] = ()
    left: int = 0
    is_native: bool = False
    ended_us: int | None = None
    reason: str | None = None
    collected: Collection | None = None

    @property
    def place(self) -> JobPlace:
        """Its place among the jobs of its cloud."""
        return self.asked.at_us, self.asked.job

    @property
    def finished_attempt(self) -> int:
        """The attempt that completed at its host; 0: none did."""
        return next((one.number for one in self.tries if one.outcome == AwayEnd.COMPLETED.value), 0)

    @property
    def is_collecting(self) -> bool:
        """True while its outputs are to be fetched from a host."""
        return bool(self.asked.outputs and self.finished_attempt and self.collected is None)

    @property
    def size(self) -> int:
        """The memory that it takes, in parts of half a kilobyte: its own, and one for each name that comes with it."""
        asked = self.asked
        return 3 + len(asked.inputs) + len(asked.outputs) + len(asked.peers) + len(self.tries)

    def instance_ids(self) -> tuple[str, ...]:
        """Return the ids of its instances, if it runs here."""
        count = self.asked.count if self.is_native else 0
        return tuple(f"{self.asked.job}.{number}" for number in range(1, count + 1))


class HostedRecord(NamedTuple):
    """The knowledge of a host on an attempt of a peer's job; `held` is the room that it held, if it did.

    `ended_us`: since when its word is final; None while it is not. `reason`: why it was refused or ended.
    """

    peer: str
    job: str
    attempt: int
    word: Word
    until_us: int
    ends_us: int
    ended_us: int | None
    held: RoomHeld | None
    reason: str | None = None


def run_name(key: AttemptKey) -> str:
    """Return the id of the instance that runs for an attempt."""
    return f"{key.origin}.{key.job}.{key.attempt}"


def attempt_named(name: str) -> AttemptKey | None:
    """Return the attempt that an instance of this id would run for; None: no attempt has such an id."""
    origin, _, rest = name.partition(".")
    job, _, number = rest.rpartition(".")
    key = AttemptKey(origin, job, int(number) if number.isascii() and number.isdigit() else 0)
    return key if run_name(key) == name else None


def held_name(key: AttemptKey) -> str:
    """Return the id of the instance that stands for the room held for an attempt."""
    return f"{run_name(key)}.held"


def sharing(jobs: Iterable[JobRecord]) -> Iterator[JobRecord]:
    """Yield jobs that were stored, with values that they share: of very many these take much memory.

    What a job asked of whom is never changed, but copied for what comes after.
    """
    terms, asked = dict[LeaseTerms, LeaseTerms](), dict[Any, dict[int, str]]()
    for job in jobs:
        away = job.away
        away.peers, away.terms = job.asked.peers, terms.setdefault(away.terms, away.terms)
        away.asked = asked.setdefault(tuple(away.asked.items()), away.asked)
        yield job


def oldest(times: Mapping[Any, int], limit_us: int, over: int, size_of: Callable[[Any], int]) -> list[Any]:
    """Return the first names whose times, which never fall, are before a limit, and those of the size that is over.

    Names of one time go together: a state that was read back has these in another order.
    """
    for name, at_us in times.items():
        if over <= 0:
            break
        over, limit_us = over - size_of(name), max(limit_us, at_us + 1)
    return [name for name, _ in takewhile(lambda one: one[1] < limit_us, times.items())]
