"""A real Slurm whose nodes are bought at a real Tenure: jobs run, machines die, evictions come, managers are killed.

Skipped, with the reason, where Slurm or root is missing; `tools/lab-install` installs it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, TOKEN, Process, tenure

from app.managing.programs import run
from benchmarks.clusters.lab import why_not
from benchmarks.ports import free_port
from tenure_client import TenureClient

REASON = why_not()
pytestmark = [pytest.mark.real_parts, pytest.mark.skipif(bool(REASON), reason=REASON)]
NAME = f"lab{os.getpid()}"
"""No other run of these tests on this host has machines of this name."""

FILE = """\
name = "{name}"
shared = "{folder}"
[scale]
idle_s = 5
boot_timeout_s = 60
retry_s = 5
[slurm]
port = {port}
[machines]
subnet = "10.{a}.{b}.0/24"
[[pools]]
name = "own"
cloud = "small"
flavor = "one"
market = "on_demand"
max_nodes = 2
price_per_hour = 36
[[pools]]
name = "spot"
cloud = "spare"
flavor = "one"
max_nodes = 3
lifetime_s = 7200
"""
JOB = """\
#!/bin/bash
for line in $(seq {lines}); do echo "${{SLURM_RESTART_COUNT:-0}} $line"; sleep 0.2; done
echo done
"""


@dataclass
class Lab:
    """A cluster with its file, its manager, and the service that sells its nodes."""

    folder: Path
    file: Path
    service: Process
    manager: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tenure("cluster", *arguments, environment={"TENURE_URL": self.service.url, "TENURE_TOKEN": TOKEN})

    def manage(self) -> None:
        environment = os.environ | {"TENURE_URL": self.service.url, "TENURE_TOKEN": TOKEN}
        with (self.folder / "manager.log").open("a") as log:
            arguments = [sys.executable, "-m", "app.cli", "cluster", "run", str(self.file)]
            self.manager = subprocess.Popen(arguments, env=environment, stdout=log, stderr=log, text=True)
        wait(lambda: self.command("status", str(self.file)).returncode == 0, 60)

    def kill_manager(self) -> None:
        assert self.manager is not None
        self.manager.kill()
        self.manager.wait()

    def ask(self, *arguments: str) -> str:
        return run(arguments, {"SLURM_CONF": str(self.folder / "slurm/slurm.conf")}, 30)

    def submit(self, lines: int, *options: str) -> str:
        script = self.folder / f"job-{lines}.sh"
        script.write_text(JOB.format(lines=lines))
        out = f"{self.folder}/out-%j"
        told = self.ask("sbatch", "--parsable", "--requeue", "--open-mode=truncate", "-o", out, *options, str(script))
        return told.strip()

    def nodes_of(self, state: str = "") -> dict[str, str]:
        """Job to node, of jobs in a state."""
        lines = self.ask("squeue", "-h", "-o", "%i %N", *(["-t", state] if state else [])).splitlines()
        return {line.split()[0]: line.split()[-1] for line in lines}

    def is_done(self, *jobs: str) -> bool:
        return all(
            (path := self.folder / f"out-{job}").exists() and path.read_text().endswith("done\n") for job in jobs
        )

    def output(self, job: str) -> list[list[str]]:
        """Return what a job has written; nothing if it was killed before it wrote."""
        path = self.folder / f"out-{job}"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self) -> list[dict[str, str]]:
        told = self.command("nodes", str(self.file), "--json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)["nodes"]

    def events(self, kind: str) -> list[dict[str, str]]:
        lines = map(json.loads, (self.folder / "slurm/events.jsonl").read_text().splitlines())
        return [event for event in lines if event["kind"] == kind]

    def wait_until_empty(self) -> None:
        """No instance, no machine, no node is left: the three places agree that nothing is there."""
        wait(lambda: self.rows() == [], 60)


def wait(is_so: Callable[[], bool], timeout_s: float) -> float:
    """Wait for it; return how long it took."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() - began_s < timeout_s
        time.sleep(0.1)
    return time.monotonic() - began_s


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    service = Process("run", tmp_path_factory.mktemp("service"))
    service.start()
    with httpx2.Client(base_url=service.url, headers=HEADERS, timeout=60) as client:
        for cloud in ("small", "spare"):
            policy = {"guarantee": "none", "grace_s": 6}
            client.post("/v1/clouds", json={"name": cloud, "policy": policy}).raise_for_status()
            path = f"/v1/clouds/{cloud}"
            client.post(f"{path}/nodes", json={"name": "n", "cores": 3, "memory_mib": 4096}).raise_for_status()
            client.post(f"{path}/flavors", json={"name": "one", "cores": 1, "memory_mib": 512}).raise_for_status()
    folder = Path(tempfile.mkdtemp(prefix="tenure-lab-"))
    file = folder / "lab.toml"
    place = random.Random(os.getpid())
    file.write_text(
        FILE.format(name=NAME, folder=folder, port=free_port(), a=place.randrange(80, 250), b=place.randrange(1, 250))
    )
    found = Lab(folder, file, service)
    try:
        created = found.command("create", str(file))
        assert created.returncode == 0, created.stderr
        found.manage()
        yield found
    finally:
        if found.manager is not None:
            found.kill_manager()
        deleted = found.command("delete", str(file), "--yes")
        assert deleted.returncode == 0, deleted.stderr
        service.interrupt()
        assert not [*Path("/run/netns").glob(f"{NAME}-*")]
        shutil.rmtree(folder, ignore_errors=True)


