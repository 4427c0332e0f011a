"""Plans: made once for an id, kept as they were told, stepped as they were advised, and judged by their outcomes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.domain.errors import (
    DeadlinePassed,
    OutcomeConflict,
    PlanConflict,
    PlanInfeasible,
    PlanInvalid,
    PlannedJobNotFound,
    PlanNotFound,
    ServiceStopping,
)
from app.domain.paging import Page
from app.domain.times import DAY_US, from_rfc3339, time_text
from app.planning.asking import AskedJob, PlanRequest
from app.planning.listing import PlanList, PlanSummary
from app.planning.places import KnownPlaces, PlaceKind, PlanPlaces, Promises, pools_of
from app.planning.store.plans import NewOutcome, PlanStore, PoolTally, StoredOutcome, StoredPlan
from app.planning.telling import Content, plan_text, policy_of
from app.platform.asked import CommonTurns
from app.platform.telemetry.metrics import PLANNED_JOBS
from app.platform.turns import Turns
from app.venues.quoting import WINDOW_US
from app.venues.reads import check_not_ahead
from app.venues.rules.calibrate import RunningRatio
from app.venues.rules.jobreplay import PlanStopped, ReplayWork, TooManyLaunches
from app.venues.rules.jobsteps import JobMove, JobMoveKind, advised_move
from app.venues.rules.planmaking import (
    BudgetImpossible,
    DeadlineImpossible,
    MadePlan,
    PlanQuestion,
    make_plan,
)
from app.venues.rules.planned import PlanJob, SurvivalSource
from app.venues.rules.pricefiles import AHEAD_US

FURTHEST_US = 100 * 366 * DAY_US
"""So long after its plan a deadline may be."""
MOST_OUTCOMES = 10_000
"""Reliability is judged by so many of the newest outcomes."""

__all__ = ["PlanSummary", "Plans", "StoredOutcome", "StoredPlan", "read_jobs"]


class JobStanding(NamedTuple):
    """The standing of a job on no machine: the time, the share of its work that is saved, the ways it could take."""

    at_us: int
    saved: float
    available: Sequence[int]


@dataclass(frozen=True, slots=True)
class OutcomeTold:
    """A job's outcome: when it ended (None: it did not), its cost, machines lost, and if it used one on demand."""

    job: str
    ended_us: int | None
    cost: float
    lost: int
    on_demand: bool
    body: Mapping[str, Any]


class _Beginning(NamedTuple):
    """The venue or the peer in which a job began, and the pool."""

    venue: str | None = None
    peer: str | None = None
    zone: str | None = None
    instance_type: str | None = None


