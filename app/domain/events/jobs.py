"""Events of jobs. At the cloud that a job was submitted to, its origin, and at one that runs it for another, its host.

They tell of what instances are started and stopped for; those have their own events, which replays and imports read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.jobs import AwayEnd, DataObject, Federate, LinkRate, OnPreempted, OutputObject, Word

_RECLAIM = {"description": "Until then only the host can say that the attempt is over."}
_DATA = {"since": 8}
_LINK = {"since": 9, "only_tells": True, "description": "By what knowledge of the link its inputs were judged."}
_ENDS = {"description": "Nothing of the attempt runs after it."}


@event("job_requested", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequested:
    """A job was submitted. What becomes of it follows.

    `peers`: whom it may be offered to, in this order; `attempts`: how often. A host has `answer_us` to answer an offer,
    for which it holds room for `hold_us`; a job is taken back `margin_us` after the end of its lease. Its `inputs` are
    in this cloud's store, and are brought to a host within `stage_us`; `outputs` are fetched back.
    """

    at_us: int
    job: str
    flavor: str
    count: int
    lifetime_us: int
    federate: Federate = Federate.NEVER
    on_preempted: OnPreempted = OnPreempted.FAIL
    eviction_probability: float | None = None
    peers: tuple[str, ...] = ()
    attempts: int = 0
    answer_us: int = 0
    hold_us: int = 0
    margin_us: int = 0
    owner: str | None = None
    inputs: tuple[DataObject, ...] = field(default=(), metadata=_DATA)
    outputs: tuple[OutputObject, ...] = field(default=(), metadata=_DATA)
    stage_us: int = field(default=0, metadata=_DATA)


@event("job_admitted", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobAdmitted:
    """A job runs at home: the starts of its `count` on-demand instances follow, `<job>.1`, `<job>.2` and so on."""

    at_us: int
    job: str
    count: int


@event("job_offered", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOffered:
    at_us: int
    job: str
    attempt: int
    peer: str


@event("job_declined", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobDeclined:
    """An attempt came to nothing: the host refused it, or did not answer, or let it go before it began.

    `why`: what the host told of it.
    """

    at_us: int
    job: str
    attempt: int
    reason: str
    why: str | None = None


@event("job_awarded", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobAwarded:
    """An attempt is awarded to its host, which is told after this is written.

    `eviction_probability`: the largest probability of preemption that the host promised with its offer.
    """

    at_us: int
    job: str
    attempt: int
    reclaim_us: int = field(metadata=_RECLAIM)
    eviction_probability: float | None = None


@event("job_cancelled", since=6, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """Its user wants the job no more. It has ended once nothing of it can run."""

    at_us: int
    job: str


@event("job_ended", since=6, subject="job", group=Group.JOB, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """An attempt is over, and with `is_last` the job. Attempt 0 is none: it ran at home, or nowhere.

    `reason` tells why it was rejected, or what its host said of its failure.
    """

    at_us: int
    job: str
    attempt: int
    end: AwayEnd
    is_last: bool
    reason: str | None = None


@event("job_collected", since=8, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobCollected:
    """The outputs of a job that ended at a host are in this cloud's store, each with the digest that the host told."""

    at_us: int
    job: str
    attempt: int
    outputs: tuple[DataObject, ...] = ()


@event("job_outputs_lost", since=8, subject="job", group=Group.JOB, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutputsLost:
    """The outputs of a job that ended at a host cannot be had, for good, or not all of them."""

    at_us: int
    job: str
    attempt: int
    reason: str


@event("room_held", since=6, subject="job", group=Group.FOREIGN, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class RoomHeld:
    """Room is held for an attempt of a peer's job: the start of the instance that stands for it follows.

    It was promised nothing, counts in no class, and goes when its time is over, or before all others when room is
    needed. `link` is None if the job has no inputs, or if nothing is known of the link.
    """

    at_us: int
    peer: str
    job: str
    attempt: int
    instance_id: str
    flavor: str
    count: int
    lifetime_us: int
    until_us: int = field(metadata={"description": "Until then the attempt may be awarded."})
    ends_us: int = field(metadata=_ENDS)
    eviction_probability: float | None = None
    stage_us: int = field(default=0, metadata=_DATA)
    data_bytes: int = field(default=0, metadata=_DATA)
    link: LinkRate | None = field(default=None, metadata=_LINK)


@event("foreign_job_staging", since=8, subject="job", group=Group.FOREIGN, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJobStaging:
    """An attempt was awarded in time. Its room is held on until its inputs are here; then its instance starts."""

    at_us: int
    peer: str
    job: str
    attempt: int
    until_us: int = field(metadata={"description": "The inputs must be here by then."})


@event("foreign_job_admitted", since=6, subject="job", group=Group.FOREIGN, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJobAdmitted:
    """An attempt was awarded in time. Its held room is given up, and the start of its instance follows."""

    at_us: int
    peer: str
    job: str
    attempt: int
    instance_id: str


@event("foreign_job_ended", since=6, subject="job", group=Group.FOREIGN, decisive=False, urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJobEnded:
    """An attempt of a peer's job is over, or never began. This word is kept for good.

    One that finished or was preempted is told by the end of its instance alone. `reason` tells why it was refused, or
    why its inputs did not come. `link` is told of an offer with inputs that was refused.
    """

    at_us: int
    peer: str
    job: str
    attempt: int
    word: Word
    reason: str | None = None
    link: LinkRate | None = field(default=None, metadata=_LINK)


@event("peer_paused", since=7, subject="peer", group=Group.FOREIGN, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPaused:
    """Nothing is offered to a peer any more, and nothing is taken from it. What is awarded goes on.

    `reason`: who paused it, an operator or the breaker; `why` in their words. It stands in the logs of the clouds that
    have to do with the peer, some seconds after it was done.
    """

    at_us: int
    peer: str
    reason: str
    why: str | None = None


@event("peer_resumed", since=7, subject="peer", group=Group.FOREIGN, decisive=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResumed:
    """A peer that was paused is offered jobs again, and its offers are heard."""

    at_us: int
    peer: str


DataEvent = JobCollected | JobOutputsLost
JobEvent = JobRequested | JobAdmitted | JobOffered | JobDeclined | JobAwarded | JobCancelled | JobEnded | DataEvent
ForeignEvent = RoomHeld | ForeignJobStaging | ForeignJobAdmitted | ForeignJobEnded | PeerPaused | PeerResumed
