"""Bodies, queries and answers about plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from msgspec import convert
from msgspec.json import Decoder
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.domain.inputs import NO_TEXT
from app.domain.times import SECOND_US, rfc3339
from app.domain.values import Resources
from app.planning.asking import AskedCloud, AskedJob, AskedPeer, AskedRate, PlanRequest
from app.planning.plans import JobStanding, OutcomeTold, PlanSummary, StoredOutcome, StoredPlan
from app.planning.reliability import CONFIDENCE, PoolRecord, PoolTally, records_of
from app.platform.http.fields import (
    WHOLE,
    Body,
    Cores,
    Name,
    PositiveSeconds,
    Probability,
    Query,
    Size,
    Time,
    WholeSeconds,
)
from app.platform.http.long_lists import every_answer
from app.platform.http.wording import written
from app.venues.rules.assign import PlanLimits
from app.venues.rules.jobsteps import JobMove, JobMoveKind
from app.venues.rules.moldable import Parallelism
from app.venues.rules.planned import CheckpointTimes
from app.venues.rules.types import LEAST_UNITS, MOST_PRICE, MOST_UNITS
from app.venues.wire import PoolWord
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.plans import (
    JobMoveAnswer,
    PeerReliabilityAnswer,
    PlanAnswer,
    PlannedJobAnswer,
    PlanOutcomeAnswer,
    PlanSummaryAnswer,
    VenueRecordAnswer,
    VenueReliabilityAnswer,
)

MOST_JOBS, MOST_PLACES, MOST_RATES = 200, 10, 100
_read_job = Decoder(PlannedJobAnswer).decode
_MIB_PER_GIB = 1024.0
_WayNumbers = Annotated[
    str, written(r"^[0-9]{1,2}(,[0-9]{1,2}){0,15}$", "must be up to sixteen numbers of ways, like 0,2")
]
_RateZone = Annotated[str, Field(max_length=100), written(rf"^[^{NO_TEXT}]*$", "must hold no control characters")]
Money = Annotated[float, Field(ge=0, le=MOST_PRICE)]
Units = Annotated[float, Field(ge=LEAST_UNITS, le=MOST_UNITS)]
MemoryMib = Annotated[int, Field(ge=0, le=1 << 30), WHOLE]


class PlanJobBody(Body):
    """A job."""

    id: Name = Field(description="Its name in this plan.")
    work_us: PositiveSeconds = Field(description="How long it runs on the machine that it was measured on.")
    on_type: PoolWord | None = Field(
        None, description="That machine's type: types as fast and as large can run the job."
    )
    compute_units: Units | None = Field(
        None, description="That machine's speed, instead of its type. Without either all machines are as fast."
    )
    memory_mib: MemoryMib | None = Field(None, description="What it needs; by default what its machine type has.")
    deadline_us: Time | None = Field(
        None, alias="deadline", description="When it must have ended: at most 100 years after the plan."
    )
    deadline_after_us: PositiveSeconds | None = Field(
        None, description="The same as a length of time after the plan: the request again is the same request."
    )
    value: Money | None = Field(
        None, description="What it earns. A job with a value and no deadline is launched once, if it is worth it."
    )
    penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.0, description="The share of the value that is paid on top if such a job's machine is lost."
    )
    parallelism: Annotated[float, Field(ge=1, lt=1e6)] | None = Field(
        None, description="The mean parallelism of a moldable job, which runs faster on larger machines (Downey)."
    )
    sigma: Annotated[float, Field(ge=0, lt=1e6)] = Field(0.0, description="How much its parallelism varies.")

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if self.deadline_us is None and self.deadline_after_us is None and self.value is None:
            raise PydanticCustomError("job", "needs a deadline or a value")
        if self.deadline_us is not None and self.deadline_after_us is not None:
            raise PydanticCustomError("job", "has two deadlines: give `deadline` or `deadline_after_s`")
        return self

    def asked(self) -> AskedJob:
        """Return the job."""
        shape = None if self.parallelism is None else Parallelism(self.parallelism, self.sigma)
        return AskedJob(
            self.id,
            self.work_us,
            self.on_type,
            self.compute_units,
            None if self.memory_mib is None else self.memory_mib / _MIB_PER_GIB,
            self.deadline_us,
            self.deadline_after_us,
            self.value,
            self.penalty,
            shape,
        )


class PlanCloudBody(Body):
    """A cloud of this service as a place for the jobs."""

    cloud: Name
    flavor: Name = Field(description="What a job runs on there.")
    price_per_core_hour: Money = Field(0.0, description="0 where its machines cost nothing.")
    compute_units: Units | None = Field(None, description="Its speed; by default that of each job's own machine.")


class PlanPeerBody(Body):
    """A peer's cloud as a place for the jobs. The peer is asked what it promises; its price is agreed elsewhere."""

    peer: Name
    cores: Cores = Field(description="Of an instance there. Its host must have a flavor of exactly this size.")
    memory_mib: Size = 0
    disk_gib: Size = 0
    price_per_core_hour: Money = Field(0.0, description="0 where its machines cost nothing.")
    compute_units: Units | None = Field(None, description="Its speed; by default that of each job's own machine.")

    def asked(self) -> AskedPeer:
        """Return the peer."""
        demand = Resources(self.cores, self.memory_mib, self.disk_gib)
        return AskedPeer(self.peer, demand, self.price_per_core_hour, self.compute_units)


