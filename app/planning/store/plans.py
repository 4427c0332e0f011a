"""Plans and what came of their jobs. A plan is written once, with its request; both stay as they were.

A plan of many jobs is large. So the database takes out what is asked for, and jobs are read as texts of JSON: who wants
them decodes one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.platform.database.database import Database

_PLAN = """id, number, created_at, answer - 'jobs', ARRAY(
    SELECT job::text FROM jsonb_array_elements(answer->'jobs') WITH ORDINALITY AS one (job, place) ORDER BY place
)"""
_INSERT = """
INSERT INTO plan (id, request, answer) VALUES (%(id)s, %(request)s::jsonb, %(answer)s::jsonb)
ON CONFLICT (id) DO NOTHING
"""
_MATCHING = f"SELECT {_PLAN}, request = %(request)s::jsonb FROM plan WHERE id = %(id)s"
_PAGE = """
SELECT id, number, created_at FROM plan
WHERE %(before)s::bigint IS NULL OR number < %(before)s ORDER BY number DESC LIMIT %(limit)s
"""
_SUMMARIES = """
SELECT id, number, created_at, as_of, currency, expected_cost, on_demand_cost, jsonb_array_length(jobs)
FROM plan, jsonb_to_record(answer)
    AS told (as_of text, currency text, expected_cost float8, on_demand_cost float8, jobs jsonb)
WHERE number = ANY(%(numbers)s::bigint[])
"""
"""A plan's answer is unpacked once for all of its fields."""
_JOB = """
SELECT as_of, jsonb_path_query_first(jobs, '$[*] ? (@.id == $job)', jsonb_build_object('job', %(job)s::text))
FROM plan, jsonb_to_record(answer) AS told (as_of text, jobs jsonb) WHERE id = %(id)s
"""
_TELL = """
INSERT INTO plan_outcome (plan_id, job, venue, peer, zone, instance_type, promised, said_cost, outcome)
VALUES (%(plan)s, %(job)s, %(venue)s, %(peer)s, %(zone)s, %(instance_type)s, %(promised)s, %(said_cost)s,
    %(outcome)s::jsonb)
ON CONFLICT (plan_id, job) DO NOTHING
"""
_OUTCOME = "plan_id, job, told_at, venue, peer, zone, instance_type, promised, said_cost, outcome"
_TOLD = f"SELECT {_OUTCOME}, outcome = %(outcome)s::jsonb FROM plan_outcome WHERE plan_id = %(plan)s AND job = %(job)s"
_AT_VENUE = """venue = %(name)s AND EXISTS (
    SELECT FROM plan JOIN venue known ON known.name = %(name)s
    WHERE plan.id = plan_id AND plan.created_at >= known.created_at
)"""
"""A venue that was removed and made again is another one: what came of plans before it says nothing of it."""
_AT_PEER = "peer = %(name)s"
_NEWEST = """
SELECT zone, instance_type, promised, said_cost, outcome, (outcome->>'cost')::float8 AS paid FROM plan_outcome
WHERE {where} ORDER BY told_at DESC, plan_id, job LIMIT %(most)s
"""
_TALLIES = f"""
SELECT zone, instance_type, count(*) AS told, sum(promised) AS promised,
    count(*) FILTER (WHERE (outcome->>'lost')::float8 = 0) AS lived, sum(said_cost) AS said, sum(paid) AS paid,
    count(*) FILTER (WHERE (outcome->>'on_demand')::boolean) AS on_demand
FROM ({_NEWEST}) AS newest GROUP BY zone, instance_type
"""
_COSTS = f"SELECT paid, said_cost FROM ({_NEWEST}) AS newest"


class StoredPlan(NamedTuple):
    """A plan as it was told: `content` without its jobs, and `jobs`, each as JSON. Its number rises with each plan."""

    id: str
    number: int
    created_at: datetime
    content: Mapping[str, Any]
    jobs: Sequence[str]


class PlanKey(NamedTuple):
    """The names of a plan. A database that was put back gives numbers again, so they alone do not tell it."""

    id: str
    number: int
    created_at: datetime


class PlanSummary(NamedTuple):
    """A plan as a list tells it."""

    id: str
    number: int
    created_at: datetime
    as_of: str
    currency: str | None
    expected_cost: float
    on_demand_cost: float | None
    job_count: int


class StoredJob(NamedTuple):
    """A job as a plan told it, None if the plan has no such one; and the time that the plan is of."""

    as_of: str
    job: Mapping[str, Any] | None


