"""Driving over HTTP: the client against a service that decides with the same functions, with faults between them."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest

from app.admission.decide import decide_start, decide_stop
from app.domain.errors import EpochsCrossed
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, NodeAdded
from app.domain.events.wire import of_wire, value_of_wire, value_to_wire
from app.domain.inputs import InputError
from app.domain.requests import StartRequest
from app.domain.times import HOUR_US, SECOND_US, from_datetime
from app.domain.values import Clock, EvictionPolicy, Guarantee, Market, Placement, Policy, Resources
from app.engine.cloud import Cloud
from app.platform.http.errors import entries_of
from app.platform.http.respond import respond
from app.scheduling.wire.clouds import cloud_answer
from app.scheduling.wire.instances import start_answer
from app.scheduling.wire.nodes import flavor_answer, node_answer
from app.workbench.drive import drive
from app.workbench.evaluate import evaluate
from app.workbench.export import export_log
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import combine
from tenure_client import ServiceFailed, TenureClient
from tenure_client.forms.answer import Answer
from tenure_client.forms.instances import BatchAnswer, BatchResult, StartAnswer
from tenure_client.forms.nodes import NodeAnswer, NodesAnswer

NO_SLA = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)


def scenario(policy: Policy = NO_SLA) -> Scenario:
    on_demand, spot = (
        [
            instance._replace(cores=1 + number % 3)
            for number, instance in enumerate(synthesize(days=1, mean_utilisation=12, cores=1, seed=seed))
        ]
        for seed in (1, 2)
    )
    return Scenario((Resources(4),) * 6, combine(on_demand, spot, HOUR_US), policy)


@dataclass
class Peer:
    """The other side of the wire: one cloud, decided as the service decides, without a database.

    `faults` is how often a request is lost on its way, its answer is lost on the way back, or the service is not ready.
    """

    faults: float = 0.0
    at_once: int = 1000
    random: Random = field(default_factory=lambda: Random(0))
    cloud: Cloud = field(default_factory=Cloud)
    answers: dict[str, StartAnswer] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    created: str | None = None

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        fault = self.random.random() < self.faults and self.random.choice(["lost", "late", "busy"])
        if fault == "lost":
            raise httpx2.ConnectError("lost")
        if fault == "busy":
            return problem(503, "preemptible.log.unavailable", "wait a moment")
        answer = self.answer(request)
        if fault == "late":
            raise httpx2.ReadError("the answer is lost")
        return answer

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content) if request.content else {}
        match request.method, request.url.path.split("/")[2:]:
            case "POST", ["clouds"]:
                return self.create(body)
            case "GET", ["clouds", _]:
                if self.created is None:
                    return problem(404, "preemptible.cloud.not_found", "there is none")
                return answered(200, cloud_answer("c", self.cloud))
            case "POST", ["clouds", _, "nodes" | "flavors" as kind]:
                return self.add(kind, body)
            case "GET", ["clouds", _, "nodes"]:
                return self.list_nodes()
            case "POST", ["clouds", _, "instances"]:
                return answered(201, self.start(body))
            case "DELETE", ["clouds", _, "instances", name]:
                self.stop(name, parse_qs(request.url.query.decode())["at"][0])
                return httpx2.Response(204)
            case "POST", ["clouds", _, "batch"]:
                return answered(200, BatchAnswer(results=self.results(body["operations"])))
        raise AssertionError(f"{request.method} {request.url}")

    def create(self, body: dict[str, Any]) -> httpx2.Response:
        if self.created is not None:
            return problem(409, "preemptible.cloud.exists", "it exists")
        self.created = body["name"]
        self.apply([CloudCreated(at_us=0, policy=value_of_wire(Policy, body["policy"]))])
        return answered(201, cloud_answer("c", self.cloud))

    def add(self, kind: str, body: dict[str, Any]) -> httpx2.Response:
        resources = Resources(body["cores"], body["memory_mib"], body["disk_gib"])
        if kind == "nodes" and body["name"] not in self.cloud.nodes:
            self.apply([NodeAdded(at_us=0, node=body["name"], capacity=resources)])
        if kind == "flavors" and body["name"] not in self.cloud.flavors:
            self.apply([FlavorAdded(at_us=0, flavor=body["name"], demand=resources)])
        if kind == "nodes":
            return answered(201, self.node_answer(body["name"]))
        return answered(201, flavor_answer(self.cloud.flavors[body["name"]], self.cloud.available_slots(body["name"])))

    def node_answer(self, name: str) -> NodeAnswer:
        return node_answer(self.cloud.nodes[name], self.cloud.free(name))

    def list_nodes(self) -> httpx2.Response:
        nodes = [*map(self.node_answer, self.cloud.nodes)]
        return answered(200, NodesAnswer(nodes=nodes, links=[]))

    def results(self, steps: list[dict[str, Any]]) -> list[BatchResult]:
        """Of the first `at_once` steps; the others wait for a further table."""
        decided = [self.result(step) for step in steps[: self.at_once]]
        waiting = entries_of("req-1", EpochsCrossed("it needs a newer table"))
        return decided + [BatchResult(status=503, errors=waiting) for _ in steps[len(decided) :]]

    def result(self, step: dict[str, Any]) -> BatchResult:
        if "start" in step:
            return BatchResult(status=201, body=self.start(step["start"]))
        self.stop(step["stop"]["id"], step["stop"]["at"])
        return BatchResult(status=204)

    def start(self, body: dict[str, Any]) -> StartAnswer:
        if body["id"] not in self.answers:
            lifetime_us = round(body["lifetime_s"] * SECOND_US)
            request = StartRequest(body["id"], Market(body["market"]), body["flavor"], lifetime_us)
            decision = self.apply(list(decide_start(self.cloud, request, at_us(body["at"]), None)))
            self.answers[body["id"]] = start_answer(decision, self.cloud.seq)
        return self.answers[body["id"]]

    def stop(self, name: str, at: str) -> None:
        assert name in self.answers
        self.apply(list(decide_stop(self.cloud, name, at_us(at))))

    def apply(self, events: list[Event]) -> Any:
        for event in events:
            self.cloud.apply(event)
            self.log.append({"event": event})
        self.cloud.commit()
        return events[-1] if events else None


def answered(status: int, answer: Answer) -> httpx2.Response:
    """Return the answer as the service writes it."""
    return httpx2.Response(status, content=respond(answer).body, headers={"Content-Type": "application/json"})


def at_us(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text))


def problem(status: int, code: str, detail: str) -> httpx2.Response:
    return httpx2.Response(status, json={"errors": [{"code": code, "detail": detail, "status": status}]})


def client_of(peer: Peer, retry_s: float = 10.0) -> TenureClient:
    return TenureClient("http://peer", "secret", retry_s=retry_s, transport=httpx2.MockTransport(peer.handle))


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("wall_s", "forecast_s", "reliability")}


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize("eviction", list(EvictionPolicy))
def test_a_drive_equals_the_evaluation(batch: int, eviction: EvictionPolicy, placement: Placement) -> None:
    policy = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL, eviction_policy=eviction, placement=placement)
    driven = scenario(policy)
    with ThreadPoolExecutor(1) as threads:
        expected = evaluate(driven, threads).report()
    peer = Peer()
    with client_of(peer) as client:
        report = drive(client, "c", driven, batch).report()
    assert without_times(report) == without_times(expected)
    assert report["spot"]["evicted"] > 0
    assert report["forecast_s"] is None


@pytest.mark.parametrize("batch", [1, 50])
def test_a_drive_through_faults_and_begun_anew_decides_nothing_twice(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure_client.exchange.FIRST_PAUSE_S", 0.0)
    with client_of(Peer()) as client:
        expected = drive(client, "c", scenario(), batch).report()
    peer = Peer(faults=0.2)
    calm = Peer(cloud=peer.cloud, log=peer.log)
    with client_of(calm) as client:
        client.create_cloud("c", value_to_wire(NO_SLA))
    peer.created = calm.created
    with client_of(peer) as client:
        first = drive(client, "c", scenario(), batch).report()
        again = drive(client, "c", scenario(), batch).report()
    assert without_times(first) == without_times(again) == without_times(expected)
    assert len([entry for entry in peer.log if isinstance(entry["event"], InstanceStarted)]) == (
        expected["on_demand"]["admitted"] + expected["spot"]["admitted"]
    )


def test_what_waits_for_a_further_table_is_sent_again() -> None:
    with client_of(Peer()) as client:
        expected = drive(client, "c", scenario(), 50).report()
    with client_of(Peer(at_once=7)) as client:
        assert without_times(drive(client, "c", scenario(), 50).report()) == without_times(expected)
    with client_of(Peer(at_once=0), retry_s=0) as client, pytest.raises(ServiceFailed, match="epochs_crossed"):
        drive(client, "c", scenario(), 50)


def test_a_cloud_of_another_kind_is_left_alone() -> None:
    peer = Peer()
    with client_of(peer) as client:
        drive(client, "c", scenario(), 1000)
        seq = peer.cloud.seq
        with pytest.raises(InputError, match="another policy"):
            drive(client, "c", scenario(Policy(clock=Clock.EXTERNAL)), 1000)
        with pytest.raises(InputError, match="other nodes"):
            drive(client, "c", Scenario((Resources(4),), scenario().workload, NO_SLA), 1000)
    assert peer.cloud.seq == seq


def test_an_event_of_an_unknown_kind_is_told() -> None:
    with pytest.raises(ValueError, match="unknown kind 'instance_paused'"):
        of_wire({"seq": 1, "kind": "instance_paused", "at": "1970-01-01T00:00:00Z"})


def test_an_export_pages_through_the_log() -> None:
    events = [
        {"seq": 1, "at": "1970-01-01T00:00:00Z", "kind": "cloud_created", "policy": value_to_wire(NO_SLA)},
        {
            "seq": 2,
            "at": "1970-01-01T00:00:01.500000Z",
            "kind": "node_added",
            "node": "n",
            "capacity": {"cores": 4, "memory_mib": 0, "disk_gib": 0},
        },
    ]

    def page(request: httpx2.Request) -> httpx2.Response:
        query = parse_qs(request.url.query.decode())
        if "after_seq" not in query:
            return answered(200, cloud_answer("c", Cloud()))
        after = int(query["after_seq"][0])
        links = [{"rel": "next", "href": f"/v1/clouds/c/events?after_seq={after + 1}"}] if after == 0 else []
        return httpx2.Response(200, json={"events": events[after : after + 1], "links": links})

    file = io.StringIO()
    with TenureClient("http://peer", None, transport=httpx2.MockTransport(page)) as client:
        export_log(client, "c", file)
    lines = file.getvalue().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [["1", "0", "cloud_created"], ["2", "1.5", "node_added"]]
