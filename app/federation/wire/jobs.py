"""Bodies and answers of jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from app.domain.events import JobRequested
from app.domain.jobs import (
    LONGEST_JOB_ID,
    MOST_JOB_INSTANCES,
    AwayEnd,
    DataObject,
    Federate,
    OnPreempted,
    OutputObject,
)
from app.domain.times import seconds, to_datetime
from app.engine.cloud import JobRecord, Try
from app.federation.rules.data import (
    KEY_PATTERN,
    LONGEST_KEY,
    MOST_OBJECT_BYTES,
    MOST_OBJECTS,
    SHA256_PATTERN,
    Direction,
    Transfer,
    is_key,
)
from app.platform.http.fields import AT, WHOLE, Body, Name, PositiveSeconds, Probability, Time
from tenure_client.forms.answer import Link
from tenure_client.forms.jobs import (
    AttemptAnswer,
    DataObjectAnswer,
    JobAnswer,
    OutputObjectAnswer,
    ProgressAnswer,
)

MOST_PEERS = 64
JobName = Annotated[Name, Field(max_length=LONGEST_JOB_ID)]


def _own_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise PydanticCustomError(
            "key", "must be names with slashes between them, each of letters, digits, dots, underscores, = and dashes"
        )
    if not is_key(key):
        raise PydanticCustomError("key", "must not be a key in the folder of the service itself")
    return key


_KEY = re.compile(KEY_PATTERN, re.ASCII)
ObjectKey = Annotated[
    str,
    Field(max_length=LONGEST_KEY, json_schema_extra={"pattern": f"^{KEY_PATTERN}$"}),
    AfterValidator(_own_key),
]
Bytes = Annotated[int, Field(ge=0, le=MOST_OBJECT_BYTES), WHOLE]


class InputBody(Body):
    """An object in the cloud's store that the job reads."""

    key: ObjectKey
    bytes: Bytes
    sha256: Annotated[str, Field(pattern=f"^{SHA256_PATTERN}$")] = Field(
        description="Its digest, in small hexadecimal digits."
    )


class OutputBody(Body):
    """An object that the job is to leave behind."""

    key: ObjectKey
    bytes: Bytes = Field(description="The most bytes that it may have.")


class JobBody(Body):
    """A job: a group of equal instances that run all or none."""

    id: JobName
    flavor: Name
    count: Annotated[int, Field(ge=1, le=MOST_JOB_INSTANCES), WHOLE] = 1
    lifetime_us: PositiveSeconds = Field(description="The longest that it runs.")
    federate: Federate = Field(
        Federate.NEVER,
        strict=False,
        description="Whether other clouds may run it: `allowed` where it does not fit here, `only` there.",
    )
    peers: Annotated[list[Name], Field(max_length=MOST_PEERS)] | None = Field(
        None,
        description="Whom it may be offered to, in this order; by default all, by name. Not with federate `never`.",
        json_schema_extra={"uniqueItems": True},
    )
    on_preempted: OnPreempted = Field(
        OnPreempted.FAIL,
        strict=False,
        description="What follows when a peer needs its room. With federate `never` it is `fail`.",
    )
    probability: Probability | None = Field(
        None, description="The largest probability of preemption at a peer; by default the peer's own."
    )
    at_us: Time | None = Field(None, description=AT)
    inputs: Annotated[list[InputBody], Field(max_length=MOST_OBJECTS)] | None = Field(
        None, description="What it reads: a peer gets a copy before the job starts there."
    )
    outputs: Annotated[list[OutputBody], Field(max_length=MOST_OBJECTS)] | None = Field(
        None, description="What it leaves behind: it is fetched from a peer."
    )
    most_bytes: ClassVar[int] = 1 << 16
    most_values: ClassVar[int] = 512

    @field_validator("inputs", "outputs")
    @classmethod
    def _once(cls, given: list[InputBody] | list[OutputBody] | None) -> list[InputBody] | list[OutputBody] | None:
        if given is not None and len({one.key for one in given}) < len(given):
            raise PydanticCustomError("twice", "must not name a key twice")
        return given

    @field_validator("peers")
    @classmethod
    def _each_once(cls, given: list[str] | None) -> list[str] | None:
        if given is not None and len({*given}) < len(given):
            raise PydanticCustomError("twice", "must not name a peer twice")
        return given

    @model_validator(mode="after")
    def _only_of_peers(self) -> Self:
        if self.federate is Federate.NEVER and (self.peers or self.on_preempted is not OnPreempted.FAIL):
            raise PydanticCustomError(
                "federate", "peers and on_preempted are of jobs that other clouds may run: say federate allowed or only"
            )
        return self

    @property
    def cost(self) -> int:
        """The requests that it counts as beside itself, for its instances and its data."""
        return self.count // 16 + (len(self.inputs or ()) + len(self.outputs or ())) // 4

    def asked(self, owner: str | None) -> JobRequested:
        """Return the job as it is asked for. Its time comes with the decision."""
        return JobRequested(
            at_us=0,
            job=self.id,
            flavor=self.flavor,
            count=self.count,
            lifetime_us=self.lifetime_us,
            federate=self.federate,
            on_preempted=self.on_preempted,
            eviction_probability=self.probability,
            owner=owner,
            inputs=tuple(DataObject(one.key, one.bytes, one.sha256) for one in self.inputs or ()),
            outputs=tuple(OutputObject(one.key, one.bytes) for one in self.outputs or ()),
        )