class StoredOutcome(NamedTuple):
    """A job's outcome, beside what was said of it. It began in a pool of the venue, at the peer, or elsewhere."""

    plan: str
    job: str
    told_at: datetime
    venue: str | None
    peer: str | None
    zone: str | None
    instance_type: str | None
    promised: float
    said_cost: float
    outcome: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoolTally:
    """Outcomes of a pool added up: `promised`, `said_cost` and `paid_cost` are sums, the others are counted."""

    zone: str | None
    instance_type: str | None
    count: int
    promised: float
    lived: int
    said_cost: float
    paid_cost: float
    on_demand: int


class NewOutcome(NamedTuple):
    """An outcome to be written; see StoredOutcome."""

    plan: str
    job: str
    venue: str | None
    peer: str | None
    zone: str | None
    instance_type: str | None
    promised: float
    said_cost: float
    outcome: Mapping[str, Any]


class PlanStore:
    """Plans by id, and outcomes by plan and job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def matching(self, id_: str, request: Mapping[str, Any]) -> tuple[StoredPlan, bool] | None:
        """Return the plan of an id, and if it was made for this request."""
        rows = await self._database.execute_directly(_MATCHING, {"id": id_, "request": json.dumps(request)})
        return (StoredPlan(*rows[0][:5]), bool(rows[0][5])) if rows else None

    async def write(self, id_: str, request: Mapping[str, Any], content: str) -> None:
        """Write a plan, whose content is JSON, unless there is one of that id."""
        given = {"id": id_, "request": json.dumps(request), "answer": content}
        await self._database.execute(_INSERT, given)

    async def get(self, id_: str) -> StoredPlan | None:
        """Return a plan."""
        rows = await self._database.execute_directly(f"SELECT {_PLAN} FROM plan WHERE id = %(id)s", {"id": id_})
        return StoredPlan(*rows[0]) if rows else None

    async def job(self, id_: str, job: str) -> StoredJob | None:
        """Return a job of a plan; None if there is no such plan."""
        rows = await self._database.execute(_JOB, {"id": id_, "job": job})
        return StoredJob(*rows[0]) if rows else None

    async def page(self, before: int | None, limit: int) -> list[PlanKey]:
        """Return plans with smaller numbers, the newest first."""
        rows = await self._database.execute(_PAGE, {"before": before, "limit": limit})
        return [PlanKey(*row) for row in rows]

    async def summaries(self, numbers: Sequence[int]) -> list[PlanSummary]:
        """Return what a list tells of the plans with these numbers. Each plan is unpacked for it, which takes 1 ms."""
        rows = await self._database.execute(_SUMMARIES, {"numbers": [*numbers]})
        return [PlanSummary(*row) for row in rows]

    async def tell(self, told: NewOutcome) -> tuple[StoredOutcome, bool]:
        """Write an outcome, unless there is one of that job. Return the one that is there, and if it is this one."""
        given = told._asdict() | {"outcome": json.dumps(told.outcome)}
        await self._database.execute(_TELL, given)
        [row] = await self._database.execute(_TOLD, {name: given[name] for name in ("plan", "job", "outcome")})
        return StoredOutcome(*row[:10]), bool(row[10])

    async def of_plan(self, id_: str) -> Sequence[StoredOutcome]:
        """Return the outcomes of a plan's jobs."""
        sql = f"SELECT {_OUTCOME} FROM plan_outcome WHERE plan_id = %(plan)s ORDER BY told_at, job"
        return [StoredOutcome(*row) for row in await self._database.execute(sql, {"plan": id_})]

    async def at_venue(self, venue: str, most: int) -> Sequence[PoolTally]:
        """Return the newest outcomes of jobs that began in a venue, added up by pool."""
        return await self._tallies(_AT_VENUE, venue, most)

    async def at_peer(self, peer: str, most: int) -> Sequence[PoolTally]:
        """Return the newest outcomes of jobs that began at a peer, added up by pool."""
        return await self._tallies(_AT_PEER, peer, most)

    async def costs_at_venue(self, venue: str, most: int) -> Sequence[tuple[float, float]]:
        """Return what was paid and what was said of the newest jobs that began in a venue, the oldest of them first."""
        return await self._costs(_AT_VENUE, venue, most)

    async def costs_at_peer(self, peer: str, most: int) -> Sequence[tuple[float, float]]:
        """Return what was paid and what was said of the newest jobs that began at a peer, the oldest of them first."""
        return await self._costs(_AT_PEER, peer, most)

    async def _tallies(self, where: str, name: str, most: int) -> Sequence[PoolTally]:
        rows = await self._database.execute(_TALLIES.format(where=where), {"name": name, "most": most})
        return [PoolTally(*row) for row in rows]

    async def _costs(self, where: str, name: str, most: int) -> Sequence[tuple[float, float]]:
        rows = await self._database.execute_directly(_COSTS.format(where=where), {"name": name, "most": most})
        return [(paid, said) for paid, said in reversed(rows)]
