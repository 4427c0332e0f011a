"""Plans in the service: made once for an id, over venues, own clouds and rates; moves, outcomes and reliability."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import numpy as np
import pytest
from api_service import Service
from test_api_errors import check
from test_venues import END_US, TYPES, lines, put, rows_of

from app.domain import errors
from app.domain.times import DAY_US, HOUR_US, rfc3339
from app.platform.http import errors as api_errors
from app.processes.import_wiring import open_venue_imports
from app.venues.rules.assign import PlanLimits
from app.venues.rules.history import PriceSteps
from app.venues.rules.planmaking import PlanQuestion, make_plan
from app.venues.rules.planned import PlanJob, PlanPool, SurvivalSource
from tenure_client import Conflict, TenureClient

AT = rfc3339(END_US)
CHECKPOINT = {"write_s": 60, "read_s": 60}


def job(name: str = "render", hours: float = 4.0, left: float = 8.0, **more: Any) -> dict[str, Any]:
    fields = {"deadline": rfc3339(END_US + int(left * HOUR_US)), "on_type": "c3.xlarge", **more}
    return {"id": name, "work_s": hours * 3600, **{name: one for name, one in fields.items() if one is not None}}


def body(id_: str, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    fields = {"venues": ["plans"], "at": AT, "checkpoint": CHECKPOINT, **more}
    return {"id": id_, "jobs": [*jobs], **{name: one for name, one in fields.items() if one is not None}}


def compile_the_planner() -> None:
    """Make a plan in this process, so that no request waits for the compiler on a busy machine."""
    at_us = np.arange(0, 3 * DAY_US, HOUR_US, dtype=np.int64)
    past = PriceSteps(at_us, 0.03 + 0.01 * (at_us // HOUR_US % 3), 3 * DAY_US)
    pools = [PlanPool("a", TYPES["c3.xlarge"], SurvivalSource.PRICE_CROSSING, past)]
    asked = PlanJob("j", HOUR_US, 1.0, 1.0, 3 * DAY_US + 4 * HOUR_US, 0.5)
    assert make_plan(PlanQuestion([asked], PlanLimits(), 0, 3 * DAY_US, 2 * DAY_US), pools).jobs


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    compile_the_planner()
    put(service, "plans", lines("abc"))
    return service.client


def made(client: httpx2.Client, given: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/v1/plans", json=given)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_plan_tells_pools_bids_and_what_it_would_have_cost(client: httpx2.Client) -> None:
    plan = made(client, body("first", job(), job("other", 1.0, 3.0)))
    assert (plan["id"], plan["currency"], plan["as_of"], plan["pool_count"]) == ("first", "USD", AT, 3)
    assert plan["venues"] == [{"name": "plans", "as_of": AT, "is_stale": False}]
    assert plan["expected_cost"] == pytest.approx(sum(one["expected_cost"] for one in plan["jobs"]))
    assert plan["expected_cost"] < plan["on_demand_cost"] == pytest.approx(5 * 0.21)
    assert plan["choice"] == {"method": "each_best", "gap": 0.0}
    assert len(plan["cost_quantiles"]) == 21
    for one in plan["jobs"]:
        assert (one["runs"], one["in_time"]) == ("spot", 1.0)
        assert one["replay_count"] > 100
        assert one["typical"][-1]["to_s"] <= one["ends_s"]["p95"] + 1e-6
        assert all(way["source"] == "price_crossing" and way["bid"] >= way["price"] for way in one["ways"][:1])
        assert one["ways"][0]["survival"] >= 0.95 >= one["ways"][0]["at_least"] - 0.05
    leave = datetime.fromisoformat(plan["jobs"][0]["on_demand"]["leave_at"])
    assert leave == datetime.fromisoformat(AT) + timedelta(hours=4)


def test_a_plan_is_made_once_for_an_id_and_kept(client: httpx2.Client, service: Service) -> None:
    given = body("kept", job())
    first = made(client, given)
    put(service, "plans", lines("abc", days=10, seed=4))  # newer prices change no plan
    assert made(client, given) == first == client.get("/v1/plans/kept").json()
    check(client.post("/v1/plans", json=body("kept", job(hours=5.0))), errors.PlanConflict)
    listed = client.get("/v1/plans", params={"limit": 1}).json()
    assert listed["plans"][0]["id"] == "kept"
    rest = client.get(listed["links"][0]["href"]).json() if listed["links"] else {"plans": []}
    assert "kept" not in [one["id"] for one in rest["plans"]]


def test_a_deadline_after_the_plan_is_the_same_request_later(client: httpx2.Client) -> None:
    after = job(deadline=None, deadline_after_s=8 * 3600)
    told, counted = made(client, body("told", job())), made(client, body("counted", after))
    assert counted["jobs"] == told["jobs"], "as of one time they are one deadline"
    now = body("now", after, at=None)
    assert made(client, now) == made(client, now)
    later = body("now", {**after, "deadline_after_s": 9 * 3600}, at=None)
    check(client.post("/v1/plans", json=later), errors.PlanConflict)


def test_a_venue_without_machine_types_says_what_helps(client: httpx2.Client, service: Service) -> None:
    async def work() -> None:
        async with open_venue_imports(service.settings) as imports:
            await imports.run("typeless", rows_of(lines("a")), {}, [])

    asyncio.run(work())
    for given in (body("typeless", job(on_type=None), venues=["typeless"]), body("typeless", job(on_type="x9.huge"))):
        answer = client.post("/v1/plans", json=given)
        check(answer, errors.PlanInvalid)
        assert "`tenure venue import --types`" in answer.json()["errors"][0]["detail"]


def test_what_cannot_be_planned_is_refused_and_nothing_is_kept(client: httpx2.Client) -> None:
    check(client.post("/v1/plans", json=body("bad", job(left=2.0))), errors.PlanInfeasible)
    answer = client.post("/v1/plans", json=body("bad", job(left=2.0))).json()
    assert "2015-05-11 04:00" in answer["errors"][0]["detail"], "the earliest deadline that on-demand meets"
    check(client.post("/v1/plans", json=body("bad", job(left=-1.0))), errors.DeadlinePassed)
    check(client.post("/v1/plans", json=body("bad", job(on_type="x9.huge"))), errors.PlanInvalid)
    check(client.post("/v1/plans", json=body("bad", job(), budget=0.001)), errors.PlanInfeasible)
    endless = body(
        "bad",
        job(hours=96.0, left=96.0 + 1 / 3600),
        checkpoint={**CHECKPOINT, "write_s": 0, "read_s": 0, "every_s": 10**6},
    )
    check(client.post("/v1/plans", json=endless), errors.PlanInvalid)
    check(client.post("/v1/plans", json=body("bad", job(), venues=["nowhere"])), errors.VenueNotFound)
    check(client.post("/v1/plans", json=body("bad", job(), at="2014-01-01T00:00:00Z")), errors.HistoryTooShort)
    for wrong in (
        body("bad", job(), probability=1),
        body("bad", job(), probability=-0.1),
        body("bad", job(), job()),
        body("bad", job(deadline=None)),
        body("bad", job(deadline_after_s=3600)),
        body("bad", job(), venues=None),
        body("bad", *[job(f"j{at}") for at in range(201)]),
        body("bad", job(), zone_share=0),
        body("bad", {**job(), "work_s": 0}),
        body("bad", job(on_type="\0")),
        body("bad", job(), rates=[{"name": "r", "zone": "\0", "price": 1, "lost_in_a_month": 0.1}]),
    ):
        check(client.post("/v1/plans", json=wrong), api_errors.FieldInvalid)
    check(client.get("/v1/plans/bad"), errors.PlanNotFound)


def test_probability_0_takes_the_market_price_where_that_is_cheapest(client: httpx2.Client) -> None:
    plan = made(client, body("bold", job(), probability=0))
    assert plan["jobs"][0]["expected_cost"] <= made(client, body("shy", job()))["jobs"][0]["expected_cost"] + 1e-9


def test_stale_prices_are_marked(client: httpx2.Client) -> None:
    at_us = END_US + 3 * DAY_US
    given = body("stale", job(left=90.0), at=rfc3339(at_us))
    plan = made(client, given)
    assert plan["venues"][0]["is_stale"]
    assert all(way["is_stale"] for one in plan["jobs"] for way in one["ways"])


def test_caps_and_shares_of_zones_are_kept(client: httpx2.Client) -> None:
    jobs = [job(f"j{at}", 2.0) for at in range(6)]
    plan = made(client, body("caps", *jobs, most_per_pool=2))
    zones = [one["ways"][0]["zone"] for one in plan["jobs"] if one["ways"]]
    assert max(zones.count(zone) for zone in zones) <= 2
    assert plan["choice"]["method"] in {"assignment", "integer_program"}
    shared = made(client, body("shares", *jobs, zone_share=0.34))
    zones = [one["ways"][0]["zone"] for one in shared["jobs"] if one["ways"]]
    assert max(zones.count(zone) for zone in zones) <= 2


def test_rates_alone_make_a_plan(client: httpx2.Client) -> None:
    rate = {"name": "spot-v100", "price": 1.0, "on_demand_price": 3.06, "lost_in_a_month": 0.125}
    given = body("rates", job(on_type=None), venues=None, rates=[rate, {**rate, "zone": "b", "lost_in_a_month": 0.025}])
    plan = made(client, given)
    [one] = plan["jobs"]
    assert (one["ways"][0]["source"], one["ways"][0]["zone"], one["ways"][0]["bid"]) == ("provider_rate", "b", None)
    assert one["in_time"] == 1.0
    assert one["expected_cost"] <= 0.4 * one["on_demand"]["cost"]


def test_own_clouds_stand_beside_venues(client: httpx2.Client, service: Service) -> None:
    policy = {"guarantee": "none", "warm_up_s": 0}
    client.post("/v1/clouds", json={"name": "own", "policy": policy}).raise_for_status()
    cloud = "/v1/clouds/own"
    client.post(f"{cloud}/nodes", json={"name": "n1", "cores": 8}).raise_for_status()
    client.post(f"{cloud}/flavors", json={"name": "small", "cores": 2}).raise_for_status()
    place = {"cloud": "own", "flavor": "small"}
    now = body("own-1", job(deadline=(datetime.now(UTC) + timedelta(hours=9)).isoformat()), at=None, clouds=[place])
    check(client.post("/v1/plans", json=now), errors.TableNotFound)
    client.post(f"{cloud}/tables").raise_for_status()
    service.compute_tables()
    service.wait_for_epoch("own", 1)
    plan = made(client, {**now, "probability": 0})
    sources = {way["source"] for one in plan["jobs"] for way in one["ways"]}
    assert "price_crossing" in sources
    check(client.post("/v1/plans", json={**now, "id": "own-2", "at": AT}), errors.PlanInvalid)
    none = {**now, "id": "own-3", "clouds": [{**place, "flavor": "none"}]}
    check(client.post("/v1/plans", json=none), errors.FlavorNotFound)


def test_the_next_move_is_the_plans(client: httpx2.Client) -> None:
    made(client, body("moves", job()))
    path = "/v1/plans/moves/move"
    query = {"job": "render", "saved": 0, "at": AT}
    run = client.get(path, params={**query, "available": "1"}).json()
    assert (run["move"], run["way"], run["saved_then"]) == ("run", 1, 1.0)
    wait = client.get(path, params=query).json()
    assert (wait["move"], wait["way"], wait["at_most_s"]) == ("wait", None, 4 * 3600)
    late = {**query, "at": rfc3339(END_US + 4 * HOUR_US)}
    assert client.get(path, params=late).json()["move"] == "on_demand"
    half = client.get(path, params={**late, "saved": 0.5}).json()
    assert (half["move"], half["at_most_s"]) == ("wait", 2 * 3600 - 60)
    check(client.get(path, params={**query, "job": "none"}), errors.PlannedJobNotFound)
    check(client.get(path, params={**query, "available": "9"}), errors.PlanInvalid)
    check(client.get(path, params={**query, "saved": 1}), api_errors.FieldInvalid)


def test_outcomes_are_kept_once_and_make_reliability(client: httpx2.Client, service: Service) -> None:
    put(service, "judged", lines("ab"))
    plan = made(client, body("judged-1", *[job(f"j{at}", 2.0) for at in range(4)], venues=["judged"], zone_share=1))
    for at, one in enumerate(plan["jobs"]):
        outcome = {"job": one["id"], "ended_at": AT, "cost": 2 * one["expected_cost"], "lost": int(at == 0)}
        answer = client.post("/v1/plans/judged-1/outcomes", json=outcome)
        assert answer.is_success, answer.text
        assert answer.json() == client.post("/v1/plans/judged-1/outcomes", json=outcome).json()
        assert (answer.json()["promised"], answer.json()["venue"]) == (one["survival"], "judged")
    check(client.post("/v1/plans/judged-1/outcomes", json={"job": "j1", "cost": 9.0}), errors.OutcomeConflict)
    check(client.post("/v1/plans/judged-1/outcomes", json={"job": "x", "cost": 9.0}), errors.PlannedJobNotFound)
    told = client.get("/v1/venues/judged/reliability").json()
    assert (told["all"]["count"], told["all"]["lived"], told["confidence"]) == (4, 0.75, 0.95)
    assert told["all"]["lived_low"] < 0.75 < told["all"]["lived_high"]
    assert told["all"]["paid_cost"] == pytest.approx(2 * told["all"]["said_cost"])
    assert sum(one["count"] for one in told["pools"]) == 4
    later = made(client, body("judged-2", job(), venues=["judged"]))
    assert later["calibrated_cost"] == pytest.approx(2 * later["expected_cost"])
    assert client.get("/v1/venues/plans/reliability").json()["all"]["lived"] is None


def test_an_outcome_that_cannot_be_is_refused(client: httpx2.Client) -> None:
    made(client, body("unended", job()))
    path = "/v1/plans/unended/outcomes"
    for ended in (rfc3339(END_US - 1_000_000), "2999-01-01T00:00:00Z"):
        answer = client.post(path, json={"job": "render", "cost": 1.0, "ended_at": ended})
        check(answer, errors.PlanInvalid)
    assert client.post(path, json={"job": "render", "cost": 1.0, "ended_at": AT}).is_success


def test_a_venue_that_was_removed_and_made_again_begins_without_outcomes(
    client: httpx2.Client, service: Service
) -> None:
    put(service, "reborn", lines("a"))
    made(client, body("before", job(), venues=["reborn"]))
    assert client.post("/v1/plans/before/outcomes", json={"job": "render", "cost": 100.0}).is_success
    assert client.get("/v1/venues/reborn/reliability").json()["all"]["count"] == 1
    assert client.delete("/v1/venues/reborn").status_code == 204
    put(service, "reborn", lines("a"))
    assert client.get("/v1/venues/reborn/reliability").json()["all"]["count"] == 0
    plan = made(client, body("after", job(), venues=["reborn"]))
    assert plan["calibrated_cost"] == plan["expected_cost"]


def test_the_client_speaks_of_plans(client: httpx2.Client, service: Service) -> None:
    with TenureClient(service.url, token=client.headers["X-Auth-Token"]) as tenure:
        plan = tenure.make_plan("by-client", [job()], venues=["plans"], at=datetime.fromisoformat(AT))
        assert tenure.plan("by-client") == plan
        assert tenure.next_move("by-client", "render", 0.0, available=[0], at=plan.as_of).move == "run"
        assert tenure.tell_outcome("by-client", "render", 0.1, ended_at=plan.as_of).cost == 0.1
        assert tenure.venue_reliability("plans").all.count >= 1
        assert "by-client" in [one.id for one in tenure.plans()]
        with pytest.raises(Conflict):
            tenure.make_plan("by-client", [job(hours=1.0)], venues=["plans"])
