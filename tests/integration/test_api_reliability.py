"""Tests of a running cloud's reliability: over HTTP, and stretch by stretch from the log."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import anyio
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.values import Basis, Clock, EvictionReason, Guarantee, Market, Policy, Resources
from app.forecasts.reliability import read_reliability
from app.platform.database.database import Database
from app.platform.http.scrapes import KEPT_S
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog


def post(client: httpx2.Client, path: str, body: dict[str, Any]) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def test_the_promises_of_a_cloud(client: httpx2.Client) -> None:
    path = "/v1/clouds/kept"
    post(client, "/v1/clouds", {"name": "kept", "policy": {"guarantee": "none", "clock": "external"}})
    post(client, f"{path}/nodes", {"name": "n", "cores": 3})
    post(client, f"{path}/flavors", {"name": "c1", "cores": 1})
    post(client, f"{path}/flavors", {"name": "c3", "cores": 3})
    at = "1970-01-01T00:00:00Z"
    for name, lifetime_s in (("short", 60), ("long", 7200), ("stopped", 7200)):
        post(client, f"{path}/instances", {
            "id": name, "market": "spot", "flavor": "c1", "lifetime_s": lifetime_s, "at": at,
        })  # fmt: skip
    assert client.delete(f"{path}/instances/stopped", params={"at": "1970-01-01T00:30:00Z"}).status_code == 204
    before = client.get(f"{path}/reliability").json()
    assert (before["as_of"], before["links"]) == ("1970-01-01T00:30:00Z", [])
    (line,) = before["classes"]
    assert (line["promised"], line["admitted"], line["running"], line["evicted"]) == (None, 3, 1, 0)
    post(client, f"{path}/instances", {
        "id": "d", "market": "on_demand", "flavor": "c3", "at": "1970-01-01T01:00:00Z",
    })  # fmt: skip
    answer = client.get(f"{path}/reliability").json()
    (line,) = answer["classes"]
    assert (line["admitted"], line["running"], line["evicted"], line["happened"]) == (3, 0, 1, pytest.approx(1 / 3))
    assert line["low"] < 1 / 3 < line["high"]
    assert answer["estimates"] == []
    assert [(line["epoch"], line["admitted"]) for line in answer["epochs"]] == [(None, 3)]
    end = client.get(path).json()["seq"]
    assert (answer["first_seq"], answer["last_seq"]) == (1, end)
    assert client.get(f"{path}/reliability", params={"after_seq": end}).json()["classes"] == []
    beyond = client.get(f"{path}/reliability", params={"after_seq": end + 1})
    assert (beyond.status_code, beyond.json()["errors"][0]["code"]) == (409, "preemptible.log.put_back")


def log_of(count: int) -> list[Recorded]:
    """Spot instances of 10 us that follow each other; every third is evicted, the last one runs."""
    events: list[Any] = [CloudCreated(at_us=0, policy=Policy())]
    for number in range(count):
        basis = Basis(1, number // 5, 0.1, 20, 0.01 * (number % 5))
        events.append(
            InstanceStarted(
                at_us=10 * number,
                instance_id=f"s{number}",
                market=Market.SPOT,
                flavor="f",
                node="n",
                lifetime_us=10,
                probability=None,
                basis=basis,
            )
        )
        if number % 3 == 2:
            events.append(
                InstanceEvicted(
                    at_us=10 * number + 5, instance_id=f"s{number}", reason=EvictionReason.ON_DEMAND_START, cause_seq=1
                )
            )
        elif number < count - 1:
            events.append(InstanceStopped(at_us=10 * number + 10, instance_id=f"s{number}"))
    return [Recorded(seq, event) for seq, event in enumerate(events, 1)]


@pytest.mark.anyio
async def test_a_stretch_bounds_what_is_read(database: Database) -> None:
    log, recorded = EventLog(database), log_of(40)
    cloud_id = await Clouds(database).create("stretches", recorded[0])
    await log.append(cloud_id, recorded[1:])
    whole = await read_reliability(log, cloud_id, None, 395)
    (line,) = whole.reliability.classes
    assert (line.promised, line.admitted, line.running, line.evicted) == (0.1, 40, 1, 13)
    assert (whole.first_seq, whole.last_seq) == (1, 80)
    assert sum(found.admitted for found in whole.reliability.epochs) == 40
    parts, after_seq = [], 0
    while after_seq < 80:
        part = await read_reliability(log, cloud_id, after_seq, 395, longest=7)
        assert (part.first_seq, part.last_seq) == (after_seq + 1, min(80, after_seq + 7))
        parts += part.reliability.classes
        after_seq = part.last_seq
    for name in ("admitted", "running", "evicted"):
        assert sum(getattr(part, name) for part in parts) == getattr(line, name)
    newest = await read_reliability(log, cloud_id, None, 395, longest=7)
    assert (newest.first_seq, newest.last_seq) == (74, 80)
    at_the_end = await read_reliability(log, cloud_id, 80, 395)
    assert (at_the_end.first_seq, at_the_end.last_seq, at_the_end.reliability.classes) == (81, 80, ())


@pytest.mark.anyio
async def test_starts_of_the_other_market_and_rejections_are_not_read(database: Database) -> None:
    log = EventLog(database)
    cloud_id = await Clouds(database).create("markets", Recorded(1, CloudCreated(at_us=0, policy=Policy())))
    await log.append(
        cloud_id,
        [
            Recorded(2, InstanceStarted(at_us=0, instance_id="d", market=Market.ON_DEMAND, flavor="f", node="n")),
            Recorded(
                3, InstanceStarted(at_us=0, instance_id="s", market=Market.SPOT, flavor="f", node="n", lifetime_us=5)
            ),
        ],
    )
    assert [item.seq for item in await log.admitted_spot(cloud_id, 0, 9)] == [3]
    assert await log.admitted_spot(cloud_id, 3, 9) == []


async def write_judged(url: str) -> None:
    """Write the log of a cloud with 42 instances of one node, each on an estimate, a third of them evicted."""
    database, instances = Database(url), [item.event for item in log_of(42)[1:]]
    events = [
        NodeAdded(at_us=0, node="n", capacity=Resources(1)),
        FlavorAdded(at_us=0, flavor="f", demand=Resources(1)),
        *instances,
    ]
    policy = Policy(Guarantee.NONE, clock=Clock.EXTERNAL)
    cloud_id = await Clouds(database).create("judged", Recorded(1, CloudCreated(at_us=0, policy=policy)))
    await EventLog(database).append(cloud_id, [Recorded(seq, event) for seq, event in enumerate(events, 2)])
    await database.close()


def test_metrics_of_estimates_are_the_verdicts_of_the_interface(client: httpx2.Client, database_url: str) -> None:
    anyio.run(write_judged, database_url)
    began = monotonic()
    while not (told := estimates_of(client, "judged")):
        assert monotonic() < began + 30, "a background task reads them soon after the first scrape asks"
        sleep(KEPT_S)
    truths = [one for one in client.get("/v1/clouds/judged/reliability").json()["truths"] if one["by"] != "flavor"]
    assert [(one["name"], one["cases"], one["evicted"]) for one in truths] == [("all", 42, 14), ("<1h", 42, 14)]
    for one in truths:
        expected = {
            "cases": one["cases"],
            "evicted_instances": one["evicted"],
            "said_ratio": one["said"],
            "log_loss": one["log_loss"],
            "constant_log_loss": one["constant_log_loss"],
            "bound_epochs": one["epochs"],
            "bound_held_epochs": one["covered"],
        }
        assert {name: value for (name, stratum), value in told.items() if stratum == one["name"]} == expected


def estimates_of(client: httpx2.Client, cloud: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name.removeprefix("tenure_cloud_estimate_"), sample.labels["stratum"]): sample.value
        for family in text_string_to_metric_families(client.get("/metrics/clouds").text)
        for sample in family.samples
        if "_estimate_" in sample.name and sample.labels["cloud"] == cloud
    }