class Plans:
    """Makes and keeps plans. One is made at a time. `now_us` is the server's clock."""

    def __init__(self, store: PlanStore, places: PlanPlaces, now_us: Callable[[], int]) -> None:
        self._store, self._places, self.now_us = store, places, now_us
        self._list = PlanList(store)
        self._turn = CommonTurns()
        self._work: ReplayWork | None = None
        self._is_stopping = False

    def end_waits(self) -> None:
        """Give up the plan that is being made, and refuse those that wait, because the service is stopping."""
        self._is_stopping = True
        if self._work is not None:
            self._work.stop()

    async def make(self, request: PlanRequest) -> StoredPlan:
        """Return the plan of a request's id, which is made if there is none.

        Raises PlanConflict, DeadlinePassed, PlanInvalid, PlanInfeasible, TimeAhead, ServiceStopping, and what the
        places raise. If it is cancelled it ends once the thread that makes the plan has seen that.
        """
        if (known := await self._matching(request)) is not None:
            return known
        if request.at_us is not None:
            check_not_ahead(request.at_us, self.now_us())
            if request.clouds or request.peers:
                raise PlanInvalid("clouds and peers are known as of now alone: leave out `at`, or them")
        promised = await self._places.ask_peers(request)  # before its turn: a slow peer holds up no other plan
        async with self._turn.taken():
            if (known := await self._matching(request)) is not None:
                return known
            content = await self._made(request, promised)
        await self._store.write(request.id, request.body, content)
        PLANNED_JOBS.inc(len(request.jobs))
        plan = await self._matching(request)
        assert plan is not None
        return plan

    async def _matching(self, request: PlanRequest) -> StoredPlan | None:
        found = await self._store.matching(request.id, request.body)
        if found is None:
            return None
        if not found[1]:
            raise PlanConflict(f"plan {request.id!r} was made for another request; choose another id")
        return found[0]

    async def _made(self, request: PlanRequest, promised: Promises) -> str:
        at_us = self.now_us() if request.at_us is None else request.at_us
        jobs = [one.planned_at(at_us) for one in request.jobs]
        _check_deadlines(jobs, at_us)
        known = await self._places.find(request, promised, at_us)
        question = PlanQuestion(
            [_plan_job(one, known, request) for one in jobs],
            request.limits,
            request.launch_us,
            at_us,
            WINDOW_US,
        )
        made = await self._planned(question, known)
        ratios = {
            (PlaceKind.VENUE, one.name): _ratio(await self._store.costs_at_venue(one.name, MOST_OUTCOMES))
            for one in known.venues
        }
        ratios |= {
            (PlaceKind.PEER, one.peer): _ratio(await self._store.costs_at_peer(one.peer, MOST_OUTCOMES))
            for one in request.peers
        }
        return await asyncio.to_thread(plan_text, request, at_us, known, made, ratios)

    async def _planned(self, question: PlanQuestion, known: KnownPlaces) -> MadePlan:
        """Return a plan that is made in a thread, which is over when this is."""
        if self._is_stopping:
            raise ServiceStopping("no plan was made")
        work = self._work = ReplayWork()
        running = asyncio.ensure_future(asyncio.to_thread(_feasible, question, known, work))
        try:
            return await asyncio.shield(running)
        finally:
            work.stop()
            self._work = None
            await asyncio.wait([running])

    async def show(self, id_: str) -> StoredPlan:
        """Return a plan. Raises PlanNotFound."""
        plan = await self._store.get(id_)
        if plan is None:
            raise _no_plan(id_)
        return plan

    async def list(self, marker: int | None, limit: int) -> Page[PlanSummary]:
        """Return plans, the newest first."""
        return await self._list.page(marker, limit)

    async def outcomes(self, plan: StoredPlan) -> Sequence[StoredOutcome]:
        """Return what was told of a plan's jobs."""
        return await self._store.of_plan(plan.id)

    async def next_move(self, id_: str, job: str, step: JobStanding) -> JobMove:
        """Return what a job that is on no machine does now: the rule that was replayed for its plan.

        Raises PlanNotFound, PlannedJobNotFound, PlanInvalid if it has no deadline or no such way.
        """
        _, content = await self._job(id_, job)
        if content["deadline"] is None or content["on_demand"] is None:
            raise PlanInvalid(f"job {job!r} has no deadline: it is launched once, and nothing follows")
        policy = policy_of(content)
        if any(way >= len(policy.ways) for way in step.available):
            raise PlanInvalid(f"job {job!r} has the ways 0 to {len(policy.ways) - 1}" if policy.ways else "no ways")
        left_us = from_rfc3339(content["deadline"]) - step.at_us
        if left_us <= 0:
            return JobMove(JobMoveKind.ON_DEMAND, -1, 0.0, 1.0)
        return advised_move(policy, left_us, step.saved, [at in step.available for at in range(len(policy.ways))])

    async def tell(self, id_: str, told: OutcomeTold) -> StoredOutcome:
        """Keep what came of a job. Raises PlanNotFound, PlannedJobNotFound, PlanInvalid, OutcomeConflict."""
        as_of, job = await self._job(id_, told.job)
        self._check_end(as_of, told)
        new = NewOutcome(id_, told.job, *_began(job), job["survival"], job["expected_cost"], told.body)
        stored, is_same = await self._store.tell(new)
        if not is_same:
            raise OutcomeConflict(f"another outcome was told of job {told.job!r} of plan {id_!r}")
        return stored

    async def _job(self, id_: str, job: str) -> tuple[str, Content]:
        """Return the time that a plan is of, and a job of it. The whole plan is not read."""
        found = await self._store.job(id_, job)
        if found is None:
            raise _no_plan(id_)
        if found.job is None:
            raise PlannedJobNotFound(f"plan {id_!r} has no job {job!r}")
        return found.as_of, found.job

    def _check_end(self, as_of: str, told: OutcomeTold) -> None:
        if told.ended_us is None:
            return
        if told.ended_us > self.now_us() + AHEAD_US:
            raise PlanInvalid(f"{time_text(told.ended_us)} is more than five minutes in the future")
        if told.ended_us < from_rfc3339(as_of):
            raise PlanInvalid(f"job {told.job!r} cannot have ended before its plan, of {as_of}")

    async def of_venue(self, venue: str) -> Sequence[PoolTally]:
        """Return the newest outcomes of jobs that began in a venue, added up by pool."""
        return await self._store.at_venue(venue, MOST_OUTCOMES)

    async def of_peer(self, peer: str) -> Sequence[PoolTally]:
        """Return the newest outcomes of jobs that began at a peer, added up by pool."""
        return await self._store.at_peer(peer, MOST_OUTCOMES)


