"""Two services with databases of their own run jobs for each other while both are killed; none is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from processes import HEADERS, Process, audited

HOLD_S = 5
JOBS = 12
SETTINGS = {"TENURE_PEER_ALLOW_PRIVATE": "true", "TENURE_HOLD_S": str(HOLD_S), "TENURE_RECLAIM_MARGIN_S": "1"}


class Cloud:
    """A service with one cloud, called like it, and the times for which it was down."""

    def __init__(self, name: str, directory: Path, cores: int) -> None:
        self.name, self.cores = name, cores
        directory.mkdir()
        self.process = Process("run", directory, SETTINGS)
        self.client = httpx2.Client(base_url=self.process.url, headers=HEADERS, timeout=30)
        self.down: list[tuple[float, float]] = []

    def open(self) -> None:
        self.process.start()
        self.post("/v1/clouds", {"name": self.name, "policy": {"guarantee": "none"}})
        self.post(f"/v1/clouds/{self.name}/nodes", {"name": "n", "cores": self.cores})
        self.post(f"/v1/clouds/{self.name}/flavors", {"name": "c1", "cores": 1})

    def knows(self, other: Cloud) -> None:
        """Enter another cloud as a peer, with a token that it gives."""
        token = other.post("/v1/tokens", {"name": self.name, "role": "peer"})["token"]
        peer = {"name": other.name, "url": other.process.url, "cloud": other.name, "token": token}
        self.post("/v1/peers", peer | {"quota": {"cores_share": 100}})

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code in {200, 201, 202}, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self.client.get(f"/v1/clouds/{self.name}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def job(self, name: str) -> dict[str, Any]:
        return self.get(f"/jobs/{name}")

    def submit(self, name: str, **more: Any) -> dict[str, Any]:
        body = {"id": name, "flavor": "c1", "lifetime_s": 20, "federate": "only", "on_preempted": "offer_again"}
        return self.post(f"/v1/clouds/{self.name}/jobs", body | more)

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := self.get(f"/events?limit=1000&after_seq={len(found)}")["events"]:
            found += page
        return found

    def crash(self) -> None:
        """Kill -9, and start again."""
        begin = time.time()
        self.process.kill()
        self.process.start()
        self.down.append((begin, time.time()))


def until(holds: Callable[[], bool], within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cloud, Cloud]]:
    directory = tmp_path_factory.mktemp("federation")
    home, host = Cloud("a", directory / "a", 1), Cloud("b", directory / "b", 8)
    with ThreadPoolExecutor(2) as both:
        for opening in [both.submit(cloud.open) for cloud in (home, host)]:
            opening.result()
    home.knows(host)
    host.knows(home)
    yield home, host
    for cloud in (home, host):
        cloud.process.interrupt()


def test_a_job_runs_at_a_peer_and_its_end_comes_home(clouds: tuple[Cloud, Cloud]) -> None:
    home, host = clouds
    assert home.post("/v1/peers/b/test")["reached"] is True
    assert home.submit("wide", count=3, federate="allowed")["status"] in {"waiting", "offered"}
    until(lambda: host.client.get("/v1/clouds/b/instances/a.wide.1").status_code == 200)
    until(lambda: home.job("wide")["status"] == "awarded")
    running = host.get("/instances/a.wide.1")
    assert (running["status"], running["count"]) == ("running", 3)
    assert host.client.delete("/v1/clouds/b/instances/a.wide.1").status_code == 204
    until(lambda: home.job("wide")["end"] == "completed")
    assert home.job("wide")["where"] == "b"
    (tried,) = home.get("/jobs/wide/attempts")["attempts"]
    assert (tried["peer"], tried["outcome"]) == ("b", "completed")


def test_a_peer_sees_its_own_attempts_alone(clouds: tuple[Cloud, Cloud]) -> None:
    _, host = clouds
    stranger = host.post("/v1/tokens", {"name": "stranger", "role": "peer"})["token"]
    with httpx2.Client(base_url=host.process.url, headers={"X-Auth-Token": stranger}) as client:
        for method, path in (("GET", "offers/wide/1"), ("PUT", "offers/wide/1/award"), ("DELETE", "offers/wide/1")):
            answer = client.request(method, f"/v1/clouds/b/{path}")
            assert answer.json()["errors"][0]["code"] == "preemptible.offer.not_a_peer"
        for path in ("events", "instances", "quotes", "jobs"):
            assert client.get(f"/v1/clouds/b/{path}").status_code == 403


def test_a_host_that_has_not_entered_us_is_told_apart_from_one_that_is_silent(clouds: tuple[Cloud, Cloud]) -> None:
    home, host = clouds
    token = host.post("/v1/tokens", {"name": "not-entered", "role": "peer"})["token"]
    ours = host.post("/v1/tokens", {"name": "a.2", "role": "peer"})["token"]
    wrong = {
        "stranger": ("b", token, "not_its_peer"),
        "revoked": ("b", "tnr_revoked", "token_refused"),
        "lost": ("gone", ours, "no_such_cloud"),
    }
    for name, (cloud, shown, why) in wrong.items():
        home.post("/v1/peers", {"name": name, "url": host.process.url, "cloud": cloud, "token": shown})
        assert home.post(f"/v1/peers/{name}/test")["reached"] is False, name
        home.submit(f"to-{name}", peers=[name], on_preempted="fail")
        until(lambda name=name: home.job(f"to-{name}")["end"] == "rejected")
        (tried,) = home.get(f"/jobs/to-{name}/attempts")["attempts"]
        assert (tried["outcome"], tried["why"]) == ("refused", why)
        assert home.job(f"to-{name}")["where"] is None
        assert home.client.delete(f"/v1/peers/{name}").status_code == 204


def test_cancelled_and_preempted_jobs_end(clouds: tuple[Cloud, Cloud]) -> None:
    home, host = clouds
    home.submit("off")
    until(lambda: home.job("off")["status"] == "awarded")
    assert home.client.delete("/v1/clouds/a/jobs/off").status_code == 204
    until(lambda: home.job("off")["end"] == "cancelled")
    assert host.get("/instances/a.off.1")["status"] == "stopped"
    home.submit("lost", on_preempted="fail")
    until(lambda: host.client.get("/v1/clouds/b/instances/a.lost.1").status_code == 200)
    host.post("/v1/clouds/b/jobs", {"id": "own", "flavor": "c1", "count": 8, "lifetime_s": 60})
    until(lambda: home.job("lost")["end"] == "preempted")
    assert host.client.delete("/v1/clouds/b/jobs/own").status_code == 204


def test_killed_services_lose_no_job_and_run_none_twice(clouds: tuple[Cloud, Cloud], tmp_path: Path) -> None:
    home, host = clouds
    random = Random(7)
    names = [f"k{number}" for number in range(JOBS)]
    for name in names[: JOBS // 2]:
        home.submit(name)
    finished: set[str] = set()
    for victim in (home, host):
        time.sleep(random.uniform(0.5, 2.0))
        victim.crash()
        finish(host, finished, random)
    for name in names[JOBS // 2 :]:
        home.submit(name)

    def all_ended() -> bool:
        finish(host, finished, random)
        return all(home.job(name)["end"] is not None for name in names)

    until(all_ended, 150)
    check_ends(home, names)
    check_runs(host)
    for cloud in clouds:
        audited(cloud.process, cloud.name, tmp_path / f"{cloud.name}.csv")


def test_what_a_dead_host_was_awarded_is_taken_back_when_its_lease_is_over(clouds: tuple[Cloud, Cloud]) -> None:
    """Not earlier: nobody but the host could say that it does not run. And an origin that was dead hears what ended."""
    home, host = clouds
    home.submit("left", lifetime_s=60)
    until(lambda: host.client.get("/v1/clouds/b/instances/a.left.1").status_code == 200)
    home.process.kill()
    assert host.client.delete("/v1/clouds/b/instances/a.left.1").status_code == 204
    home.process.start()
    until(lambda: home.job("left")["end"] == "completed")
    home.submit("orphan", lifetime_s=12)
    until(lambda: host.client.get("/v1/clouds/b/instances/a.orphan.1").status_code == 200)
    host.process.kill()
    until(lambda: len(home.get("/jobs/orphan/attempts")["attempts"]) > 1)
    first, second = home.get("/jobs/orphan/attempts")["attempts"][:2]
    assert first["outcome"] == "reclaimed"
    assert 0 <= moment(first, "ended_at") - moment(first, "reclaim_at") <= 10
    assert moment(second, "offered_at") >= moment(first, "ended_at")
    host.process.start()


def finish(host: Cloud, finished: set[str], random: Random) -> None:
    """Be the host's controller: end some of what runs."""
    running = host.get("/instances?status=running&limit=1000")["instances"]
    for one in running:
        name = one["id"]
        if name.startswith("a.") and not name.endswith(".held") and random.random() < 0.5:
            assert host.client.delete(f"/v1/clouds/b/instances/{name}").status_code == 204
            finished.add(name)


def moment(event: dict[str, Any], name: str = "at") -> float:
    return datetime.fromisoformat(event[name]).timestamp()


def check_ends(home: Cloud, names: list[str]) -> None:
    """Every job has one last end."""
    ends = [event for event in home.events() if event["kind"] == "job_ended" and event["is_last"]]
    for name in names:
        assert sum(event["job"] == name for event in ends) == 1, name


def check_runs(host: Cloud) -> None:
    """No two attempts of a job ran at once, and no room was held for too long, but while the host was down."""
    events = host.events()
    ends = {one["id"]: moment(one) for one in events if one["kind"] in {"instance_stopped", "instance_evicted"}}
    runs: dict[str, list[tuple[float, float]]] = {}
    for one in events:
        if one["kind"] == "foreign_job_admitted":
            runs.setdefault(one["job"], []).append((moment(one), ends[one["id"]]))
        if one["kind"] == "room_held":
            begin, end = moment(one), ends[one["id"]]
            down = sum(max(min(end, to) - max(begin, since), 0) for since, to in host.down)
            assert end - begin - down <= HOLD_S + 5, one
    assert runs
    for job, spans in runs.items():
        spans.sort()
        assert all(first[1] <= second[0] for first, second in pairwise(spans)), (job, spans)
