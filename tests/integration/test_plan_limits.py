"""Plans that ask for too much are refused, those of callers that left are given up, and callers take turns."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from api_service import TOKEN, Service
from test_api_errors import check

from app.domain import errors
from app.planning.places import KnownPlaces
from app.planning.plans import Plans
from app.planning.wire import PlanBody
from app.platform.http import errors as api_errors
from app.platform.http.dear import DearQueues
from app.venues.rules.jobreplay import ReplayWork
from app.venues.rules.planmaking import make_plan

YEARS_S = 10 * 366 * 86_400
RATE = {"name": "r", "price": 0.01, "on_demand_price": 0.02, "lost_in_a_month": 0.05}


def body(id_: str, rate: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    asked = {"id": "j", "work_s": 3600, "deadline": "2100-01-01T00:00:00Z", **job}
    return {"id": id_, "jobs": [asked], "rates": [{**RATE, **(rate or {})}]}


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    service.import_prices("limited", ["aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX,2015-05-01T00:00:00Z,0.03,USD"])
    return service.client


def asked(client: httpx2.Client, given: dict[str, Any]) -> httpx2.Response:
    return client.post("/v1/plans", json=given)


def test_times_beyond_a_plan_are_refused(client: httpx2.Client) -> None:
    answer = asked(client, body("far", deadline="9999-12-31T23:59:59Z"))
    check(answer, errors.PlanInvalid)
    assert "100 years" in answer.text
    check(asked(client, {**body("far"), "at": "9999-12-30T00:00:00Z"}), errors.TimeAhead)
    pool = client.get("/v1/venues/limited/pools").json()["pools"][0]["id"]
    for path in ("quotes", f"pools/{pool}/survival"):
        given = {"at": "9999-12-30T00:00:00Z", "lifetime_s": 3600}
        check(client.get(f"/v1/venues/limited/{path}", params=given), errors.TimeAhead)


def test_speeds_that_no_machine_has_are_refused(client: httpx2.Client) -> None:
    for units in (1e-293, 5e-324, 1e-4, 2e6):
        check(asked(client, body("fast", compute_units=units)), api_errors.FieldInvalid)
        check(asked(client, body("fast", rate={"compute_units": units})), api_errors.FieldInvalid)
    slow = body("slow", {"compute_units": 1.0}, compute_units=1e6, parallelism=999_999, work_s=YEARS_S)
    check(asked(client, slow), errors.PlanInfeasible)
    slow = body("late", {"compute_units": 4e5}, compute_units=1e6, parallelism=999_999, work_s=YEARS_S)
    slow["launch_s"] = YEARS_S
    slow["jobs"][0]["deadline"] = "2027-01-01T00:00:00Z" if time.time() < 1_798_000_000 else "2060-01-01T00:00:00Z"
    answer = asked(client, slow)
    assert answer.status_code < 500, answer.text


def test_the_costs_of_many_slow_jobs_are_numbers(client: httpx2.Client) -> None:
    job = {"work_s": YEARS_S, "value": 1e9, "compute_units": 1e6, "parallelism": 1, "deadline": None}
    given = body("dear", {"compute_units": 1e-3, "price": 1e9, "on_demand_price": 1e9}, **job)
    given["jobs"] = [
        {**{name: one for name, one in given["jobs"][0].items() if one is not None}, "id": f"j{at}"}
        for at in range(200)
    ]
    answer = asked(client, given)
    assert answer.is_success, answer.text
    assert answer.json()["expected_cost"] < 1e30


class Endless:
    """A plan that is made without end, until it is stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.ended = threading.Event(), threading.Event()
        self.works = list[ReplayWork]()
        monkeypatch.setattr("app.planning.plans.make_plan", self.make)

    def make(self, question: Any, pools: Any, work: ReplayWork) -> Any:
        if not question.jobs[0].id.startswith("endless"):
            return make_plan(question, pools, work)
        self.began.set()
        self.works.append(work)
        try:
            for _ in work.each(itertools.count()):
                time.sleep(0.01)
        finally:
            self.ended.set()

    def ask(self, service: Service, id_: str) -> socket.socket:
        address = urlsplit(service.url)
        text = json.dumps(body(id_, id="endless"))
        made = socket.create_connection((address.hostname, address.port))
        head = f"POST /v1/plans HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
        made.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        return made


def test_a_plan_whose_caller_has_gone_is_given_up(
    client: httpx2.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = Endless(monkeypatch)
    first, second = endless.ask(service, "gone"), endless.ask(service, "gone-too")
    assert endless.began.wait(10)
    assert not endless.ended.is_set()
    second.close()
    time.sleep(0.6)
    first.close()
    assert endless.ended.wait(10)
    assert asked(client, body("stayed")).is_success
    assert len(endless.works) == 1, "nothing was done for who left while he waited"
    check(client.get("/v1/plans/gone"), errors.PlanNotFound)


def test_each_caller_has_one_plan_in_the_line(
    client: httpx2.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless, keys = Endless(monkeypatch), list[Any]()
    place = DearQueues.place

    def noted(self: DearQueues, key: Any, *more: Any, **named: Any) -> Any:
        keys.append(key)
        return place(self, key, *more, **named)

    monkeypatch.setattr(DearQueues, "place", noted)
    made = client.post("/v1/tokens", json={"name": "other", "role": "service"}).json()
    waiting = [endless.ask(service, f"line-{at}") for at in range(3)]
    assert endless.began.wait(10)
    found = list[httpx2.Response]()
    other = threading.Thread(
        target=lambda: found.append(
            httpx2.post(
                f"{service.url}/v1/plans", json=body("of-other"), headers={"X-Auth-Token": made["token"]}, timeout=30
            )
        )
    )
    other.start()
    time.sleep(0.5)
    waiting[0].close()
    other.join(30)
    assert found, "the other's plan waits for one of the first caller's, not for all"
    assert found[0].is_success, found[0].text
    for one in waiting[1:]:
        one.close()
    assert asked(client, body("line-after")).is_success
    assert len({key for key in keys if key[1] == "all plans"}) == 2


def test_a_service_that_stops_makes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless(monkeypatch)

    class NoStore:
        async def matching(self, *_: object) -> None:
            return None

    class NoPlaces:
        async def ask_peers(self, *_: object) -> list[object]:
            return []

        async def find(self, *_: object) -> Any:
            return KnownPlaces([], [], [], {}, None)

    async def stopped() -> None:
        plans: Any = Plans(NoStore(), NoPlaces(), lambda: 1_800_000_000_000_000)
        request = PlanBody.model_validate_json(json.dumps(body("stop", id="endless"))).request()
        making = asyncio.create_task(plans.make(request))
        assert await asyncio.to_thread(endless.began.wait, 10)
        plans.end_waits()
        with pytest.raises(errors.ServiceStopping):
            await making
        with pytest.raises(errors.ServiceStopping):
            await plans.make(request)

    asyncio.run(stopped())
    assert len(endless.works) == 1
