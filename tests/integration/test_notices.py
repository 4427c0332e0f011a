"""Two-stage notice: grace periods, confirmations, deadlines that are enforced, and risk; in the log, so everywhere."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path

import httpx2
import pytest
from api_service import TOKEN, Service
from risky_cloud import WAVES, at, explained, log_of_end, pass_time, risky_cloud, start, work, written

from app.domain.events import EvictionOverdue, EvictionRisk, EvictionScheduled, InstanceEvicted
from app.domain.events.wire import of_wire
from app.domain.risks import risk_in_words
from app.engine.cloud import Cloud
from app.platform.telemetry.metrics import PROCESS
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.workbench.audit import Rule, audit
from app.workbench.logevents import events_of

_names = (f"noticed-{number}" for number in count())


@pytest.fixture
def cloud(client: httpx2.Client) -> str:
    """A cloud on an external clock with a grace period of a minute, and four spot instances on its one node."""
    name = next(_names)
    path = f"/v1/clouds/{name}"
    policy = {"guarantee": "none", "clock": "external", "grace_s": 60}
    client.post("/v1/clouds", json={"name": name, "policy": policy, "at": at(-10)}).raise_for_status()
    client.post(f"{path}/nodes", json={"name": "node-0", "cores": 4}).raise_for_status()
    for cores in (1, 2, 4):
        client.post(f"{path}/flavors", json={"name": f"c{cores}", "cores": cores}).raise_for_status()
    for number in range(4):
        start(client, path, f"s{number}", "spot", "c1", number)
    return path


def confirm(client: httpx2.Client, cloud: str, name: str, seconds: float) -> httpx2.Response:
    return client.post(f"{cloud}/handovers/{name}/confirm", params={"at": at(seconds)})


def log_of(client: httpx2.Client, cloud: str) -> list[dict]:
    return client.get(f"{cloud}/events?limit=1000").json()["events"]


def test_victims_are_told_their_deadline_and_the_start_when_its_room_is_free(client, cloud) -> None:
    answer = start(client, cloud, "d0", "on_demand", "c2", 10)
    assert answer["victims"] == [{"id": "s3", "deadline": at(70)}, {"id": "s2", "deadline": at(70)}]
    assert answer["ready_at"] == at(70)
    told = log_of(client, cloud)[-5:]
    assert [event["kind"] for event in told] == [
        *["eviction_scheduled"] * 2,
        *["instance_evicted"] * 2,
        "instance_started",
    ]
    assert {event["cause_seq"] for event in told[:4]} == {told[4]["seq"]}
    assert [event["deadline"] for event in told[:2]] == [at(70)] * 2
    handovers = client.get(f"{cloud}/handovers").json()["handovers"]
    assert [(one["id"], one["node"], one["status"], one["deadline"]) for one in handovers] == [
        ("s2", "node-0", "pending", at(70)),
        ("s3", "node-0", "pending", at(70)),
    ]
    assert client.get(f"{cloud}/instances/d0").json()["ready_at"] == at(70)
    assert client.get(cloud).json()["counts"]["spot_evicted"] == 2


def test_decisions_tell_deadlines_and_rooms_as_the_start_did(client, cloud) -> None:
    answer = start(client, cloud, "d0", "on_demand", "c2", 10)
    client.delete(f"{cloud}/instances/d0", params={"at": at(20)})
    waiting = start(client, cloud, "d1", "on_demand", "c1", 30)
    later, stopped, first, *evicted, _, _, _, s0 = client.get(f"{cloud}/decisions").json()["decisions"]
    assert (first["victims"], first["ready_at"]) == (answer["victims"], answer["ready_at"])
    assert (later["victims"], later["ready_at"]) == ([], waiting["ready_at"])
    assert [one["ready_at"] for one in (stopped, *evicted, s0)] == [None, None, None, at(0)]
    assert first["sentence"] == (
        "Accepted on node-0, at the cost of 2 spot instances, which may run until 1970-01-01 12:01:10 UTC; its room is "
        "free from then on."
    )
    assert later["sentence"] == "Accepted on node-0; its room is free from 1970-01-01 12:01:10 UTC on."


def test_an_explanation_tells_of_the_grace_period_until_it_is_over(service, client, cloud) -> None:
    start(client, cloud, "d0", "on_demand", "c2", 10)
    found, words = explained(client, cloud, "s2")
    assert [(one["id"], one["deadline"]) for one in found["eviction"]["victims"]] == [("s3", at(70)), ("s2", at(70))]
    assert "it may go on running until 1970-01-01 12:01:10 UTC; no controller has confirmed its stop so far." in words
    assert (
        "they may go on running until 1970-01-01 12:01:10 UTC. The room is free from"
        in explained(client, cloud, "d0")[1]
    )
    confirm(client, cloud, "s3", 20)
    found, words = explained(client, cloud, "s3")
    assert [notice["kind"] for notice in found["notices"]] == ["eviction_scheduled", "eviction_confirmed"]
    assert "a controller confirmed its stop at 1970-01-01 12:00:20 UTC." in words
    pass_time(client, cloud, 75)
    work(service, lambda parts: parts.warnings.report_overdue())
    assert "That is overdue: no controller has confirmed its stop" in explained(client, cloud, "s2")[1]
    confirm(client, cloud, "s2", 80)
    found, words = explained(client, cloud, "s2")
    assert [notice["kind"] for notice in found["notices"]][1:] == ["eviction_overdue", "eviction_confirmed"]
    assert "a controller confirmed its stop at 1970-01-01 12:01:20 UTC, 10 s late." in words


def test_an_explanation_tells_of_the_grace_of_drills_and_removed_nodes(client, cloud) -> None:
    client.post(f"{cloud}/drill", json={"at": at(10)}).raise_for_status()
    client.delete(f"{cloud}/nodes/node-0", params={"at": at(20)}).raise_for_status()
    for name, deadline in (("s3", 70), ("s1", 80)):
        found, words = explained(client, cloud, name)
        assert [(one["id"], one["deadline"]) for one in found["eviction"]["victims"]] == [(name, at(deadline))]
        assert "it may go on running until" in words


def test_the_commands_tell_of_it_too(service, client, cloud) -> None:
    start(client, cloud, "d0", "on_demand", "c2", 10)
    lines = told(service, cloud, "explain", "s2").splitlines()
    header, _, *victims = lines[
        next(at for at, line in enumerate(lines) if "may run until" in line and "ran" in line) :
    ]
    assert header.split()[-3:] == ["may", "run", "until"]
    assert [line.split()[-2:] for line in victims] == [["1970-01-01", "12:01:10"]] * 2
    assert "which may run until 1970-01-01 12:01:10 UTC" in told(service, cloud, "decisions", "--market", "on_demand")


def told(service: Service, cloud: str, *command: str) -> str:
    """Return what a command prints of the cloud."""
    to = ["--url", service.url, "--token", TOKEN, "--cloud", cloud.rsplit("/", 1)[-1]]
    arguments = [sys.executable, "-m", "app.cli", *command, *to]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def test_without_a_grace_period_nothing_is_told_of_one(client) -> None:
    cloud = f"/v1/clouds/{next(_names)}"
    policy = {"guarantee": "none", "clock": "external"}
    client.post("/v1/clouds", json={"name": cloud.rsplit("/", 1)[-1], "policy": policy, "at": at(-10)})
    client.post(f"{cloud}/nodes", json={"name": "node-0", "cores": 1})
    client.post(f"{cloud}/flavors", json={"name": "c1", "cores": 1})
    start(client, cloud, "s0", "spot", "c1", 0)
    start(client, cloud, "d0", "on_demand", "c1", 10)
    found, words = explained(client, cloud, "s0")
    assert (found["notices"], found["eviction"]["victims"][0]["deadline"]) == ([], None)
    assert "grace" not in words + explained(client, cloud, "d0")[1]
    decision = client.get(f"{cloud}/decisions").json()["decisions"][0]
    assert (decision["victims"], decision["ready_at"]) == ([{"id": "s0", "deadline": None}], at(10))


def test_a_controller_confirms_each_stop_once(client, cloud) -> None:
    start(client, cloud, "d0", "on_demand", "c2", 10)
    assert confirm(client, cloud, "s3", 20).status_code == 204
    assert confirm(client, cloud, "s3", 21).status_code == 204
    assert [event["kind"] for event in log_of(client, cloud)].count("eviction_confirmed") == 1
    assert [one["id"] for one in client.get(f"{cloud}/handovers").json()["handovers"]] == ["s2"]
    for name in ("s0", "never"):
        answer = confirm(client, cloud, name, 22)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (404, "preemptible.handover.not_found")


def test_room_that_is_booked_twice_is_free_when_the_last_has_left_it(client, cloud) -> None:
    """The second start evicts nobody: it takes the room of one that ended early, whose victims are still there."""
    start(client, cloud, "d0", "on_demand", "c2", 10)
    client.delete(f"{cloud}/instances/d0", params={"at": at(20)})
    second = start(client, cloud, "d1", "on_demand", "c1", 30)
    assert (second["victims"], second["ready_at"]) == ([], at(70))
    confirm(client, cloud, "s2", 40)
    third = start(client, cloud, "d2", "on_demand", "c1", 41)
    assert third["ready_at"] == at(70), "the one room that was confirmed is the second start's"
    confirm(client, cloud, "s3", 50)
    client.delete(f"{cloud}/instances/d2", params={"at": at(51)})
    fourth = start(client, cloud, "d3", "spot", "c1", 52)
    assert fourth["ready_at"] == at(52)


def test_what_is_left_free_beside_those_who_leave_is_free_at_once(client, cloud) -> None:
    client.post(f"{cloud}/nodes", json={"name": "node-1", "cores": 4, "at": at(5)})
    assert start(client, cloud, "d0", "on_demand", "c4", 6)["ready_at"] == at(6)
    taken = start(client, cloud, "d1", "on_demand", "c4", 10)
    assert (len(taken["victims"]), taken["ready_at"]) == (4, at(70))


def test_a_deadline_that_passes_unconfirmed_is_reported_once(service, client, cloud) -> None:
    labels = {"cloud": cloud.rsplit("/", 1)[-1], "kind": "eviction_overdue"}
    start(client, cloud, "d0", "on_demand", "c2", 10)
    confirm(client, cloud, "s3", 20)
    work(service, lambda parts: parts.warnings.report_overdue())
    assert log_of(client, cloud)[-1]["kind"] == "eviction_confirmed", "there is time left"
    assert PROCESS.get_sample_value("tenure_notices_total", labels) == 0, (
        "so that Prometheus sees the first as an increase"
    )
    pass_time(client, cloud, 70)
    for _ in range(2):
        work(service, lambda parts: parts.warnings.report_overdue())
    assert PROCESS.get_sample_value("tenure_notices_total", labels) == 1
    overdue = [event for event in log_of(client, cloud) if event["kind"] == "eviction_overdue"]
    assert [(event["id"], event["deadline"], event["at"]) for event in overdue] == [("s2", at(70), at(70))]
    (handover,) = client.get(f"{cloud}/handovers").json()["handovers"]
    assert (handover["id"], handover["status"]) == ("s2", "overdue")
    assert confirm(client, cloud, "s2", 80).status_code == 204
    assert client.get(f"{cloud}/handovers").json()["handovers"] == []


def test_drills_and_removed_nodes_have_their_grace_too(client, cloud) -> None:
    drilled = client.post(f"{cloud}/drill", json={"at": at(10)}).json()
    events = log_of(client, cloud)[-2:]
    assert [event["kind"] for event in events] == ["eviction_scheduled", "instance_evicted"]
    assert {event["cause_seq"] for event in events} == {drilled["seq"]} == {events[1]["seq"]}
    removal = client.delete(f"{cloud}/nodes/node-0", params={"at": at(20)}).json()
    assert removal["victims"] == [{"id": name, "deadline": at(80)} for name in ("s2", "s1", "s0")]
    kinds = [event["kind"] for event in log_of(client, cloud)]
    assert kinds[-7:] == [*["eviction_scheduled"] * 3, *["instance_evicted"] * 3, "node_removed"]
    assert len(client.get(f"{cloud}/handovers").json()["handovers"]) == 4


def test_who_is_evicted_does_not_depend_on_the_grace(client, cloud) -> None:
    """Equal requests have equal decisions without a grace period: the grace concerns the hand-over alone."""
    other = f"/v1/clouds/{next(_names)}"
    policy = {"guarantee": "none", "clock": "external"}
    client.post("/v1/clouds", json={"name": other.rsplit("/", 1)[-1], "policy": policy, "at": at(-10)})
    client.post(f"{other}/nodes", json={"name": "node-0", "cores": 4})
    for cores in (1, 2, 4):
        client.post(f"{other}/flavors", json={"name": f"c{cores}", "cores": cores})
    for number in range(4):
        start(client, other, f"s{number}", "spot", "c1", number)
    for path in (cloud, other):
        start(client, path, "d0", "on_demand", "c2", 10)
        start(client, path, "d1", "on_demand", "c1", 11)
    decisions = [
        [(e["kind"], e["id"], e.get("node")) for e in log_of(client, path) if e["kind"].startswith("instance_")]
        for path in (cloud, other)
    ]
    assert decisions[0] == decisions[1]


def test_fold_snapshot_csv_and_audit_know_them(service, client, cloud, tmp_path: Path) -> None:
    start(client, cloud, "d0", "on_demand", "c2", 10)
    confirm(client, cloud, "s3", 20)
    pass_time(client, cloud, 75)
    work(service, lambda parts: parts.warnings.report_overdue())
    log = [of_wire(event) for event in log_of(client, cloud)]
    folded = Cloud()
    folded.apply_recorded(log)
    assert [one.instance_id for one in folded.known_handovers()] == ["s2"]
    assert decode_cloud(encode_cloud(folded)).digest() == folded.digest()
    rows = written(log, tmp_path)
    assert audit(rows, []).finding is None
    again = Cloud()
    again.apply_recorded(events_of(rows, folded.policy))
    assert again.digest() == folded.digest()


BROKEN = {
    "a deadline that is not the grace period's": (EvictionScheduled, {"deadline_us": 1}, Rule.EVICTION),
    "an announcement of somebody else": (EvictionScheduled, {"instance_id": "s0"}, Rule.EVICTION),
    "an eviction that was not announced": (InstanceEvicted, {"instance_id": "s0"}, Rule.EVICTION),
    "an overdue one that is not due": (EvictionOverdue, {"deadline_us": 1}, Rule.FOLD),
    "an overdue one that nobody knows": (EvictionOverdue, {"instance_id": "s0"}, Rule.FOLD),
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_audit_finds_what_is_wrong(service, client, cloud, tmp_path: Path, what: str) -> None:
    kind, changed, rule = BROKEN[what]
    start(client, cloud, "d0", "on_demand", "c2", 10)
    pass_time(client, cloud, 75)
    work(service, lambda parts: parts.warnings.report_overdue())
    rows = written([of_wire(event) for event in log_of(client, cloud)], tmp_path)
    names = {EvictionScheduled: "eviction_scheduled", InstanceEvicted: "instance_evicted"}
    index = next(i for i, row in enumerate(rows) if row.kind == names.get(kind, "eviction_overdue"))
    rows[index] = rows[index]._replace(**changed)
    assert audit(rows, []).finding.rule is rule


@pytest.fixture
def risky(service: Service) -> str:
    return risky_cloud(service, next(_names))


def test_many_risks_are_told_over_several_assessments(service, client, risky, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.admission.risk.MOST_NOTICES", 3)
    told: list[list[str]] = []
    for _ in range(3):
        work(service, lambda parts: parts.warnings.assess_risks())
        told.append([e["id"] for e in log_of_end(client, risky) if e["kind"] == "eviction_risk"])
    assert told == [["s3", "s2", "s1"], ["s3", "s2", "s1", "s0"], ["s3", "s2", "s1", "s0"]]


def test_risk_is_told_when_it_passes_the_threshold_and_when_it_is_back(service, client, risky) -> None:
    def risks() -> list[tuple[str, str]]:
        work(service, lambda parts: parts.warnings.assess_risks())
        return [(e["id"], e["level"]) for e in log_of_end(client, risky) if e["kind"] == "eviction_risk"]

    first = risks()
    assert first == [(name, "raised") for name in ("s3", "s2", "s1", "s0")], "in the order in which they would go"
    assert risks() == first, "once, as long as it lasts"
    event = next(e for e in log_of_end(client, risky) if e["kind"] == "eviction_risk")
    found, words = explained(client, risky, "s3")
    assert [notice["level"] for notice in found["notices"]] == ["raised"]
    assert "above the policy's 50 %." in words
    assert (event["threshold"], event["epoch"], event["slots"]) == (0.5, 1, 1)
    assert event["eviction_probability"] > 0.5
    risk = risk_in_words(event["eviction_probability"], event["eviction_probability_bound"], event["windows"])
    assert event["windows"] is not None
    assert f"was {risk}, above" in words
    more = {"name": "node-1", "cores": 64, "at": at(600 * WAVES + 10)}
    client.post(f"{risky}/nodes", json=more).raise_for_status()
    assert sorted(risks()[len(first) :]) == [(name, "cleared") for name in ("s0", "s1", "s2", "s3")]
    assert "no longer above the policy's 50 %." in explained(client, risky, "s3")[1]
    log = [of_wire(e) for e in client.get(f"{risky}/events?limit=1000").json()["events"]]
    assert sum(isinstance(item.event, EvictionRisk) for item in log) == 8
    folded = Cloud()
    folded.apply_recorded(log)
    assert folded.at_risk == set()
    assert decode_cloud(encode_cloud(folded)).digest() == folded.digest()
