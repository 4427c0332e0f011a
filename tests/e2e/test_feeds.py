"""Feeds as their readers have them: real processes that are killed while events go on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from processes import HEADERS, TOKEN, Process, tenure
from receivers import Receiver

CLOUD = "/v1/clouds/followed"
KILLS = 8


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in psutil.process_iter(["cmdline"]):
        if str(tmp_path) in " ".join(process.info["cmdline"] or []):
            process.kill()


class Writer:
    """Starts and stops instances until it is told to leave, through services that may die meanwhile."""

    def __init__(self, services: list[Process], pause_s: float = 0.0) -> None:
        self.services = services
        self.pause_s = pause_s
        self.leaving = threading.Event()
        self.thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        number = 0
        with httpx2.Client(headers=HEADERS, timeout=30) as client:
            while not self.leaving.is_set():
                service = self.services[number % len(self.services)]
                try:
                    client.post(f"{service.url}{CLOUD}/batch", json={"operations": operations(number)})
                except httpx2.TransportError:
                    time.sleep(0.05)
                number += 1
                self.leaving.wait(self.pause_s)


def operations(number: int) -> list[dict[str, object]]:
    """Ten spot starts, an on-demand start that evicts some of them, and the end of all."""
    spot = {"market": "spot", "flavor": "c1", "lifetime_s": 60}
    names = [f"s-{number}-{index}" for index in range(4)]
    taken = {"id": f"d-{number}", "market": "on_demand", "flavor": "c4"}
    steps: list[dict[str, object]] = [{"start": {"id": name, **spot}} for name in names]
    return [*steps, {"start": taken}, *({"stop": {"id": name}} for name in (*names, taken["id"]))]


def make_cloud(service: Process) -> None:
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=30) as client:
        client.post("/v1/clouds", json={"name": "followed", "policy": {"guarantee": "none"}}).raise_for_status()
        client.post(f"{CLOUD}/nodes", json={"name": "node-0", "cores": 4}).raise_for_status()
        for name, cores in (("c1", 1), ("c4", 4)):
            client.post(f"{CLOUD}/flavors", json={"name": name, "cores": cores}).raise_for_status()


def log_of(service: Process) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=30) as client:
        while True:
            query = {"after_seq": len(found), "limit": 1000}
            page = client.get(f"{CLOUD}/events", params=query).json()["events"]
            if not page:
                return found
            found += page


def start_follower(service: Process, file: Path) -> subprocess.Popen[bytes]:
    url = f"{service.url}{CLOUD}/events/stream"
    script = Path(__file__).with_name("follower.py")
    return subprocess.Popen([sys.executable, str(script), url, TOKEN, str(file)])


def test_a_consumer_that_is_killed_and_resumes_sees_every_event_once_and_in_order(directory: Path) -> None:
    first, second = Process("run", directory), Process("serve", directory)
    first.start()
    second.start()
    make_cloud(first)
    chance, file = random.Random(4), directory / "kept"
    writer = Writer([first, second])
    writer.thread.start()
    for number in range(KILLS):
        follower = start_follower(second, file)
        time.sleep(chance.uniform(0.5, 1.5))
        follower.kill()
        follower.wait()
        if number == KILLS // 2:  # and once the service that it reads from dies as well
            second.kill()
            second.start()
    writer.leaving.set()
    writer.thread.join()
    log = log_of(first)
    follower = start_follower(second, file)
    wait_for(lambda: len(file.read_bytes().splitlines()) >= len(log))
    follower.kill()
    kept = [line.split(b" ", 1) for line in file.read_bytes().splitlines()]
    assert [int(seq) for seq, _ in kept] == list(range(1, len(log) + 1))
    assert [json.loads(data) for _, data in kept] == log
    assert sum(event["kind"] == "instance_evicted" for event in log) > 50
    assert [second.interrupt(), first.interrupt()] == [0, 0]


def common(service: Process) -> list[str]:
    return ["--url", service.url, "--token", TOKEN, "--cloud", "followed"]


def wait_for(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
def test_a_worker_that_is_killed_in_the_middle_loses_nothing(directory: Path) -> None:
    """Two workers, of which the one that delivers is killed again and again; the receiver fails for a while as well."""
    settings = {"TENURE_WEBHOOK_ALLOW_PRIVATE": "true", "TENURE_WEBHOOK_RETRY_S": "0.2"}
    service = Process("run", directory, settings)
    service.start()
    make_cloud(service)
    tries: Counter[str] = Counter()

    def answer(name: str) -> int:
        tries[name] += 1
        return 503 if tries[name] == 1 and random.Random(name).random() < 0.1 else 204

    with Receiver(answer) as receiver:
        made = json.loads(
            tenure("webhook", "create", receiver.url, "--after-seq", "0", *common(service), "--json").stdout
        )
        webhook, receiver.secret = str(made["id"]), str(made["secret"])
        writer = Writer([service], pause_s=0.5)
        writer.thread.start()
        for kill in range(4):
            taken = len(receiver.taken)
            receiver.wait_for(lambda taken=taken: len(receiver.taken) > taken + 40, 120)
            (worker,) = psutil.Process(service.process.pid).children()
            worker.kill()
            if kill == 1:
                time.sleep(1)
        writer.leaving.set()
        writer.thread.join()
        log = log_of(service)
        receiver.wait_for(lambda: len(receiver.seqs()) == len(log), 180)
    assert receiver.wrong == []
    assert sorted(receiver.seqs()) == list(range(1, len(log) + 1))
    urgent = {event["seq"] for event in log if event["kind"] == "instance_evicted"}
    for lane in (urgent, {event["seq"] for event in log} - urgent):
        assert [seq for seq in receiver.seqs() if seq in lane] == sorted(lane)
    assert len({one.webhook_id for one in receiver.taken}) == len(log)
    assert json.loads(tenure("webhook", "show", webhook, *common(service), "--json").stdout)["dead_count"] == 0
    assert service.interrupt() == 0
