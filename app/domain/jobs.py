"""Words about jobs: groups of instances that run all or none, at home or at another cloud."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.domain.times import HOUR_US
from app.domain.values import newer

MOST_JOB_INSTANCES = 256
"""The number of instances that a job may have."""
LONGEST_JOB_ID = 120
"""Short enough that ids made of it, of a peer's name and of an attempt's number are ids too."""


class Federate(StrEnum):
    """The leave of other clouds to run a job: `never`, `allowed` where it does not fit at home, or `only` there."""

    NEVER = "never"
    ALLOWED = "allowed"
    ONLY = "only"


class OnPreempted(StrEnum):
    """The rule for a job whose room a host needs: the job has failed, or it is offered again."""

    FAIL = "fail"
    OFFER_AGAIN = "offer_again"

    @property
    def again(self) -> bool:
        """True if the job is offered again."""
        return self is OnPreempted.OFFER_AGAIN


@dataclass(frozen=True, slots=True)
class DataObject:
    """An object in a cloud's store: its key, its size in bytes, and its digest, in hexadecimal digits."""

    key: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OutputObject:
    """An object that a job is to leave behind: its key, and the most bytes that it may have."""

    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class LinkRate:
    """The knowledge of a link: the rate of one transfer alone, and the number of those that it rests on.

    `newest_age_us`: the time since the newest of them was over; `active`: the transfers that wait or are under way,
    with which the next one shares the link. Without samples it is an operator's word.
    """

    bytes_per_s: int
    samples: int
    newest_age_us: int
    active: int

    @property
    def is_fresh(self) -> bool:
        """True if it is gone by: something was heard of the link within the last hour, or it is an operator's word."""
        return self.newest_age_us <= HOUR_US


class DataFault(StrEnum):
    """The reason for which data of a job was not moved. The names are permanent."""

    MISSING = "data_missing"
    SIZE = "data_size_mismatch"
    DIGEST = "data_digest_mismatch"
    INVALID = "data_invalid"
    GONE = "data_gone"
    NO_PEER = "data_no_peer"
    TOO_LATE = "data_too_late"
    LINK = "data_link_expired"
    UNREACHABLE = "data_unreachable"
    STORE = "data_store_unavailable"
    SPOOL = "data_spool_full"

    @property
    def is_final(self) -> bool:
        """True if trying again would lead to the same."""
        return self not in _PASSING


_PASSING = frozenset({DataFault.LINK, DataFault.UNREACHABLE, DataFault.STORE, DataFault.SPOOL})


class AttemptKey(NamedTuple):
    """One attempt: the name of the origin as its host knows it, the job, and the number of the attempt."""

    origin: str
    job: str
    attempt: int


@newer(STAGING=8)
class Word(StrEnum):
    """The host's word on an attempt. All but `held`, `staging` and `running` are final: it never takes them back.

    `staging`: awarded, and its inputs are on their way.
    """

    HELD = "held"
    STAGING = "staging"
    RUNNING = "running"
    REFUSED = "refused"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    PREEMPTED = "preempted"
    FAILED = "failed"
    FINISHED = "finished"


class AwayEnd(StrEnum):
    """The end of an attempt, or of the job. `reclaimed` is an attempt of which nothing was heard until it was over."""

    COMPLETED = "completed"
    PREEMPTED = "preempted"
    FAILED = "failed"
    RECLAIMED = "reclaimed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
