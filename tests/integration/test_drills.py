"""Drills: an eviction on purpose, told as one, that counts neither against the SLA nor in the forecast."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from api_service import Service

from app.admission.batch import decide_batch
from app.admission.decide import decide_drill
from app.admission.outcomes import Change
from app.domain.events import InstanceEvicted, Recorded
from app.domain.events.wire import of_wire
from app.engine.cloud import Cloud
from app.forecast.replayed import History
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.workbench.audit import Rule, audit
from app.workbench.logcsv import LogWriter, read_log
from app.workbench.whatif import count_log
from tenure_client import TenureClient

CLOUD = "/v1/clouds/drilled"


@pytest.fixture
def cloud(client: httpx2.Client) -> str:
    """Three spot instances and an on-demand one on one node; made once, and the same in every test."""
    if client.post("/v1/clouds", json={"name": "drilled", "policy": {"guarantee": "none"}}).status_code == 201:
        client.post(f"{CLOUD}/nodes", json={"name": "node-0", "cores": 8})
        client.post(f"{CLOUD}/flavors", json={"name": "c1", "cores": 1})
        for name in ("s0", "s1", "s2"):
            start(client, name, "spot")
        start(client, "d0", "on_demand")
    return CLOUD


def start(client: httpx2.Client, name: str, market: str) -> None:
    body = {"id": name, "market": market, "flavor": "c1", "lifetime_s": 3600}
    assert client.post(f"{CLOUD}/instances", json=body).json()["status"] == "accepted"


def log_of(client: httpx2.Client) -> list[Recorded]:
    return [of_wire(event) for event in client.get(f"{CLOUD}/events?limit=1000").json()["events"]]


def test_the_youngest_goes_or_the_one_that_is_named(client: httpx2.Client, cloud: str) -> None:
    before = client.get(cloud).json()["seq"]
    foreseen = [client.get(f"{cloud}/drill", params=named).json() for named in ({}, {"instance": "s0"})]
    assert [(one["id"], one["status"]) for one in foreseen] == [("s2", "running"), ("s0", "running")]
    assert client.get(cloud).json()["seq"] == before, "who asks changes nothing"
    youngest = client.post(f"{cloud}/drill", json={}).json()
    named = client.post(f"{cloud}/drill", json={"instance": "s0"}).json()
    assert (youngest["id"], named["id"]) == ("s2", "s0")
    event = client.get(f"{cloud}/events?after_seq={youngest['seq'] - 1}&limit=1").json()["events"][0]
    assert (event["kind"], event["id"], event["reason"]) == ("instance_evicted", "s2", "drill")
    assert event["cause_seq"] == event["seq"]
    found = client.get(f"{cloud}/instances/s2").json()
    assert (found["status"], found["reason"]) == ("evicted", "drill")
    counts = client.get(cloud).json()["counts"]
    assert (counts["spot_admitted"], counts["spot_evicted"], counts["spot_drilled"]) == (3, 0, 2)
    again = client.post(f"{cloud}/drill", json={"instance": "s0"})
    assert (again.status_code, again.json()["errors"][0]["code"]) == (409, "preemptible.drill.impossible")


def test_it_is_explained_as_what_it_is(client: httpx2.Client, cloud: str) -> None:
    sentences = " ".join(client.get(f"{cloud}/instances/s2/explanation").json()["sentences"])
    assert "in a drill: on purpose" in sentences
    (decision,) = client.get(f"{cloud}/decisions?outcome=evicted&limit=1").json()["decisions"]
    assert "Evicted in a drill" in decision["sentence"]


def test_it_is_no_broken_promise_to_those_who_count(client: httpx2.Client, cloud: str) -> None:
    account = count_log(log_of(client))
    assert (account.tally.spot_admitted, account.tally.spot_evicted, account.evicted_in_time) == (3, 0, 0)
    classes = client.get(f"{cloud}/reliability").json()["classes"]
    assert sum(line["evicted"] for line in classes) == 0


def test_the_forecast_does_not_learn_from_it(client: httpx2.Client, cloud: str) -> None:
    log = log_of(client)
    without = [item for item in log if not isinstance(item.event, InstanceEvicted)]
    until_us = log[-1].event.at_us + 10_000_000_000
    replayed = []
    for events in (log, without):
        history = History()
        history.extend(events)
        replayed.append(history.operations(until_us))
    drilled = len(log) - len(without)
    assert drilled == 2
    ends = replayed[0].at_us[replayed[0].kind == 2].tolist()
    starts = {item.event.instance_id: item.event for item in log if hasattr(item.event, "victims")}
    assert ends == sorted(starts[name].at_us + starts[name].lifetime_us for name in ("s0", "s2"))
    assert replayed[0].at_us[replayed[0].kind < 2].tolist() == replayed[1].at_us[replayed[1].kind < 2].tolist()


def test_the_fold_the_snapshot_and_the_audit_know_it(client: httpx2.Client, cloud: str, tmp_path: Path) -> None:
    log = log_of(client)
    folded = Cloud()
    folded.apply_recorded(log)
    assert decode_cloud(encode_cloud(folded)).digest() == folded.digest()
    assert audited(log, tmp_path) is None
    drills = [index for index, item in enumerate(log) if isinstance(item.event, InstanceEvicted)]
    wrong_cause = list(log)
    wrong_cause[drills[0]] = replace(
        log[drills[0]], event=replace(log[drills[0]].event, cause_seq=log[drills[0]].seq + 1)
    )
    assert audited(wrong_cause, tmp_path).rule is Rule.EVICTION
    on_demand = list(log)
    on_demand[drills[0]] = replace(log[drills[0]], event=replace(log[drills[0]].event, instance_id="d0"))
    assert audited(on_demand, tmp_path).rule is Rule.ON_DEMAND_STAYS


def audited(log: list[Recorded], directory: Path):
    file = io.StringIO()
    writer = LogWriter(file)
    for item in log:
        writer.write(item)
    path = directory / "log.csv"
    path.write_text(file.getvalue())
    assert sum(row["reason"] == "drill" for row in csv.DictReader(io.StringIO(file.getvalue()))) == 2
    return audit(read_log(path), []).finding


def test_a_drill_that_was_not_committed_leaves_no_trace(client: httpx2.Client, cloud: str) -> None:
    folded = Cloud()
    folded.apply_recorded(log_of(client))
    before = folded.digest()
    batch = decide_batch(folded, [Change(lambda c, at: decide_drill(c, None, at))], {}, folded.at_us, None)
    assert len(batch.recorded) == 1
    assert folded.digest() != before
    folded.rollback()
    assert folded.digest() == before


def test_the_command_tells_who_went(service: Service, cloud: str, capsys: pytest.CaptureFixture[str]) -> None:
    from app.commands.drills import drill  # noqa: PLC0415 - a command is a function

    with TenureClient(service.url, service.client.headers["X-Auth-Token"]) as client:
        drill(client, "drilled", "s1", yes=True)
    assert "evicted s1" in capsys.readouterr().out