def test_check_tells_what_each_pool_would_say(lab: Lab) -> None:
    told = lab.command("check", str(lab.file), "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["missing"] == []
    assert [(pool["pool"], pool["would_sell"]) for pool in found["pools"]] == [("own", True), ("spot", True)]


def test_jobs_fill_the_pools_in_order_and_nodes_go_when_idle(lab: Lab) -> None:
    jobs = [lab.submit(10) for _ in range(5)]
    looks = [lab.nodes_of("R")]

    def all_run() -> bool:
        looks.append(lab.nodes_of("R"))
        return len(looks[-1]) == 5

    wait(all_run, 60)
    nodes = [looks[-1][job] for job in jobs]  # by this very look: a job may have ended before the next one
    assert [node.split("-")[1] for node in nodes].count("own") == 2
    assert len({*nodes}) == 5
    wait(lambda: lab.is_done(*jobs), 60)
    for job in jobs:
        assert lab.output(job) == [*(["0", str(line)] for line in range(1, 11)), ["done"]]
    lab.wait_until_empty()
    released = {event["node"] for event in lab.events("node_released")}
    assert released == {*nodes}


def test_a_job_whose_machine_dies_runs_again(lab: Lab) -> None:
    job = lab.submit(30, "-p", "own")
    wait(lambda: job in lab.nodes_of("R"), 60)
    node = lab.nodes_of("R")[job]
    for pid in run(["ip", "netns", "pids", node]).split():
        with suppress(ProcessLookupError):  # one may end with another
            os.kill(int(pid), signal.SIGKILL)
    wait(lambda: ["1", "1"] in lab.output(job), 60)
    wait(lambda: lab.is_done(job), 60)
    assert lab.output(job) == [*(["1", str(line)] for line in range(1, 31)), ["done"]]
    assert node in {event["node"] for event in lab.events("node_lost")}
    lab.wait_until_empty()


def test_an_eviction_takes_the_node_in_time_and_the_job_runs_elsewhere(lab: Lab) -> None:
    jobs = [lab.submit(90) for _ in range(5)]
    wait(lambda: len(lab.nodes_of("R")) == 5, 60)
    with httpx2.Client(base_url=lab.service.url, headers=HEADERS, timeout=60) as client:
        surge = {"id": "surge", "market": "on_demand", "flavor": "one"}
        (victim,) = client.post("/v1/clouds/spare/instances", json=surge).json()["victims"]
        node = victim["id"].replace(".", "-", 1)
        assert node in lab.nodes_of("R").values()
        (job,) = (job for job, at in lab.nodes_of("R").items() if at == node)
        wait(lambda: client.get("/v1/clouds/spare/handovers").json()["handovers"] == [], 60)
        told = client.get(f"/v1/clouds/spare/instances/{victim['id']}").json()
        assert told["status"] == "evicted"
        client.delete("/v1/clouds/spare/instances/surge")
    wait(lambda: not Path("/run/netns", node).exists(), 20)
    assert node in {event["node"] for event in lab.events("eviction_confirmed")}
    wait(lambda: lab.is_done(*jobs), 120)
    assert {line[0] for line in lab.output(job)} == {"1", "done"}
    lab.wait_until_empty()


SAVING = """\
#!{python}
import pathlib, signal, time
saved = pathlib.Path("{folder}/saved")
line = int(saved.read_text()) if saved.exists() else 1
signal.signal(signal.SIGUSR1, lambda *_: saved.write_text(str(line)))
while line <= 60:
    print(line, flush=True)
    time.sleep(0.25)
    line += 1
print("done", flush=True)
"""


def test_a_job_that_saves_itself_at_a_signal_goes_on_from_there_after_an_eviction(lab: Lab) -> None:
    script = lab.folder / "saving.py"
    script.write_text(SAVING.format(python=sys.executable, folder=lab.folder))
    options = ["-p", "spot", "--requeue", "--open-mode=append", "--comment=checkpoint=USR1,2"]
    job = lab.ask("sbatch", "--parsable", *options, "-o", f"{lab.folder}/out-%j", str(script)).strip()
    wait(lambda: job in lab.nodes_of("R"), 60)
    time.sleep(2)
    with httpx2.Client(base_url=lab.service.url, headers=HEADERS, timeout=60) as client:
        node = lab.nodes_of("R")[job]
        client.post("/v1/clouds/spare/drill", json={"instance": node.replace("-", ".", 1)}).raise_for_status()
    wait(lambda: lab.is_done(job), 120)
    saved = int((lab.folder / "saved").read_text())
    lines = [int(line[0]) for line in lab.output(job) if line[0].isdecimal()]  # Slurm writes there, too
    assert saved > 1
    again = len(lines) - lines[::-1].index(saved) - 1
    assert lines[again:] == [*range(saved, 61)]
    assert lines[:again] == [*range(1, again + 1)]
    (asked,) = [event for event in lab.events("job_asked_to_save") if event["job"] == job]
    assert (asked["node"], asked["why"]) == (node, "notice")
    lab.wait_until_empty()


def test_a_second_manager_exits_and_a_killed_one_leaves_nothing_behind(lab: Lab) -> None:
    second = lab.command("run", str(lab.file))
    assert (second.returncode, second.stderr) == (3, f"tenure: another manager of '{NAME}' runs\n")
    jobs = [lab.submit(20) for _ in range(4)]
    chance = random.Random(1)
    for _ in range(4):
        time.sleep(chance.uniform(0.0, 1.5))
        lab.kill_manager()
        lab.manage()
    wait(lambda: lab.is_done(*jobs), 90)
    lab.wait_until_empty()
    for job in jobs:
        assert lab.output(job) == [*(["0", str(line)] for line in range(1, 21)), ["done"]]


def test_slurms_controller_and_the_service_may_die(lab: Lab) -> None:
    jobs = [lab.submit(75) for _ in range(3)]
    wait(lambda: len(lab.nodes_of("R")) == 3, 60)
    nodes = {*lab.nodes_of("R").values()}
    time.sleep(6)  # by then Slurm has saved what runs
    lab.service.kill()
    os.kill(int((lab.folder / "slurm/run/slurmctld.pid").read_text()), signal.SIGKILL)
    time.sleep(4)
    assert nodes <= {path.name for path in Path("/run/netns").iterdir()}
    lab.service.start()
    wait(lambda: lab.is_done(*jobs), 240)
    lab.wait_until_empty()


def test_what_a_person_asks_is_answered(lab: Lab) -> None:
    job = lab.submit(1000)
    wait(lambda: job in lab.nodes_of("R"), 60)
    status = lab.command("status", str(lab.file))
    assert "the manager runs, Slurm runs" in status.stdout
    assert "own: 1 node of 2, on_demand in small\n" in status.stdout
    (row,) = json.loads(lab.command("jobs", str(lab.file), "--json").stdout)["jobs"]
    assert (row["job"], row["state"]) == (job, "running")
    told = lab.command("events", str(lab.file)).stdout
    assert f"node_bought node={row['nodes']} why=job {job} waits" in told
    lab.ask("scancel", job)
    lab.wait_until_empty()


def test_the_cluster_to_play_with_runs_a_job_and_leaves_nothing_behind() -> None:
    """It is all that `make cluster` calls."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-try-"))
    folder.chmod(0o755)
    program = Path(__file__).parents[2] / "tools/try-cluster"
    environment = os.environ | {"CLUSTER_DIR": str(folder), "CLUSTER_PORT": str(free_port())}
    with (folder / "told").open("w") as told:
        playing = subprocess.Popen([program], env=environment, stdout=told, stderr=told, start_new_session=True)
    try:
        wait(lambda: "managing try" in (folder / "told").read_text() or playing.poll() is not None, 240)
        slurm = {"SLURM_CONF": str(folder / "slurm/slurm.conf")}
        run(["sbatch", "-o", f"{folder}/out", "--wrap", "hostname; echo done"], slurm, 30)
        wait(lambda: (folder / "out").exists() and (folder / "out").read_text().endswith("done\n"), 60)
        assert (folder / "out").read_text().startswith("try-spot-")
    finally:
        os.killpg(playing.pid, signal.SIGINT)
        playing.wait(120)
    assert not [*Path("/run/netns").glob("try-*")], (folder / "told").read_text()
    assert "try is gone" in (folder / "told").read_text()
    shutil.rmtree(folder, ignore_errors=True)


def test_the_service_hears_of_all_that_the_manager_does(lab: Lab) -> None:
    """Also of what happened while it did not answer, and while no manager ran."""
    job = lab.submit(10)
    wait(lambda: lab.is_done(job), 60)
    lab.kill_manager()
    lab.manage()
    lab.wait_until_empty()
    with TenureClient(lab.service.url, TOKEN) as client:
        wait(lambda: {one.kind for one in client.cluster_events(NAME)} >= {"node_released", "job_ended"}, 30)
        told = {one.kind for one in client.cluster_events(NAME)}
        assert told >= {"node_bought", "node_made", "node_ready", "job_seen", "job_started", "job_ended"}
        (found,) = (one for one in client.cluster_jobs(NAME) if one.job == job)
        assert (found.stage, found.requeue_count, found.end) == ("ended", 0, "completed")
        wait(lambda: client.cluster(NAME).is_managed, 30)
        assert client.cluster(NAME).orphan_count == 0
        keys = [one.key for one in client.cluster_events(NAME)]
        assert len({*keys}) == len(keys)
        cost = client.cluster_cost(NAME)
    assert cost.used_s > 0
    shown = lab.command("cost", str(lab.file), "--json")
    assert json.loads(shown.stdout)["cost"] == cost.cost == round(cost.pools[0].used_s * 36 / 3600, 6), shown.stderr
