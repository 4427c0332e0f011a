"""Plans and what came of their jobs. A plan is written once, with its request; both stay as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from app.platform.database.database import Database

_PLAN = "id, number, created_at, answer"
_INSERT = """
INSERT INTO plan (id, request, answer) VALUES (%(id)s, %(request)s::jsonb, %(answer)s::jsonb)
ON CONFLICT (id) DO NOTHING
"""
_MATCHING = f"SELECT {_PLAN}, request = %(request)s::jsonb FROM plan WHERE id = %(id)s"
_PAGE = f"""
SELECT {_PLAN} FROM plan WHERE %(before)s::bigint IS NULL OR number < %(before)s ORDER BY number DESC LIMIT %(limit)s
"""
_TELL = """
INSERT INTO plan_outcome (plan_id, job, venue, peer, zone, instance_type, promised, said_cost, outcome)
VALUES (%(plan)s, %(job)s, %(venue)s, %(peer)s, %(zone)s, %(instance_type)s, %(promised)s, %(said_cost)s,
    %(outcome)s::jsonb)
ON CONFLICT (plan_id, job) DO NOTHING
"""
_OUTCOME = "plan_id, job, told_at, venue, peer, zone, instance_type, promised, said_cost, outcome"
_TOLD = f"SELECT {_OUTCOME}, outcome = %(outcome)s::jsonb FROM plan_outcome WHERE plan_id = %(plan)s AND job = %(job)s"
_NEWEST = "ORDER BY told_at DESC, plan_id, job LIMIT %(most)s"
_OF_VENUE = f"""
SELECT {_OUTCOME} FROM plan_outcome WHERE venue = %(name)s AND EXISTS (
    SELECT FROM plan JOIN venue known ON known.name = %(name)s
    WHERE plan.id = plan_id AND plan.created_at >= known.created_at
) {_NEWEST}
"""
"""A venue that was removed and made again is another one: what came of plans before it says nothing of it."""
_OF_PEER = f"SELECT {_OUTCOME} FROM plan_outcome WHERE peer = %(name)s {_NEWEST}"


class StoredPlan(NamedTuple):
    """A plan: its number rises with each, `content` is the plan as it was told."""

    id: str
    number: int
    created_at: datetime
    content: Mapping[str, Any]


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
        rows = await self._database.execute(_MATCHING, {"id": id_, "request": json.dumps(request)})
        return (StoredPlan(*rows[0][:4]), bool(rows[0][4])) if rows else None

    async def write(self, id_: str, request: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Write a plan, unless there is one of that id."""
        given = {"id": id_, "request": json.dumps(request), "answer": json.dumps(content)}
        await self._database.execute(_INSERT, given)

    async def get(self, id_: str) -> StoredPlan | None:
        """Return a plan."""
        rows = await self._database.execute(f"SELECT {_PLAN} FROM plan WHERE id = %(id)s", {"id": id_})
        return StoredPlan(*rows[0]) if rows else None

    async def page(self, before: int | None, limit: int) -> list[StoredPlan]:
        """Return plans with smaller numbers, the newest first."""
        rows = await self._database.execute(_PAGE, {"before": before, "limit": limit})
        return [StoredPlan(*row) for row in rows]

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

    async def of_venue(self, venue: str, most: int) -> Sequence[StoredOutcome]:
        """Return the newest outcomes of jobs that began in a venue, the oldest of them first."""
        return await self._of_place(_OF_VENUE, venue, most)

    async def of_peer(self, peer: str, most: int) -> Sequence[StoredOutcome]:
        """Return the newest outcomes of jobs that began at a peer, the oldest of them first."""
        return await self._of_place(_OF_PEER, peer, most)

    async def _of_place(self, statement: str, name: str, most: int) -> Sequence[StoredOutcome]:
        rows = await self._database.execute(statement, {"name": name, "most": most})
        return [StoredOutcome(*row) for row in reversed(rows)]
