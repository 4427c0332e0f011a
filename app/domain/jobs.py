"""Words about jobs: groups of instances that run all or none, at home or at another cloud."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

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


class AttemptKey(NamedTuple):
    """One attempt: the name of the origin as its host knows it, the job, and the number of the attempt."""

    origin: str
    job: str
    attempt: int


class Word(StrEnum):
    """The host's word on an attempt. All but `held` and `running` are final: the host never takes them back."""

    HELD = "held"
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
