"""Attempts of a peer whose names somebody at the host has taken: they end, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from api_service import Service, running_service

from app.admission import batch
from app.domain import errors
from app.domain.events.formats import LOG_FORMAT
from app.domain.jobs import AttemptKey
from app.federation.transfers import Tender, TransferParts
from app.platform.database.database import Database
from app.platform.http.errors import PROBLEMS
from app.scheduling.appending import Logs, States
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots

STORE = "https://192.0.43.8"
PATH = "/v1/clouds/names"
ASKED = {"cores": 1, "lifetime_s": 600, "hold_s": 30}


@pytest.fixture(scope="module")
def service(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    key = tmp_path_factory.mktemp("names") / "key"
    key.write_text("name\nsecret\n")
    key.chmod(0o600)
    with running_service(database_url, objects_url="http://127.0.0.1:9", objects_key_file=Path(key)) as service:
        peer = {"name": "far", "url": STORE, "cloud": "c", "token": "t", "objects_url": STORE}
        post(service, "/v1/peers", peer | {"quota": {"cores_share": 50}})
        post(service, "/v1/clouds", {"name": "names", "policy": {"guarantee": "none"}})
        post(service, f"{PATH}/nodes", {"name": "n", "cores": 40})
        post(service, f"{PATH}/flavors", {"name": "c1", "cores": 1})
        yield service


@pytest.fixture(scope="module")
def origin(service: Service) -> httpx2.Client:
    token = post(service, "/v1/tokens", {"name": "far", "role": "peer"})["token"]
    return httpx2.Client(base_url=f"{service.url}{PATH}/offers", headers={"X-Auth-Token": token})


def post(service: Service, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = service.client.post(path, json=body)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def start(service: Service, name: str, market: str = "spot") -> httpx2.Response:
    asked = {"id": name, "market": market, "flavor": "c1", "lifetime_s": 60}
    return service.client.post(f"{PATH}/instances", json=asked)


def take(service: Service, name: str) -> None:
    assert start(service, name).json()["status"] == "accepted"


def told(answer: httpx2.Response) -> tuple[str, str | None]:
    answer.raise_for_status()
    return answer.json()["word"], answer.json().get("reason")


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_a_refused_offer_leaves_alone_what_runs_under_the_name(
    service: Service, origin: httpx2.Client, market: str
) -> None:
    """Its stop is a stop: a process that had tried to hold room under the name would have forgotten it."""
    job = market.replace("_", "-")
    for name in (f"far.{job}.1.held", f"far.{job}.2"):
        assert start(service, name, market).json()["status"] == "accepted"
    for attempt in (1, 2):
        assert told(origin.put(f"/{job}/{attempt}", json=ASKED)) == ("refused", "id_taken")
    for name in (f"far.{job}.1.held", f"far.{job}.2"):
        service.client.delete(f"{PATH}/instances/{name}").raise_for_status()
        assert service.client.get(f"{PATH}/instances/{name}").json()["status"] == "stopped"


def test_an_offer_whose_room_has_a_taken_name_is_refused(service: Service, origin: httpx2.Client) -> None:
    take(service, "far.offered.1.held")
    assert told(origin.put("/offered/1", json=ASKED)) == ("refused", "id_taken")
    assert told(origin.put("/offered/1", json=ASKED))[0] == "refused"
    assert told(origin.put("/offered/2", json=ASKED)) == ("held", None)


@pytest.mark.parametrize("ends", [False, True])
def test_an_offer_whose_instance_would_have_a_taken_name_is_refused(
    service: Service, origin: httpx2.Client, *, ends: bool
) -> None:
    job = f"known-{ends}".lower()
    take(service, f"far.{job}.1")
    if ends:
        service.client.delete(f"{PATH}/instances/far.{job}.1").raise_for_status()
    assert told(origin.put(f"/{job}/1", json=ASKED)) == ("refused", "id_taken")
    assert told(origin.put(f"/{job}/1", json=ASKED)) == ("refused", "id_taken"), "the same offer, the same answer"
    assert told(origin.put(f"/{job}/2", json=ASKED)) == ("held", None)


def test_while_room_is_held_nobody_takes_the_name(service: Service, origin: httpx2.Client) -> None:
    assert told(origin.put("/awarded/1", json=ASKED))[0] == "held"
    for market in ("spot", "on_demand"):
        answer = start(service, "far.awarded.1", market)
        assert (answer.status_code, "kept for a job of a peer" in answer.text) == (409, True)
    job = {"id": "far.awarded", "flavor": "c1", "count": 2, "lifetime_s": 60}
    assert service.client.post(f"{PATH}/jobs", json=job).status_code == 409
    for name in ("far.awarded.01", "far.awarded.2"):
        take(service, name)
    assert told(origin.put("/awarded/1/award"))[0] == "running"
    assert service.client.get(f"{PATH}/instances/far.awarded.1").json()["status"] == "running"
    service.client.delete(f"{PATH}/instances/far.awarded.1").raise_for_status()
    assert start(service, "far.awarded.1").status_code == 409, "its id was used"


def test_a_job_whose_inputs_came_does_not_start_under_a_taken_name(
    service: Service, origin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"stage_s": 600, "data_bytes": 1000, "input_bytes": 1000}
    assert told(origin.put("/staged/1", json=ASKED | data))[0] == "held"
    one = {"key": "k", "bytes": 1000, "sha256": "0" * 64, "url": f"{STORE}/k"}
    given = {"inputs": [one], "outputs": [{"key": "o", "bytes": 0}]}
    assert told(origin.put("/staged/1/award", json=given))[0] == "staging"
    assert told(origin.put("/staged/1/award", json=given))[0] == "staging"
    for other in ({"outputs": [{"key": "p", "bytes": 0}]}, {"outputs": []}, {"inputs": [one, one]}, {"inputs": []}):
        assert origin.put("/staged/1/award", json=given | other).status_code == 409
    assert origin.get("/staged/1/outputs").status_code == 409, "they are not lost: it has not finished"
    assert origin.put("/staged/1/collected").status_code == 409
    with monkeypatch.context() as patched:  # as a program of an earlier version may, which keeps no names
        patched.setattr(batch, "check_not_kept", lambda *_: None)
        take(service, "far.staged.1")

    async def start_it() -> None:
        database, nothing = Database(service.settings.database_url), cast("Any", None)
        database.newer.log_format = LOG_FORMAT
        log = EventLog(database)
        states = States(Logs(log, Snapshots(database), LogHeads(database, log)))

        async def no_table(_: int) -> None:
            return

        parts = SimpleNamespace(states=states, quotes=no_table, now_us=lambda: time_ns() // 1000)
        number = await Clouds(database).id_of("names")
        tender = Tender(number, "names", cast("TransferParts", parts), nothing, nothing, nothing, nothing)
        await tender._start(AttemptKey("far", "staged", 1))
        await database.close()

    asyncio.run(start_it())
    assert told(origin.get("/staged/1"))[0] == "expired"
    events = service.client.get(f"{PATH}/events?limit=1000").json()["events"]
    last = [one for one in events if one.get("job") == "staged"][-1]
    assert (last["kind"], last["word"], last["reason"]) == ("foreign_job_ended", "expired", "id_taken")


def test_nobody_stops_room_that_is_held(service: Service, origin: httpx2.Client) -> None:
    """Else anybody who stops instances could have an honest host judged as one that breaks its word."""
    assert told(origin.put("/kept/1", json=ASKED)) == ("held", None)
    held = f"{PATH}/instances/far.kept.1.held"
    for answer in (service.client.delete(held), service.client.post(f"{held}/abort", json={})):
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "preemptible.instance.conflict")
    assert told(origin.put("/kept/1/award")) == ("running", None)
    service.client.delete(f"{PATH}/instances/far.kept.1").raise_for_status()
    assert told(origin.get("/kept/1")) == ("finished", None)


def test_ids_of_peers_jobs_leave_room_for_the_ids_of_their_instances(service: Service, origin: httpx2.Client) -> None:
    assert origin.put(f"/{121 * 'x'}/1", json=ASKED).status_code == 404
    assert told(origin.put(f"/{120 * 'x'}/1", json=ASKED)) == ("held", None)
    listed = service.client.get(f"{PATH}/instances", params={"marker": f"far.{120 * 'x'}.1.held"})
    assert listed.status_code == 200


def test_a_store_that_does_not_answer_is_not_told_as_an_input_that_is_not_there(service: Service) -> None:
    given = {"key": "k", "bytes": 1, "sha256": 64 * "0"}
    job = {"id": "asks", "flavor": "c1", "lifetime_s": 60, "federate": "only", "peers": ["far"], "inputs": [given]}
    answer = service.client.post(f"{PATH}/jobs", json=job, timeout=60)
    problem = PROBLEMS.get(errors.ObjectsUnavailable)
    assert problem is not None
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (problem.status, problem.code)
    assert service.client.get(f"{PATH}/jobs/asks").status_code == 404