async def read_jobs(plan: StoredPlan) -> Sequence[Content]:
    """Return a plan's jobs, which are read in turns."""
    found = []
    with Turns() as turns:
        for job in plan.jobs:
            found.append(json.loads(job))
            if turns.is_due():
                await turns.give()
    return found


def _ratio(costs: Sequence[tuple[float, float]]) -> float:
    """Return what was paid over what was said."""
    ratio = RunningRatio()
    for paid, said in costs:
        ratio.note(paid, said)
    return ratio.value


def _began(job: Content) -> _Beginning:
    """Return the venue or the peer in which a job began, with the pool; None where it was neither."""
    if not job["ways"]:
        return _Beginning()
    way = job["ways"][0]
    pool = way["zone"], way["instance_type"]
    if way["product"] is not None:
        return _Beginning(way["place"], None, *pool)
    if way["source"] == SurvivalSource.PEER_PROMISE:
        return _Beginning(None, way["place"], *pool)
    return _Beginning()


def _feasible(question: PlanQuestion, known: KnownPlaces, work: ReplayWork) -> MadePlan:
    try:
        return make_plan(question, pools_of(known.places), work)
    except PlanStopped as error:
        raise ServiceStopping("no plan was made") from error
    except DeadlineImpossible as error:
        if error.earliest_us is None:
            raise PlanInfeasible(f"no machine on demand is known that could run job {error.job!r}") from error
        earliest = time_text(error.earliest_us)
        raise PlanInfeasible(f"job {error.job!r}: the earliest deadline that on-demand meets is {earliest}") from error
    except TooManyLaunches as error:
        raise PlanInvalid(
            f"job {error.job!r} would be launched too often for a plan to be made soon: give it more time until its "
            "deadline, or take checkpoints more often"
        ) from error
    except BudgetImpossible as error:
        raise PlanInfeasible(f"the cheapest plan found costs {error.least:.6g}, more than the budget") from error


def _check_deadlines(jobs: Sequence[AskedJob], at_us: int) -> None:
    for job in jobs:
        if job.deadline_us is not None and job.deadline_us <= at_us:
            raise DeadlinePassed(f"the deadline of job {job.id!r} is not after {time_text(at_us)}")
        if job.deadline_us is not None and job.deadline_us > at_us + FURTHEST_US:
            raise PlanInvalid(f"the deadline of job {job.id!r} is more than 100 years after {time_text(at_us)}")


def _plan_job(asked: AskedJob, known: KnownPlaces, request: PlanRequest) -> PlanJob:
    if asked.on_type is not None and asked.on_type not in known.types:
        raise PlanInvalid(
            f"job {asked.id!r}: no venue of the plan tells the machine type {asked.on_type!r}; import it with "
            "`tenure venue import --types`"
        )
    machine = known.types.get(asked.on_type) if asked.on_type is not None else None
    units = asked.compute_units if machine is None else machine.compute_units
    memory_gib = asked.memory_gib
    if memory_gib is None:
        memory_gib = 0.0 if machine is None else machine.memory_gib
    if asked.parallelism is not None and not units:
        raise PlanInvalid(f"job {asked.id!r}: parallelism needs `on_type` or `compute_units`")
    return PlanJob(
        asked.id,
        asked.work_us,
        units or 0.0,
        memory_gib,
        asked.deadline_us,
        request.probability,
        asked.value,
        asked.penalty,
        asked.parallelism,
        request.checkpoint,
    )


def _no_plan(id_: str) -> PlanNotFound:
    return PlanNotFound(f"there is no plan {id_!r}")