class PlanRateBody(Body):
    """Machines without prices that move, of which a provider tells how many it takes back."""

    name: Name
    zone: _RateZone = ""
    price: Money = Field(description="Of an hour.")
    on_demand_price: Money | None = Field(None, description="Of an hour, of the same machine on demand.")
    lost_in_a_month: Annotated[float, Field(ge=0, lt=1)] = Field(
        description="The share that the provider takes back in 30 days, like the middle of an advisor's band."
    )
    compute_units: Units | None = None
    memory_mib: MemoryMib | None = None

    def asked(self) -> AskedRate:
        """Return the rate."""
        memory_gib = None if self.memory_mib is None else self.memory_mib / _MIB_PER_GIB
        fields = (self.price, self.on_demand_price, self.lost_in_a_month, self.compute_units, memory_gib)
        return AskedRate(self.name, self.zone, *fields)


class PlanCheckpointBody(Body):
    """The times of the jobs' checkpoints."""

    write_us: WholeSeconds = Field(description="How long a checkpoint stops a job.")
    read_us: WholeSeconds = Field(description="How long a job takes to go on from one.")
    every_us: PositiveSeconds | None = Field(
        None, description="The work between two; by default what balances their pauses against what a loss costs."
    )


class PlanBody(Body):
    """Body that asks for a plan."""

    most_bytes: ClassVar[int] = 1 << 18
    most_values: ClassVar[int] = 8_192

    id: Name = Field(description="The caller's name for the plan. The same request again has the same answer.")
    jobs: Annotated[list[PlanJobBody], Field(min_length=1, max_length=MOST_JOBS)]
    venues: Annotated[list[Name], Field(max_length=MOST_PLACES)] = Field([], description="Venues to look at.")
    clouds: Annotated[list[PlanCloudBody], Field(max_length=MOST_PLACES)] = Field([], description="Own clouds.")
    peers: Annotated[list[PlanPeerBody], Field(max_length=MOST_PLACES)] = Field([], description="Peers' clouds.")
    rates: Annotated[list[PlanRateBody], Field(max_length=MOST_RATES)] = Field([], description="Machines with a rate.")
    probability: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.95,
        alias="probability",
        description="Each first machine lives at least this probably, or is on demand. 1 is no probability.",
    )
    checkpoint: PlanCheckpointBody | None = Field(None, description="Left out: jobs begin again after a loss.")
    launch_us: WholeSeconds = Field(0, description="How long a machine takes to begin; it is paid for.")
    most_per_pool: Annotated[int, Field(ge=1, le=10_000), WHOLE] | None = Field(
        None, description="The most jobs that may begin in one pool."
    )
    zone_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6, description="The largest share of more than five jobs that may begin in one zone; 1: any."
    )
    zone_risk: Probability | None = Field(
        None, description="The largest probability that some first machine in a zone is lost."
    )
    budget: Money | None = Field(None, description="The largest expected cost of all jobs.")
    at_us: Time | None = Field(None, description="A time in the past to plan as of; by default now.")

    @model_validator(mode="after")
    def _names_are_one_each(self) -> Self:
        ids = [job.id for job in self.jobs]
        if len({*ids}) < len(ids):
            raise PydanticCustomError("jobs", "two jobs have one id")
        if len({*self.venues}) < len(self.venues):
            raise PydanticCustomError("venues", "a venue stands twice")
        if not (self.venues or self.clouds or self.peers or self.rates):
            raise PydanticCustomError("places", "needs venues, clouds, peers or rates")
        return self

    def request(self) -> PlanRequest:
        """Return the request."""
        times = self.checkpoint
        every_us = None if times is None or times.every_us is None else float(times.every_us)
        share = None if self.zone_share == 1.0 else self.zone_share
        return PlanRequest(
            self.id,
            [job.asked() for job in self.jobs],
            self.venues,
            [AskedCloud(one.cloud, one.flavor, one.price_per_core_hour, one.compute_units) for one in self.clouds],
            [one.asked() for one in self.peers],
            [one.asked() for one in self.rates],
            self.probability,
            None if times is None else CheckpointTimes(times.write_us, times.read_us, every_us),
            self.launch_us,
            PlanLimits(share, self.budget, self.zone_risk),
            self.most_per_pool,
            self.at_us,
            self._compared(),
        )

    def _compared(self) -> dict[str, Any]:
        """Return the body that a repeated request is compared with: as it was before jobs had `deadline_after_s`."""
        body = self.model_dump(mode="json")
        for job in body["jobs"]:
            if job["deadline_after_us"] is None:
                del job["deadline_after_us"]
        return body


