"""Peers as places of a plan: what they promise, what a silent or paused one costs a plan, and what came of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from test_api_errors import check
from test_plans import compile_the_planner

from app.domain import errors
from tenure_client import TenureClient

SIZE = {"cores": 2, "memory_mib": 1024}
DEADLINE = (datetime.now(UTC) + timedelta(hours=9)).isoformat()


@pytest.fixture(scope="module")
def host(database_url: str) -> Iterator[Service]:
    """The service of the peer: one database and one process of both, which tell each other over HTTP."""
    compile_the_planner()
    with running_service(database_url, peer_allow_private=True, peer_answer_s=2.0) as service:
        client = service.client
        for path, body in (
            ("/v1/clouds", {"name": "there", "policy": {"warm_up_s": 0, "guarantee": "none"}}),
            ("/v1/clouds/there/nodes", {"name": "n", "cores": 16, "memory_mib": 65_536}),
            ("/v1/clouds/there/flavors", {"name": "small", **SIZE}),
            ("/v1/clouds", {"name": "bare"}),
            ("/v1/clouds/bare/flavors", {"name": "small", **SIZE}),
            ("/v1/clouds", {"name": "outside", "policy": {"clock": "external"}}),
        ):
            client.post(path, json=body).raise_for_status()
        client.post("/v1/clouds/there/tables").raise_for_status()
        service.compute_tables()
        service.wait_for_epoch("there", 1)
        token = client.post("/v1/tokens", json={"name": "b", "role": "peer"}).json()["token"]
        for name, cloud in (("b", "there"), ("bare", "bare"), ("outside", "outside")):
            peer = {"name": name, "url": service.url, "cloud": cloud, "token": token}
            client.post("/v1/peers", json=peer | {"quota": {"cores_share": 50}}).raise_for_status()
        yield service


def plan(service: Service, id_: str, *peers: str, **more: Any) -> httpx2.Response:
    return service.client.post("/v1/plans", json={
        "id": id_, "jobs": [{"id": "render", "work_s": 3600, "deadline": DEADLINE}], "probability": 0,
        "peers": [{"peer": name, **SIZE, "price_per_core_hour": 0.01} for name in peers],
        "rates": [{"name": "spot", "price": 1.0, "on_demand_price": 3.0, "lost_in_a_month": 0.1}],
    } | more)  # fmt: skip


def made(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def promised(service: Service, cloud: str = "there", name: str = "b", **size: int) -> httpx2.Response:
    body = {"name": f"{name}.{datetime.now(UTC).timestamp()}", "role": "peer"}
    token = service.client.post("/v1/tokens", json=body).json()["token"]
    return httpx2.get(f"{service.url}/v1/clouds/{cloud}/promise", params=size, headers={"X-Auth-Token": token})


def test_a_host_promises_what_its_table_says_within_the_quota(host: Service) -> None:
    told = made(promised(host, **SIZE))
    assert (told["refused"], told["slots"], told["longest_s"]) == (None, 4, 30 * 86400)
    quoted = host.client.get("/v1/clouds/there/quotes", params={"lifetime_s": 60}).json()
    shares = [point["survival"] for point in told["points"]]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1.0 - quoted["quotes"][0]["estimated_eviction_probability"])
    before = host.last_seq("there")
    assert made(promised(host, cores=3))["refused"] == "no_flavor"
    assert made(promised(host, "bare", **SIZE))["refused"] == "no_forecast"
    check(promised(host, name="stranger", **SIZE), errors.NotAPeer)
    check(promised(host, "outside", **SIZE), errors.ClockExternal)
    check(promised(host, "nowhere", **SIZE), errors.CloudNotFound)
    assert promised(host, cores=0).status_code == 400
    assert host.client.get("/v1/clouds/there/promise", params=SIZE).status_code == 403
    assert host.last_seq("there") == before, "nothing is held"


def test_a_peer_is_a_place_of_a_plan_beside_others(host: Service) -> None:
    found = made(plan(host, "at-peer", "b"))
    [job] = found["jobs"]
    way = job["ways"][0]
    assert (way["source"], way["place"], way["instance_type"]) == ("peer_promise", "b", "2 cores, 1024 MiB")
    assert (way["price"], way["bid"], found["left_out"]) == (pytest.approx(0.02), None, [])
    assert job["expected_cost"] < job["on_demand"]["cost"]
    assert made(plan(host, "at-peer", "b")) == found, "the same request again, though the peer's promise has moved"
    check(plan(host, "unknown", "nobody"), errors.PeerNotFound)
    check(plan(host, "past", "b", at="2026-01-01T00:00:00Z"), errors.PlanInvalid)


def test_a_peer_takes_no_more_jobs_than_it_has_room_for(host: Service) -> None:
    jobs = [{"id": f"j{at}", "work_s": 3600, "deadline": DEADLINE} for at in range(5)]
    found = made(plan(host, "five", "b", jobs=jobs, zone_share=1))
    places = [job["ways"][0]["place"] for job in found["jobs"]]
    assert places.count("b") == 4


def test_outcomes_at_a_peer_make_its_reliability_and_calibrate_it(host: Service) -> None:
    said = made(plan(host, "judged", "b"))["jobs"][0]
    told = {"job": "render", "cost": 2 * said["expected_cost"], "lost": 1, "ended_at": datetime.now(UTC).isoformat()}
    outcome = made(host.client.post("/v1/plans/judged/outcomes", json=told))
    assert (outcome["peer"], outcome["venue"], outcome["promised"]) == ("b", None, said["survival"])
    found = made(host.client.get("/v1/peers/b/reliability"))
    assert (found["peer"], found["all"]["count"], found["all"]["lived"]) == ("b", 1, 0.0)
    assert [one["instance_type"] for one in found["pools"]] == ["2 cores, 1024 MiB"]
    later = made(plan(host, "judged-2", "b"))
    assert later["calibrated_cost"] == pytest.approx(2 * later["expected_cost"])
    with TenureClient(host.url, token=TOKEN) as client:
        assert client.peer_reliability("b").all.count == 1
    page = httpx2.get(f"{host.url}/ui/peers/b/reliability", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert "2 cores, 1024 MiB" in page.text
    check(host.client.get("/v1/peers/nobody/reliability"), errors.PeerNotFound)
    assert host.client.get("/v1/peers/bare/reliability").json()["all"]["count"] == 0


class _Liar(BaseHTTPRequestHandler):
    """Answers whatever it was told to, or nothing for a long time."""

    said: bytes | None = b"{}"
    silent = threading.Event()

    def do_GET(self) -> None:
        if self.said is None:
            self.silent.wait(10)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.said)))
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def liar(service: Service, name: str) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Liar)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    peer = {"name": name, "url": f"http://127.0.0.1:{server.server_port}", "cloud": "x", "token": "t"}
    service.client.post("/v1/peers", json=peer).raise_for_status()
    yield
    _Liar.silent.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_silent_paused_and_lying_peers_are_named_and_block_no_plan(host: Service) -> None:
    gone = {"name": "gone", "url": "http://127.0.0.1:9", "cloud": "x", "token": "t"}
    host.client.post("/v1/peers", json=gone).raise_for_status()
    host.client.post("/v1/peers", json=gone | {"name": "idle"}).raise_for_status()
    host.client.post("/v1/peers/idle/pause").raise_for_status()
    good = {"slots": 1, "longest_s": 9, "windows": 1, "at_least": None, "points": [{"lifetime_s": 1, "survival": 1}]}
    lies: list[object] = [
        [], 7, {}, {"refused": "because"}, good | {"slots": -1}, good | {"slots": True}, good | {"windows": -1},
        good | {"points": []}, good | {"points": [{"lifetime_s": 1, "survival": 2}]}, good | {"at_least": "x"},
        good | {"points": [{"lifetime_s": 9, "survival": 1}, {"lifetime_s": 9, "survival": 1}]},
        good | {"points": [{"lifetime_s": n + 1, "survival": 1} for n in range(257)]}, good | {"longest_s": 1e30},
    ]  # fmt: skip
    with liar(host, "liar"):
        for number, lie in enumerate(lies):
            _Liar.said = json.dumps(lie).encode()
            [left] = made(plan(host, f"lies-{number}", "liar"))["left_out"]
            assert left["why"] in {"peer_refused", "peer_unreachable"}, lie
        _Liar.said = b"x" * 100_000
        assert made(plan(host, "long", "liar"))["left_out"][0]["why"] == "peer_unreachable"
        _Liar.said = None
        found = made(plan(host, "all", "gone", "idle", "liar", "bare", "b"))
    told = {one["place"]: one for one in found["left_out"]}
    assert {name: one["why"] for name, one in told.items()} == {
        "gone": "peer_unreachable", "idle": "peer_paused", "liar": "peer_unreachable", "bare": "no_forecast",
    }  # fmt: skip
    assert told["idle"]["detail"] == "it is paused here: an operator paused it"
    assert "within 2 s" in told["liar"]["detail"]
    assert found["jobs"][0]["ways"][0]["place"] == "b"
    alone = plan(host, "alone", "gone", rates=[])
    check(alone, errors.PlanInvalid)
    assert "gone 2 cores, 1024 MiB: peer unreachable" in alone.text
    page = httpx2.get(f"{host.url}/ui/plans/all", headers={"Cookie": f"tenure_token={TOKEN}"})
    assert "an operator paused it" in page.text
