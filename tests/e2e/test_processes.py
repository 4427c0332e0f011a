"""The service as its users have it: real processes, a real database, kill -9, Ctrl-C."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, takewhile
from pathlib import Path

import httpx2
import psutil
import pytest
from msgspec import to_builtins
from processes import HEADERS, TOKEN, Process, agrees, audited, tenure_json

from app.domain.events.wire import value_to_wire
from app.domain.names import node_name
from app.domain.requests import Operation, StartRequest
from app.domain.times import DAY_US
from app.domain.values import Clock, Policy
from app.workbench.drive import form_of
from app.workbench.synthesis import synthesize
from app.workbench.workload import combine, operations, write_trace
from tenure_client import Resources, Stop, TenureClient
from tenure_client.endpoints import EPOCHS_CROSSED

KILLS = int(os.environ.get("TENURE_TEST_KILLS", "6"))
CHUNK = 10


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in psutil.process_iter(["cmdline"]):
        if str(tmp_path) in " ".join(process.info["cmdline"] or []):
            process.kill()


def of(directory: Path) -> list[str]:
    """Command lines of everything that still runs on the directory."""
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(directory) in line]


def test_first_start_to_second_start(directory: Path):
    process = Process("run", directory, {"TENURE_ADMIN_TOKEN": ""}, "app.cli")
    del process.environment["TENURE_ADMIN_TOKEN"]
    process.start()
    greeting = process.log.read_text()
    token = re.search(r"export TENURE_TOKEN=(\S+)", greeting)[1]
    command = re.search(r"^ +(curl .*)$", greeting, re.MULTILINE)[1]
    shell = f"TENURE_TOKEN={token}; {command} -w ' %{{http_code}}'"
    answer = subprocess.run(shell, shell=True, capture_output=True, text=True, check=True).stdout
    assert answer.endswith(" 201"), answer
    assert process.interrupt() == 0
    assert of(directory) == [], "Ctrl-C stops the worker and the private PostgreSQL as well"
    process.start()
    assert token not in process.log.read_text().removeprefix(greeting), "the token is shown once"
    clouds = httpx2.get(f"{process.url}/v1/clouds", headers={"X-Auth-Token": token}).json()["clouds"]
    assert [cloud["name"] for cloud in clouds] == ["first"]
    assert process.interrupt(signal.SIGTERM) == 0
    assert of(directory) == [], "and so does SIGTERM"


@pytest.mark.parametrize("command", ["serve", pytest.param("run", marks=pytest.mark.long), "worker"])
def test_it_stops_without_a_traceback_however_often_it_is_told(directory: Path, command: str):
    process = Process(command, directory, {"TENURE_LOG_LEVEL": "warning"}, "app.cli")
    if command == "worker":
        process.environment["TENURE_WORKER_PORT"] = str(process.port)
    interrupt, terminate = signal.SIGINT, signal.SIGTERM
    for pause_s, signals in ((0, [interrupt] * 3), (0, [terminate, interrupt]), (0.3, [interrupt, terminate] * 3)):
        process.start()
        for number in signals[:-1]:
            process.process.send_signal(number)
            time.sleep(pause_s)
        assert process.interrupt(signals[-1]) == 0, signals
    assert "Error" not in process.log.read_text()
    assert "Traceback" not in process.log.read_text(), process.log.read_text()
    assert of(directory) == [], "and nothing is left behind"


def test_a_worker_that_dies_is_replaced_and_one_without_a_parent_leaves(directory: Path):
    process = Process("run", directory)
    process.start()
    (worker,) = psutil.Process(process.process.pid).children()
    worker.kill()
    for _ in range(100):
        others = [child for child in psutil.Process(process.process.pid).children() if child.pid != worker.pid]
        if others:
            break
        time.sleep(0.1)
    (second,) = others
    process.kill()
    assert psutil.wait_procs([second], 60)[1] == []


def workload_of(directory: Path) -> tuple[list[Operation], list[str]]:
    """Two crowded days, as operations and as options of `tenure evaluate`."""
    traces = {}
    for seed, market in enumerate(("on-demand", "spot")):
        traces[market] = synthesize(days=2.5, mean_utilisation=6, cores=1, seed=seed)[:1500]
        with (directory / f"{market}.csv").open("w") as file:
            write_trace(traces[market], file)
    options = ["--on-demand", str(directory / "on-demand.csv"), "--spot", str(directory / "spot.csv")]
    workload = combine(traces["on-demand"], traces["spot"], DAY_US)
    return operations(workload), [
        *options,
        "--nodes",
        "2x4",
        "--sla",
        "0.1",
        "--samples",
        "500",
        "--forecast",
        "replay",
    ]


class Driver:
    """Sends operations in order over HTTP, again and again until each is answered, and keeps every answer."""

    def __init__(self, process: Process, kill_at: set[int]) -> None:
        self.process = process
        self.kill_at = kill_at
        self.kills = 0
        self.random = random.Random(7)
        self.answers: list[dict[str, object]] = []
        self.client = httpx2.Client(headers=HEADERS, timeout=60)

    def send(self, part: list[Operation], *, kill: bool) -> None:
        """One batch; with `kill` the service dies at a random moment of its work on it."""
        forms = [form_of(step) for step in part]
        kinds = [{"stop" if isinstance(form, Stop) else "start": to_builtins(form)} for form in forms]
        if kill:
            threading.Timer(self.random.uniform(0, 0.02), self.process.kill).start()
            self.kills += 1
        while kinds:
            results = self._until_answered({"operations": kinds}, killed=kill)
            done = list(takewhile(lambda result: "errors" not in result, results))
            self.answers += [result["body"] for result in done if "body" in result]
            codes = {entry["code"] for result in results[len(done) :] for entry in result["errors"]}
            assert codes <= {EPOCHS_CROSSED}, codes
            assert done or kill, "a batch begins with what its table can decide"
            kinds, kill = kinds[len(done) :], False

    def _until_answered(self, body: dict[str, object], *, killed: bool) -> list[dict[str, object]]:
        while True:
            try:
                url = f"{self.process.url}/v1/clouds/killed/batch"
                answer = self.client.post(url, json=body)
            except httpx2.TransportError:
                answer = None
            if killed:
                self.process.process.wait()
                self.process.start(whole=False)  # the worker may be late, and may die before it has begun
                killed = False
            if answer is not None:
                assert answer.status_code == 200, answer.text
                return answer.json()["results"]


def test_nothing_that_was_answered_is_lost_when_the_service_is_killed(directory: Path):
    steps, options = workload_of(directory)
    chunks = [steps[at : at + CHUNK] for at in range(0, len(steps), CHUNK)]
    process = Process("run", directory)
    process.start()
    policy = Policy(eviction_probability=0.1, clock=Clock.EXTERNAL, sample_count=500)
    with TenureClient(process.url, TOKEN) as client:
        client.create_cloud("killed", value_to_wire(policy))
        for index in range(2):
            client.add_node("killed", node_name(index), Resources(4))
        client.add_flavor("killed", "c1", Resources(1))
    driver = Driver(process, set(random.Random(3).sample(range(len(chunks)), KILLS)))
    for number, chunk in enumerate(chunks):
        driver.send(chunk, kill=number in driver.kill_at)
    assert driver.kills == KILLS
    rows = {row["seq"]: row for row in audited(process, "killed", directory / "log.csv")}
    assert len(driver.answers) == sum(isinstance(step, StartRequest) for step in steps)
    assert [answer for answer in driver.answers if not agrees(answer, rows[str(answer["seq"])])] == []
    counts = httpx2.get(f"{process.url}/v1/clouds/killed", headers=HEADERS).json()["counts"]
    expected = tenure_json("evaluate", *options)
    assert counts["spot_admitted"] == expected["spot"]["admitted"]
    assert counts["spot_evicted"] == expected["spot"]["evicted"]
    assert counts["on_demand_admitted"] == expected["on_demand"]["admitted"]
    assert process.interrupt() == 0


def test_two_processes_on_one_cloud(directory: Path):
    processes = [Process("serve", directory) for _ in range(2)]
    for process in processes:
        process.start()
    cloud = f"{processes[0].url}/v1/clouds"
    body = {"name": "shared", "policy": value_to_wire(Policy()) | {"guarantee": "none"}}
    assert httpx2.post(cloud, json=body, headers=HEADERS).status_code == 201
    for index in range(3):
        node = {"name": f"n{index}", "cores": 8}
        assert httpx2.post(f"{cloud}/shared/nodes", json=node, headers=HEADERS).status_code == 201
    for cores in (1, 3):
        flavor = {"name": f"c{cores}", "cores": cores}
        assert httpx2.post(f"{cloud}/shared/flavors", json=flavor, headers=HEADERS).status_code == 201
    with ThreadPoolExecutor(8) as clients:
        answers = [*chain.from_iterable(clients.map(lambda number: busy_client(processes, number), range(8)))]
    rows = {row["seq"]: row for row in audited(processes[1], "shared", directory / "log.csv")}
    assert len(answers) == 8 * 60
    assert [answer for answer in answers if not agrees(answer, rows[str(answer["seq"])])] == []
    assert {row["kind"] for row in rows.values()} >= {"instance_started", "instance_rejected", "instance_evicted"}
    assert [process.interrupt() for process in processes] == [0, 0]


def busy_client(processes: list[Process], number: int) -> list[dict[str, object]]:
    """Starts and stops through both processes in turn; the answers to the starts."""
    with httpx2.Client(headers=HEADERS, timeout=60) as client:
        return start_and_stop(client, processes, number)


def start_and_stop(client: httpx2.Client, processes: list[Process], number: int) -> list[dict[str, object]]:
    choice, answers, running = random.Random(number), [], []
    for step in range(60):
        instances = f"{processes[step % 2].url}/v1/clouds/shared/instances"
        market = choice.choice(["on_demand", "spot", "spot"])
        body = {"id": f"i-{number}-{step}", "market": market, "flavor": choice.choice(["c1", "c3"]), "lifetime_s": 60}
        answer = client.post(instances, json=body)
        assert answer.status_code == 201, answer.text
        answers.append(answer.json())
        running.append(body["id"])
        if choice.random() < 0.6:
            gone = running.pop(choice.randrange(len(running)))
            assert client.delete(f"{instances}/{gone}").status_code == 204
    return answers


def test_a_drive_by_the_calibrated_forecast_equals_the_evaluation(directory: Path):
    """The worker's tables hold what these decisions need, and they are the tables of the evaluation."""
    _, options = workload_of(directory)
    options += ["--forecast", "calibrated"]
    process = Process("run", directory)
    process.start()
    driven = tenure_json("drive", "--url", process.url, "--token", TOKEN, "--cloud", "calibrated", *options)
    expected = tenure_json("evaluate", *options)
    assert expected["settings"]["forecast"] == "calibrated"
    assert expected["spot"]["evicted"] > 0
    for part in ("on_demand", "spot", "strata", "flavors", "epochs"):
        assert driven[part] == expected[part]
    assert process.interrupt() == 0
