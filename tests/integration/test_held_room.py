"""Room held for a peer: it goes before all others, and the log tells by what its inputs were judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from api_service import TOKEN, Service, running_service
from servers import run_sql
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.events.formats import LOG_FORMAT
from app.domain.times import SECOND_US
from app.federation.rules.links import LEAST_SAMPLES
from app.federation.store import LinkSamples
from app.platform.database.database import Database
from app.workbench.audit import audit
from app.workbench.logcsv import LogRow, read_log

STORE = "https://192.0.43.8"
ASKED = {"cores": 1, "lifetime_s": 600, "hold_s": 30}
MEGABYTE = 10**6


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("held") / "key"
    path.write_text("name\nsecret\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def service(database_url: str, key_file: Path) -> Iterator[Service]:
    """One with an object store, as far as an offer asks."""
    with running_service(database_url, objects_url="http://127.0.0.1:9", objects_key_file=key_file) as service:
        service.client.post(
            "/v1/peers", json={"name": "far", "url": STORE, "cloud": "c", "token": "t", "objects_url": STORE}
        ).raise_for_status()
        service.client.patch("/v1/peers/far", json={"quota": {"cores_share": 50}}).raise_for_status()
        yield service


def cloud_with(service: Service, name: str, cores: int) -> httpx2.Client:
    """Make a cloud of one node, and return the peer's client for offers there."""
    service.client.post("/v1/clouds", json={"name": name, "policy": {"guarantee": "none"}}).raise_for_status()
    service.client.post(f"/v1/clouds/{name}/nodes", json={"name": "n", "cores": cores}).raise_for_status()
    service.client.post(f"/v1/clouds/{name}/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    token = service.client.post("/v1/tokens", json={"name": f"far.{name}", "role": "peer"}).json()["token"]
    return httpx2.Client(base_url=f"{service.url}/v1/clouds/{name}/offers", headers={"X-Auth-Token": token})


def start(service: Service, cloud: str, name: str, market: str = "spot") -> dict[str, Any]:
    asked = {"id": name, "market": market, "flavor": "c1"} | ({"lifetime_s": 60} if market == "spot" else {})
    answer = service.client.post(f"/v1/clouds/{cloud}/instances", json=asked)
    answer.raise_for_status()
    return answer.json()


def events(service: Service, cloud: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.client.get(f"/v1/clouds/{cloud}/events", params={"limit": 1000}).json()[
        "events"
    ]
    return found


def explained(service: Service, cloud: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get(f"/v1/clouds/{cloud}/instances/{name}/explanation").json()
    return found


def exported(service: Service, cloud: str, path: Path) -> list[LogRow]:
    told = ["log", "export", "--cloud", cloud, "--out", str(path), "--url", service.url, "--token", TOKEN]
    done = CliRunner().invoke(command_line(), told)
    assert done.exit_code == 0, done.output
    return list(read_log(path))


def test_held_room_goes_before_younger_spot_instances(service: Service, tmp_path: Path) -> None:
    origin = cloud_with(service, "first", 4)
    assert origin.put("/one/1", json=ASKED).json()["word"] == "held"
    assert origin.put("/two/1", json=ASKED).json()["word"] == "held"
    start(service, "first", "young"), start(service, "first", "younger")
    assert [one["id"] for one in start(service, "first", "od-1", "on_demand")["victims"]] == ["far.two.1.held"]
    assert [one["id"] for one in start(service, "first", "od-2", "on_demand")["victims"]] == ["far.one.1.held"]
    assert [one["id"] for one in start(service, "first", "od-3", "on_demand")["victims"]] == ["younger"]
    assert origin.get("/one/1").json()["word"] == "expired"
    assert origin.put("/two/1/award").json()["word"] == "expired"
    started = {one["id"]: one["goes_first"] for one in events(service, "first") if one["kind"] == "instance_started"}
    assert [name for name, goes_first in started.items() if goes_first] == ["far.one.1.held", "far.two.1.held"]
    told = explained(service, "first", "far.two.1.held")
    assert (told["room"]["peer"], told["room"]["job"], told["room"]["link"]) == ("far", "two", None)
    text = " ".join(told["sentences"])
    assert "Held on n for attempt 1 of the job two of the peer far, which it could award until" in text
    assert "Nothing was promised to such room, and it goes before all others." in text
    assert "It was held room, to which nothing was promised" in text
    assert [(one["id"], one["goes_first"]) for one in told["eviction"]["victims"]] == [("far.two.1.held", True)]
    assert explained(service, "first", "young")["room"] is None
    rows = exported(service, "first", tmp_path / "log.csv")
    assert audit(rows, []).finding is None
    spared = [row._replace(goes_first=None) for row in rows]
    finding = audit(spared, []).finding
    assert finding is not None
    assert "is evicted, but ['younger'] are the youngest-first minimal set" in finding.why


def test_held_room_goes_when_a_node_becomes_too_small(service: Service) -> None:
    origin = cloud_with(service, "small", 3)
    assert origin.put("/one/1", json=ASKED).json()["word"] == "held"
    start(service, "small", "young")
    service.client.post("/v1/clouds/small/nodes/n/resize", json={"cores": 1}).raise_for_status()
    gone = [one for one in events(service, "small") if one["kind"] == "instance_evicted"]
    assert [(one["id"], one["reason"]) for one in gone] == [("far.one.1.held", "node_resized")]


def test_held_room_cannot_be_extended(service: Service) -> None:
    origin = cloud_with(service, "longer", 3)
    assert origin.put("/one/1", json=ASKED).json()["word"] == "held"
    path = "/v1/clouds/longer/instances/far.one.1.held/extend"
    answer = service.client.post(path, json={"lifetime_s": 3600})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "preemptible.extension.too_late")


def test_a_decision_about_inputs_tells_what_was_known_of_the_link(service: Service, tmp_path: Path) -> None:
    origin = cloud_with(service, "linked", 8)
    data = {"stage_s": 600, "data_bytes": 10 * MEGABYTE, "input_bytes": 10 * MEGABYTE}
    assert origin.put("/unknown/1", json=ASKED | data).json()["word"] == "held"
    service.client.patch("/v1/peers/far", json={"link_mbit_s": 8}).raise_for_status()
    assert origin.put("/told/1", json=ASKED | data).json()["word"] == "held"

    async def come() -> None:
        database = Database(service.settings.database_url)
        for _ in range(LEAST_SAMPLES):
            await LinkSamples(database).add("far", "in", 5 * MEGABYTE, 2 * SECOND_US)
        await database.close()

    asyncio.run(come())
    assert origin.put("/learned/1", json=ASKED | data).json()["word"] == "held"
    slow = ASKED | {"stage_s": 60, "data_bytes": 10**9, "input_bytes": 10**9}
    assert origin.put("/slow/1", json=slow).json()["reason"] == "link_slow"
    assert origin.put("/plain/1", json=ASKED).json()["word"] == "held"
    log = {one["job"]: one for one in events(service, "linked") if one["kind"] in {"room_held", "foreign_job_ended"}}
    assert (log["unknown"]["link"], log["unknown"]["stage_s"], log["plain"]["link"]) == (None, 600, None)
    assert log["told"]["link"] == {"bytes_per_s": MEGABYTE, "samples": 0, "newest_age_s": 0, "active": 0}
    learned, refused = log["learned"]["link"], log["slow"]["link"]
    for link in (learned, refused):
        assert (link["bytes_per_s"], link["samples"], link["active"]) == (2_500_000, LEAST_SAMPLES, 0)
        assert 0 <= link["newest_age_s"] < 60
    assert (log["slow"]["word"], log["slow"]["reason"], log["learned"]["stage_s"]) == ("refused", "link_slow", 60)
    check_told(service, learned)
    rows = exported(service, "linked", tmp_path / "log.csv")
    assert audit(rows, []).finding is None
    links = {row.job: row.link.bytes_per_s for row in rows if row.link is not None}
    assert links == {"told": MEGABYTE, "learned": 2_500_000, "slow": 2_500_000}


def check_told(service: Service, learned: dict[str, Any]) -> None:
    """Explanations of held room say what its time rests on."""
    found = explained(service, "linked", "far.learned.1.held")
    assert found["room"]["link"] == learned
    assert "Its inputs were given 60 s, by the rate that nine of ten of 5 transfers from far" in found["sentences"][2]
    found = explained(service, "linked", "far.told.1.held")
    assert "Its inputs were given 60 s, by the rate that an operator told, 1 MB/s" in found["sentences"][2]
    found = explained(service, "linked", "far.unknown.1.held")
    assert found["sentences"][2].startswith("Its inputs were given 10 min, as the peer asked: too little had come")


def test_in_an_older_log_format_held_room_goes_by_its_age(database_url: str, key_file: Path) -> None:
    """Programs of that format decide over the same log: they know no room that goes first, and no field that says so.

    What was held then stays as it was when the upgrade is finished.
    """
    run_sql(database_url, "UPDATE agreement SET log_format = 8")
    try:
        with running_service(database_url, objects_url="http://127.0.0.1:9", objects_key_file=key_file) as older:
            origin = cloud_with(older, "older", 4)
            data = {"stage_s": 600, "data_bytes": 10, "input_bytes": 10}
            assert origin.put("/one/1", json=ASKED | data).json()["word"] == "held"
            start(older, "older", "young"), start(older, "older", "younger")
            start(older, "older", "od-1", "on_demand")
            assert [one["id"] for one in start(older, "older", "od-2", "on_demand")["victims"]] == ["younger"]
            with psycopg.connect(database_url) as connection:
                stored = connection.execute(
                    "SELECT data::text FROM event JOIN cloud ON cloud.id = event.cloud_id WHERE cloud.name = 'older'"
                ).fetchall()
            assert not [text for (text,) in stored if "goes_first" in text or '"link"' in text]
            text = " ".join(explained(older, "older", "far.one.1.held")["sentences"])
            assert "and it goes by its age, like any spot instance." in text
    finally:
        run_sql(database_url, f"UPDATE agreement SET log_format = {LOG_FORMAT}")
    with running_service(database_url) as newer:
        assert [one["id"] for one in start(newer, "older", "od-3", "on_demand")["victims"]] == ["young"]
        assert [one["id"] for one in start(newer, "older", "od-4", "on_demand")["victims"]] == ["far.one.1.held"]
