"""Bodies of peers' offers, and the answers to them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.jobs import MOST_JOB_INSTANCES
from app.domain.times import seconds
from app.domain.values import Resources
from app.engine.jobs.attempts import HOLD_MAX_US
from app.federation.hosting import OfferAnswer, OfferedJob
from app.federation.promising import PeerPromise, Unpromised
from app.platform.http.fields import WHOLE, Body, Cores, PositiveSeconds, Probability, Query, Size, at_most
from tenure_client.forms.peers import OfferWordAnswer, PeerPromiseAnswer, PromisePointAnswer


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

    def job(self) -> OfferedJob:
        """Return the job that is offered."""
        demand = Resources(self.cores, self.memory_mib, self.disk_gib)
        return OfferedJob(demand, self.count, self.lifetime_us, self.probability, self.hold_us)


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
        word=found.word, held_s=seconds(found.held_us), reason=found.reason, eviction_probability=found.promised
    )
