"""Starts that wait for a table which does not come: what waits with them, and what does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import monotonic
from typing import Any

import httpx2
import pytest
from api_service import Service, running_service

from app.domain import errors
from app.platform.http.errors import PROBLEMS

POLICY = {"clock": "external", "warm_up_s": 0, "recompute_every_s": 3600, "table_max_age_s": 3600}
WAIT_S = 120
ODD_S = 5
"""Far below the wait, far above any answer's own time."""
names = (f"waiting-{number}" for number in count())


@pytest.fixture(scope="module")
def patient(database_url: str) -> Iterator[Service]:
    with running_service(database_url, table_wait_s=WAIT_S) as service:
        yield service


@pytest.fixture
def cloud(patient: Service) -> str:
    name = next(names)
    return make(patient.client, name)


def make(client: httpx2.Client, name: str) -> str:
    path = f"/v1/clouds/{name}"
    at = {"at": at_hour(0.5)}
    client.post("/v1/clouds", json={"name": name, "policy": POLICY, **at}).raise_for_status()
    client.post(f"{path}/nodes", json={"name": "n-1", "cores": 8, "memory_mib": 1024, **at}).raise_for_status()
    client.post(f"{path}/flavors", json={"name": "f", "cores": 1, "memory_mib": 1, **at}).raise_for_status()
    return path


def at_hour(hour: float) -> str:
    return f"1970-01-01T{int(hour):02}:{int(hour % 1 * 60):02}:00Z"


def start(name: str, hour: float, market: str = "on_demand") -> dict[str, Any]:
    more = {"lifetime_s": 60} if market == "spot" else {}
    return {"id": name, "market": market, "flavor": "f", "at": at_hour(hour), **more}


def waiting(pool: ThreadPoolExecutor, client: httpx2.Client, path: str, body: dict[str, Any]) -> Any:
    """Send a request that waits for a table, and return its future when the service has had time to take it."""
    sent = pool.submit(client.post, path, json=body, timeout=150)
    time.sleep(0.5)
    assert not sent.done()
    return sent


def test_nothing_else_waits_with_a_start_that_waits_for_its_table(patient: Service, cloud: str) -> None:
    client, begin = patient.client, monotonic()
    client.post(f"{cloud}/instances", json=start("old", 0.5)).raise_for_status()
    with ThreadPoolExecutor(1) as pool:
        spot = waiting(pool, client, f"{cloud}/instances", start("s", 1.5, "spot"))
        earlier = client.post(f"{cloud}/instances", json=start("earlier", 1.2))
        same = client.post(f"{cloud}/instances", json=start("same", 1.5))
        stop = client.delete(f"{cloud}/instances/old", params={"at": at_hour(1.5)})
        batch = client.post(f"{cloud}/batch", json={"operations": [{"start": start("b", 1.5)}]})
        drained = client.post(f"{cloud}/nodes/n-1/drain", json={"at": at_hour(1.5)})
        assert monotonic() - begin < ODD_S
        assert (earlier.status_code, same.status_code, stop.status_code) == (201, 201, 204)
        assert (batch.json()["results"][0]["status"], drained.status_code) == (201, 200)
        assert not spot.done()
        patient.compute_tables()
        assert spot.result(60).json()["reason"] == "no_capacity", (
            "it is decided at its time, on what has happened since"
        )


def test_a_start_whose_time_has_passed_while_it_waited_is_refused(patient: Service, cloud: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        spot = waiting(pool, patient.client, f"{cloud}/instances", start("s", 1.5, "spot"))
        patient.client.post(f"{cloud}/instances", json=start("later", 1.6)).raise_for_status()
        patient.compute_tables()
        answer = spot.result(60)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "preemptible.time.backwards")
    assert patient.client.post(f"{cloud}/instances", json=start("s", 1.6, "spot")).status_code == 201


def test_starts_that_wait_for_the_same_table_are_decided_in_their_order(patient: Service, cloud: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        sent = [
            waiting(pool, patient.client, f"{cloud}/instances", start(f"s-{number}", 1.5 + number / 60, "spot"))
            for number in range(4)
        ]
        patient.compute_tables()
        answers = [one.result(60) for one in sent]
    assert [answer.status_code for answer in answers] == [201] * 4
    events = patient.client.get(f"{cloud}/events").json()["events"]
    assert [event["id"] for event in events if event.get("id")] == [f"s-{number}" for number in range(4)]


def test_a_batch_that_has_written_something_waits_for_nothing(patient: Service, cloud: str) -> None:
    begin = monotonic()
    steps = [start("h-0", 1.1), start("h-1", 1.2), start("h-2", 2.5, "spot"), start("h-3", 2.5)]
    operations = [{"start": step} for step in steps]
    results = patient.client.post(f"{cloud}/batch", json={"operations": operations}).json()["results"]
    assert monotonic() - begin < ODD_S
    assert [result["status"] for result in results] == [201, 201, 503, 503]
    assert {result["errors"][0]["code"] for result in results[2:]} == {"preemptible.batch.epochs_crossed"}
    with ThreadPoolExecutor(1) as pool:
        again = waiting(pool, patient.client, f"{cloud}/batch", {"operations": operations})
        assert patient.client.get(cloud).json()["at"] == at_hour(1.2), "what waits has written nothing"
        patient.compute_tables()
        results = again.result(60).json()["results"]
    assert [result["status"] for result in results] == [201] * 4


def test_too_many_that_wait_for_tables_are_refused_and_leave_the_others_their_place(database_url: str) -> None:
    with running_service(database_url, table_wait_s=WAIT_S, queue_limit=2) as small, ThreadPoolExecutor(2) as pool:
        path = make(small.client, next(names))
        waits = [
            waiting(pool, small.client, f"{path}/instances", start(f"s-{number}", 1.5, "spot")) for number in range(2)
        ]
        refused = small.client.post(f"{path}/instances", json=start("s-2", 1.5, "spot"))
        assert refused.json()["errors"][0]["code"] == "preemptible.service.overloaded"
        assert small.client.post(f"{path}/instances", json=start("o", 1.5)).status_code == 201
        small.compute_tables()
        assert [wait.result(60).status_code for wait in waits] == [201, 201]


def test_a_start_waits_no_longer_where_many_tables_are_waited_for(database_url: str) -> None:
    with running_service(database_url, table_wait_s=3) as service, ThreadPoolExecutor(20) as pool:
        path = make(service.client, next(names))

        def waited_s(hour: int) -> float:
            begin = monotonic()
            body = start(f"s-{hour}", hour + 0.5, "spot")
            service.client.post(f"{path}/instances", json=body, timeout=60)
            return monotonic() - begin

        longest_s = max(pool.map(waited_s, range(1, 21)))
    assert 2.5 < longest_s < 5.5


def test_a_process_that_is_told_to_stop_ends_what_waits_for_a_table(database_url: str) -> None:
    answers: list[httpx2.Response] = []
    with running_service(database_url, table_wait_s=WAIT_S) as service:
        path = make(service.client, next(names))

        def send() -> None:
            answers.append(service.client.post(f"{path}/instances", json=start("s", 1.5, "spot"), timeout=90))

        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(0.5)
        begin = monotonic()
        service.server.should_exit = True
        sending.join(30)
        assert monotonic() - begin < ODD_S
    (answer,) = answers
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (503, code_of(errors.ServiceStopping))
    assert "Retry-After" in answer.headers


def code_of(error: type[Exception]) -> str:
    return PROBLEMS[error].code
