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

from app.domain.events.formats import LOG_FORMAT
from app.domain.jobs import AttemptKey
from app.federation.transfers import Tender, TransferParts
from app.platform.database.database import Database
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


def take(service: Service, name: str) -> None:
    asked = {"id": name, "market": "spot", "flavor": "c1", "lifetime_s": 60}
    assert post(service, f"{PATH}/instances", asked)["status"] == "accepted"


def told(answer: httpx2.Response) -> tuple[str, str | None]:
    answer.raise_for_status()
    return answer.json()["word"], answer.json().get("reason")


def test_an_offer_whose_room_has_a_taken_name_is_refused(service: Service, origin: httpx2.Client) -> None:
    take(service, "far.offered.1.held")
    assert told(origin.put("/offered/1", json=ASKED)) == ("refused", "id_taken")
    assert told(origin.put("/offered/1", json=ASKED))[0] == "refused"
    assert told(origin.put("/offered/2", json=ASKED)) == ("held", None)


def test_an_award_whose_instance_has_a_taken_name_is_too_late(service: Service, origin: httpx2.Client) -> None:
    assert told(origin.put("/awarded/1", json=ASKED))[0] == "held"
    take(service, "far.awarded.1")
    assert told(origin.put("/awarded/1/award")) == ("expired", "id_taken")
    assert told(origin.put("/awarded/1/award"))[0] == "expired"
    held = service.client.get(f"{PATH}/instances/far.awarded.1.held").json()
    assert held["status"] == "stopped", "its room is let go"
    assert service.client.get(f"{PATH}/instances/far.awarded.1").json()["status"] == "running"


def test_a_job_whose_inputs_came_does_not_start_under_a_taken_name(service: Service, origin: httpx2.Client) -> None:
    data = {"stage_s": 600, "data_bytes": 1000, "input_bytes": 1000}
    assert told(origin.put("/staged/1", json=ASKED | data))[0] == "held"
    one = {"key": "k", "bytes": 1000, "sha256": "0" * 64, "url": f"{STORE}/k"}
    assert told(origin.put("/staged/1/award", json={"inputs": [one], "outputs": []}))[0] == "staging"
    take(service, "far.staged.1")

    async def start() -> None:
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

    asyncio.run(start())
    assert told(origin.get("/staged/1"))[0] == "expired"
    events = service.client.get(f"{PATH}/events?limit=1000").json()["events"]
    last = [one for one in events if one.get("job") == "staged"][-1]
    assert (last["kind"], last["word"], last["reason"]) == ("foreign_job_ended", "expired", "id_taken")
