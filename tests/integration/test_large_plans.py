"""Plans of many jobs: a list reads none of them, a move reads one, and a whole plan is answered in turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service
from test_api_errors import check

from app.domain import errors
from app.domain.times import rfc3339
from app.planning.listing import PlanList
from app.planning.plans import read_jobs
from app.planning.reliability import records_of
from app.planning.store.plans import NewOutcome, PlanStore
from app.planning.wire import plan_answer
from app.platform.database.database import Database, Parameters
from app.platform.http.dear import READS
from app.platform.http.respond import respond
from app.platform.pages.guard import COOKIE
from app.platform.turns import Turns

BEGIN_US = 1_767_225_600_000_000
MEANS = {"mean": 1.5, "p5": 1.0, "p50": 1.5, "p95": 2.0}
WAY = {
    "source": "provider_rate", "place": "rate", "zone": "a", "instance_type": "rate", "product": None,
    "is_stale": False, "price": 0.1, "bid": None, "survival": 0.97, "at_least": None, "windows": 3.5,
    "expected_cost": 0.25, "run_s": 3600.0, "checkpoint_every_s": None, "write_s": None, "read_s": 0.0, "launch_s": 0.0,
}  # fmt: skip
FIXED = {
    "place": "rate", "instance_type": "rate", "price": 0.3, "cost": 0.3, "run_s": 3600.0, "read_s": 0.0,
    "launch_s": 0.0, "leave_at": rfc3339(BEGIN_US),
}  # fmt: skip
STRETCH = {"way": 0, "from_s": 0.0, "to_s": 3600.0, "lost": False}


def job(number: int) -> dict[str, Any]:
    return {
        "id": f"j{number}", "deadline": rfc3339(BEGIN_US + 86_400_000_000), "runs": "spot", "survival": 0.97,
        "ways": [WAY] * 12, "on_demand": FIXED, "expected_cost": 0.25, "calibrated_cost": 0.25, "cost": MEANS,
        "ends_s": MEANS, "in_time": 1.0, "all_spot": 1.0, "launches": 1.0, "replay_count": 300,
        "typical": [STRETCH], "bad": [STRETCH] * 5,
    }  # fmt: skip


def content(id_: str, jobs: int = 200) -> dict[str, Any]:
    return {
        "id": id_, "as_of": rfc3339(BEGIN_US), "currency": "USD", "probability": 0.95, "expected_cost": 50.0,
        "calibrated_cost": 50.0, "on_demand_cost": 60.0, "cost": MEANS, "cost_quantiles": [1.0] * 21,
        "choice": {"method": "each_best", "gap": 0.0}, "pool_count": 1, "left_out_count": 0, "left_out": [],
        "venues": [], "jobs": [job(number) for number in range(jobs)],
    }  # fmt: skip


class Watched(Database):
    """Counts statements, and the characters that they bring."""

    statements, read = 0, 0

    def _note(self, rows: Any) -> Any:
        self.statements, self.read = self.statements + 1, self.read + sum(len(str(row)) for row in rows)
        return rows

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Any:
        return self._note(await super().execute(sql, parameters))

    async def execute_directly(self, sql: str, parameters: Parameters) -> Any:
        return self._note(await super().execute_directly(sql, parameters))


def watching(url: str, work: Callable[[Watched], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        database = Watched(url)
        try:
            await work(database)
        finally:
            await database.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def plans(service: Service, database_url: str) -> list[dict[str, Any]]:
    """Plans of some 700 KB each, the newest last."""
    made = [content(f"large-{number}") for number in range(6)]

    async def write(database: Watched) -> None:
        for one in made:
            await PlanStore(database).write(one["id"], {}, json.dumps(one))

    watching(database_url, write)
    return made


def test_a_list_reads_what_it_shows_and_reads_it_once(plans: list[dict[str, Any]], database_url: str) -> None:
    async def work(database: Watched) -> None:
        listed = PlanList(PlanStore(database))
        first = await listed.page(None, 4)
        assert (database.statements, database.read < 4 * 1000) == (2, True)
        assert await listed.page(None, 4) == first
        assert database.statements == 3, "what a plan tells is known by then"
        rest = await listed.page(int(first.marker or 0), 4)
        shown = [(one.id, one.as_of, one.expected_cost, one.on_demand_cost, one.job_count) for one in rest.items]
        assert [one.id for one in first.items] == ["large-5", "large-4", "large-3", "large-2"]
        assert shown == [(f"large-{number}", rfc3339(BEGIN_US), 50.0, 60.0, 200) for number in (1, 0)]
        assert rest.marker is None

    watching(database_url, work)


def test_who_asks_for_one_job_reads_one(plans: list[dict[str, Any]], database_url: str) -> None:
    async def work(database: Watched) -> None:
        found = await PlanStore(database).job("large-0", "j7")
        assert found is not None
        assert (found.as_of, found.job) == (rfc3339(BEGIN_US), plans[0]["jobs"][7])
        assert database.read < 10_000

    watching(database_url, work)


def test_a_large_plan_is_answered_as_it_was_told(service: Service, plans: list[dict[str, Any]]) -> None:
    answer = service.client.get("/v1/plans/large-3")
    assert len(answer.content) > 500_000
    found = answer.json()
    assert {name: found[name] for name in plans[3]} == plans[3]
    moved = service.client.get("/v1/plans/large-3/move", params={"job": "j199", "saved": 0, "at": rfc3339(BEGIN_US)})
    assert (moved.status_code, moved.json()["job"]) == (200, "j199")
    told = service.client.post("/v1/plans/large-3/outcomes", json={"job": "j198", "cost": 0.25})
    assert (told.status_code, told.json()["promised"]) == (200, 0.97)
    for path in ("move?saved=0&job=", "outcomes"):
        for plan, name, error in (
            ("large-3", "j200", errors.PlannedJobNotFound),
            ("large-9", "j1", errors.PlanNotFound),
        ):
            if path == "outcomes":
                check(service.client.post(f"/v1/plans/{plan}/{path}", json={"job": name, "cost": 1}), error)
            else:
                check(service.client.get(f"/v1/plans/{plan}/{path}{name}"), error)


def test_the_pages_of_plans_show_what_they_showed(service: Service, plans: list[dict[str, Any]]) -> None:
    signed_in = {"Cookie": f"{COOKIE}={TOKEN}"}
    listed = httpx2.get(f"{service.url}/ui/plans", headers=signed_in).text
    places = [listed.index(f"large-{number}") for number in (5, 3, 0)]
    assert places == sorted(places)
    page = httpx2.get(f"{service.url}/ui/plans/large-2?from=150", headers=signed_in).text
    assert "j150" in page
    assert "j149" not in page


def test_the_page_of_a_large_plan_is_rendered_in_turns(
    service: Service, plans: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    give = Turns.give

    async def counted(self: Turns) -> None:
        nonlocal turns
        turns += 1
        await give(self)

    monkeypatch.setattr(Turns, "give", counted)
    monkeypatch.setattr("app.platform.turns.TURN_S", 0.0)
    answer = httpx2.get(f"{service.url}/ui/plans/large-2", headers={"Cookie": f"{COOKIE}={TOKEN}"})
    assert answer.status_code == 200
    assert turns > 1000, "more than the jobs alone, which are read in turns as well"


@pytest.mark.anyio
@pytest.mark.parametrize("is_page", [False, True])
async def test_others_have_turns_while_a_large_plan_is_answered(
    plans: list[dict[str, Any]], database: Database, monkeypatch: pytest.MonkeyPatch, *, is_page: bool
) -> None:
    monkeypatch.setattr("app.platform.turns.TURN_S", 0.0)
    plan = await PlanStore(database).get("large-1")
    assert plan is not None
    turns, is_over = 0, False

    async def other() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    if is_page:
        assert await read_jobs(plan) == plans[1]["jobs"]
    else:
        assert json.loads(respond(await plan_answer(plan)).body)["jobs"] == plans[1]["jobs"]
    is_over = True
    await beside
    assert turns > 150


def test_the_record_of_a_place_is_added_up_in_the_database(plans: list[dict[str, Any]], database_url: str) -> None:
    async def work(database: Watched) -> None:
        store = PlanStore(database)
        for number in range(40):
            kind, outcome = f"size{number % 2}", {"lost": int(number < 10), "cost": 0.5, "on_demand": number == 0}
            told = NewOutcome("large-0", f"j{number}", None, "far", "", kind, 0.9, 0.25, outcome)
            await store.tell(told)
        before = database.read
        whole, pools = records_of(await store.at_peer("far", 1000))
        assert database.read - before < 1000
        assert (whole.count, whole.lived, whole.on_demand) == (40, 0.75, 1)
        assert (whole.promised, whole.said_cost, whole.paid_cost) == pytest.approx((0.9, 10.0, 20.0))
        assert [(one.instance_type, one.count, one.lived) for one in pools] == [
            ("size0", 20, 0.75),
            ("size1", 20, 0.75),
        ]
        newest, _ = records_of(await store.at_peer("far", 30))
        assert (newest.count, newest.lived, newest.on_demand) == (30, 1.0, 0)
        assert await store.costs_at_peer("far", 3) == [(0.5, 0.25)] * 3
        assert records_of(await store.at_peer("near", 3))[0].promised is None

    watching(database_url, work)


def test_what_reads_a_plan_takes_its_turn() -> None:
    assert {"list_plans", "show_plan", "read_next_move", "tell_outcome"} <= READS