class MoveQuery(Query):
    """The standing of a job that is on no machine."""

    job: Name
    saved: Annotated[float, Field(ge=0, lt=1)] = Field(description="The share of its work that is in a checkpoint.")
    available: _WayNumbers | None = Field(
        None, description="The numbers of its ways that could be taken now, like 0,2."
    )
    at_us: Time | None = Field(None, description="The time; by default now.")

    def step(self, now_us: int) -> JobStanding:
        """Return the step."""
        ways = [int(one) for one in (self.available or "").split(",") if one]
        return JobStanding(now_us if self.at_us is None else self.at_us, self.saved, ways)


class PlanOutcomeBody(Body):
    """Body that tells what came of a job."""

    job: Name
    ended_us: Time | None = Field(None, alias="ended_at", description="When it was done; left out: it failed.")
    cost: Money = Field(description="What was paid for it, in the plan's currency.")
    lost: Annotated[int, Field(ge=0, le=1_000_000), WHOLE] = Field(0, description="Machines that it lost.")
    on_demand: bool = Field(default=False, description="True if it used a machine on demand.")

    def told(self) -> OutcomeTold:
        """Return the outcome."""
        ended_at = None if self.ended_us is None else rfc3339(self.ended_us)
        body = {"ended_at": ended_at, "cost": self.cost, "lost": self.lost, "on_demand": self.on_demand}
        return OutcomeTold(self.job, self.ended_us, self.cost, self.lost, self.on_demand, body)


async def plan_answer(plan: StoredPlan) -> PlanAnswer:
    """Return the wire form of a plan, of which the jobs are written in turns."""
    links = [Link(rel="self", href=f"/v1/plans/{plan.id}")]
    found: dict[str, Any] = {**plan.content, "jobs": [], "created_at": plan.created_at, "links": links}
    answer = convert(found, PlanAnswer, from_attributes=True)
    answer.jobs = await every_answer(plan.jobs, _read_job)
    return answer


def plan_summary(plan: PlanSummary) -> PlanSummaryAnswer:
    """Return the wire form of a plan in a list."""
    found, links = plan._asdict(), [Link(rel="self", href=f"/v1/plans/{plan.id}")]
    return convert({**found, "links": links}, PlanSummaryAnswer, from_attributes=True)


def move_answer(job: str, move: JobMove) -> JobMoveAnswer:
    """Return the wire form of a move."""
    return JobMoveAnswer(
        job=job,
        move=move.kind.name.lower(),
        way=move.way if move.kind is JobMoveKind.RUN else None,
        at_most_s=move.at_most_us / SECOND_US,
        saved_then=min(move.saved, 1.0),
    )


def outcome_answer(one: StoredOutcome) -> PlanOutcomeAnswer:
    """Return the wire form of an outcome."""
    found = one._asdict()
    return convert({**found, **found.pop("outcome")}, PlanOutcomeAnswer)


def venue_reliability_answer(venue: str, tallies: Sequence[PoolTally]) -> VenueReliabilityAnswer:
    """Return the wire form of a venue's reliability."""
    whole, pools = records_of(tallies)
    links = [Link(rel="self", href=f"/v1/venues/{venue}/reliability")]
    told = [_record(one) for one in pools]
    return VenueReliabilityAnswer(venue=venue, confidence=CONFIDENCE, all=_record(whole), pools=told, links=links)


def peer_reliability_answer(peer: str, tallies: Sequence[PoolTally]) -> PeerReliabilityAnswer:
    """Return the wire form of a peer's reliability."""
    whole, pools = records_of(tallies)
    links = [Link(rel="self", href=f"/v1/peers/{peer}/reliability")]
    told = [_record(one) for one in pools]
    return PeerReliabilityAnswer(peer=peer, confidence=CONFIDENCE, all=_record(whole), pools=told, links=links)


def _record(record: PoolRecord) -> VenueRecordAnswer:
    return answer_of(VenueRecordAnswer, record)