def job_answer(cloud: str, job: JobRecord) -> JobAnswer:
    """Return the wire form of a job."""
    asked, away = job.asked, job.away
    has_run = job.is_native and not job.left
    end = away.end or (AwayEnd.COMPLETED if has_run else None)
    where = "here" if job.is_native else None if away.end is AwayEnd.REJECTED else away.asked.get(away.attempt)
    path = f"/v1/clouds/{cloud}/jobs/{asked.job}"
    return JobAnswer(
        id=asked.job,
        flavor=asked.flavor,
        count=asked.count,
        lifetime_s=seconds(asked.lifetime_us),
        federate=asked.federate,
        on_preempted=asked.on_preempted,
        eviction_probability=asked.eviction_probability,
        peers=[*asked.peers],
        status="ended" if end is not None else "running" if job.is_native else away.state.value,
        where=where,
        end=end,
        reason=job.reason,
        attempt=away.attempt,
        running=job.left,
        instances=[*job.instance_ids()],
        cancelled=away.is_cancelled,
        requested_at=to_datetime(asked.at_us),
        ended_at=None if job.ended_us is None else to_datetime(job.ended_us),
        links=[Link(rel="self", href=path), Link(rel="attempts", href=f"{path}/attempts")],
        inputs=[DataObjectAnswer(key=one.key, bytes=one.bytes, sha256=one.sha256) for one in asked.inputs],
        outputs=[OutputObjectAnswer(key=one.key, bytes=one.bytes) for one in asked.outputs],
        outputs_state=_outputs_state(job),
        outputs_reason=None if job.collected is None else job.collected.reason,
    )


def _outputs_state(job: JobRecord) -> str | None:
    if job.collected is None:
        return "collecting" if job.is_collecting else None
    return "collected" if job.collected.reason is None else "lost"


def attempt_answer(tried: Try, moved: Sequence[Transfer]) -> AttemptAnswer:
    """Return the wire form of an attempt, with the data of its job that is on its way."""
    return AttemptAnswer(
        attempt=tried.number,
        peer=tried.peer,
        offered_at=to_datetime(tried.offered_us),
        awarded_at=None if tried.awarded_us is None else to_datetime(tried.awarded_us),
        reclaim_at=None if tried.reclaim_us is None else to_datetime(tried.reclaim_us),
        ended_at=None if tried.ended_us is None else to_datetime(tried.ended_us),
        outcome=tried.outcome,
        why=tried.why,
        eviction_probability=tried.eviction_probability,
        inputs=_progress([one for one in moved if (one.attempt, one.direction) == (tried.number, Direction.SENT)]),
        outputs=_progress([one for one in moved if (one.attempt, one.direction) == (tried.number, Direction.OUT)]),
    )


def _progress(moved: Sequence[Transfer]) -> ProgressAnswer | None:
    if not moved:
        return None
    fault = next((one.fault for one in moved if one.fault is not None), None)
    return ProgressAnswer(
        bytes=sum(one.bytes for one in moved), done_bytes=sum(one.done_bytes for one in moved), fault=fault
    )
