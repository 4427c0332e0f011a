"""Bodies of peers' offers, and the answers to them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from app.domain.jobs import MOST_JOB_INSTANCES, DataObject, OutputObject
from app.domain.times import seconds
from app.domain.values import Resources
from app.engine.jobs.attempts import HOLD_MAX_US
from app.federation.hosting import OfferAnswer, OfferedJob
from app.federation.lodging import GivenData, GivenInput, MadeOutputs
from app.federation.promising import PeerPromise, Unpromised
from app.federation.rules.data import LONGEST_STAGE_US, MOST_OBJECT_BYTES, MOST_OBJECTS
from app.federation.wire.jobs import InputBody, OutputBody
from app.platform.http.fields import WHOLE, Body, Cores, PositiveSeconds, Probability, Query, Size, at_most
from tenure_client.forms.peers import (
    MadeOutputAnswer,
    MadeOutputsAnswer,
    OfferWordAnswer,
    PeerPromiseAnswer,
    PromisePointAnswer,
)


class OfferBody(Body):
    """A job of a peer: instances of a size, all or none, for at most a lifetime."""

    cores: Cores
    memory_mib: Size = 0
    disk_gib: Size = 0
    count: Annotated[int, Field(ge=1, le=MOST_JOB_INSTANCES), WHOLE] = 1
    lifetime_us: PositiveSeconds = Field(description="The longest that it runs from its award on.")
    probability: Probability | None = Field(
        None, description="The largest probability of preemption; by default this cloud's."
    )
    hold_us: Annotated[PositiveSeconds, at_most(HOLD_MAX_US)] = Field(
        description="How long its room is held.", json_schema_extra={"maximum": seconds(HOLD_MAX_US)}
    )
    stage_us: Annotated[PositiveSeconds, at_most(LONGEST_STAGE_US)] | None = Field(
        None, description="The time that its inputs have to come after its award; without it there are none."
    )
    data_bytes: Annotated[int, Field(ge=0, le=2 * MOST_OBJECTS * MOST_OBJECT_BYTES), WHOLE] = Field(
        0, description="The most bytes of its inputs and outputs together."
    )

    input_bytes: Annotated[int, Field(ge=0, le=MOST_OBJECTS * MOST_OBJECT_BYTES), WHOLE] = Field(
        0, description="Those of its inputs alone."
    )

    def job(self) -> OfferedJob:
        """Return the job that is offered."""
        demand = Resources(self.cores, self.memory_mib, self.disk_gib)
        data = self.stage_us or 0, self.data_bytes, self.input_bytes
        return OfferedJob(demand, self.count, self.lifetime_us, self.probability, self.hold_us, *data)


class LentBody(InputBody):
    """An input with a link to read it."""

    url: Annotated[str, Field(min_length=1, max_length=2000)] = Field(
        description="It leads to the object store that was entered for the peer."
    )


class AwardBody(Body):
    """The data of a job that is awarded; nothing where it has none."""

    inputs: Annotated[list[LentBody], Field(max_length=MOST_OBJECTS)] = Field(default_factory=list)
    outputs: Annotated[list[OutputBody], Field(max_length=MOST_OBJECTS)] = Field(default_factory=list)
    most_bytes: ClassVar[int] = 1 << 17
    most_values: ClassVar[int] = 512

    def given(self) -> GivenData:
        """Return the data."""
        inputs = [GivenInput(DataObject(one.key, one.bytes, one.sha256), one.url) for one in self.inputs]
        return GivenData(inputs, [OutputObject(one.key, one.bytes) for one in self.outputs])


class PromiseQuery(Query):
    """The size of instances that a peer would start."""

    cores: Cores
    memory_mib: Size = 0
    disk_gib: Size = 0

    def demand(self) -> Resources:
        """Return the size."""
        return Resources(self.cores, self.memory_mib, self.disk_gib)


def promise_answer(found: PeerPromise | Unpromised) -> PeerPromiseAnswer:
    """Return the wire form of a promise, or of why there is none."""
    if isinstance(found, Unpromised):
        return PeerPromiseAnswer(refused=found, slots=0, longest_s=0, windows=0.0, at_least=None, points=[])
    return PeerPromiseAnswer(
        refused=None,
        slots=found.slots,
        longest_s=seconds(found.longest_us),
        windows=found.windows,
        at_least=found.at_least,
        points=[
            PromisePointAnswer(lifetime_s=seconds(us), survival=share)
            for us, share in zip(found.times_us, found.alive, strict=True)
        ],
    )


def offer_answer(found: OfferAnswer) -> OfferWordAnswer:
    """Return the wire form of a word on an attempt."""
    return OfferWordAnswer(
        word=found.word,
        held_s=seconds(found.held_us),
        reason=found.reason,
        eviction_probability=found.promised,
        staged_bytes=None if found.staged is None else found.staged.bytes,
        fault=None if found.staged is None else found.staged.fault,
    )


def outputs_answer(found: MadeOutputs) -> MadeOutputsAnswer:
    """Return the wire form of the outputs of an attempt."""
    made = [
        MadeOutputAnswer(key=one.object.key, bytes=one.object.bytes, sha256=one.object.sha256, url=one.url)
        for one in found.outputs
    ]
    return MadeOutputsAnswer(state=found.state, reason=found.reason, outputs=made)
