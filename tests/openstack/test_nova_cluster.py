"""A real Slurm whose nodes are servers of a real Nova that sells spot with Tenure.

Nova's computes are fake, so `hypervisor` boots a machine for each active server, from what its user data say.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from hypervisor import Hypervisor
from lab_of_tests import lab_of_tests
from lab_processes import until
from nova_daemon import NovaDaemon, audit
from nova_lab import CLOUD, ROOT, NovaLab

from app.managing.programs import run
from benchmarks.clusters.lab import why_not
from benchmarks.ports import free_port

REASON = why_not()
pytestmark = [
    pytest.mark.real_parts,
    pytest.mark.timeout(1800),  # on a busy machine
    pytest.mark.skipif(bool(REASON), reason=REASON),
]
NAME = f"os{os.getpid()}"
GRACE_S = 60
FILE = """\
name = "{name}"
shared = "{folder}"
[scale]
idle_s = 5
boot_timeout_s = 120
retry_s = 5
[slurm]
port = {port}
[machines]
driver = "openstack"
controller = "{address}"
image = "tiny"
network = "none"
reach = "{reach} {{node}}"
[checkpoint]
driver = "{driver}"
[[pools]]
name = "spot"
cloud = "lab"
flavor = "large"
max_nodes = 1
lifetime_s = 7200
[[pools]]
name = "own"
cloud = "lab"
flavor = "small"
market = "on_demand"
max_nodes = 2
"""
PROGRAM = """\
import os, pathlib, signal, time
state = os.environ.get("TENURE_RESTORE")
line = int(pathlib.Path(state).read_text()) if state else 0
def save(*_):
    pathlib.Path(os.environ["TENURE_SAVE"]).write_text(str(line))
    os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGUSR1, save)
while line < {lines}:
    print(line, flush=True)
    line += 1
    time.sleep(0.25)
print("done", flush=True)
"""


@dataclass
class CloudCluster:
    """A cluster of servers, as a member of a project has it."""

    lab: NovaLab
    folder: Path
    file: Path
    hypervisor: Hypervisor
    manager: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "app.cli", "cluster", *arguments]
        return subprocess.run(words, env=self._environment(), capture_output=True, text=True, check=False)

    def _environment(self) -> dict[str, str]:
        return os.environ | self.lab.variables("demo-member", "demo") | {"PYTHONPATH": str(ROOT)}

    def manage(self) -> None:
        words = [sys.executable, "-m", "app.cli", "cluster", "run", str(self.file)]
        with (self.folder / "manager.log").open("a") as log:
            self.manager = subprocess.Popen(words, env=self._environment(), stdout=log, stderr=log, text=True)

    def kill_manager(self) -> None:
        assert self.manager is not None
        self.manager.kill()
        self.manager.wait()

    def submit(self, lines: int, *options: str) -> str:
        program = self.folder / f"program-{lines}.py"
        program.write_text(PROGRAM.format(lines=lines))
        wrapped = f"{self.folder}/bin/tenure-job {sys.executable} {program}"
        words = ["sbatch", "--parsable", "--requeue", "-o", f"{self.folder}/out-%j", *options, "--wrap", wrapped]
        return self.ask(*words).strip()

    def ask(self, *words: str) -> str:
        return run(words, {"SLURM_CONF": str(self.folder / "slurm/slurm.conf")}, 30)

    def node_of(self, job: str) -> str:
        return self.ask("squeue", "-h", "-t", "R", "-j", job, "-o", "%N").strip()

    def output(self, job: str) -> list[str]:
        path = self.folder / f"out-{job}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line == "done" or line.isdecimal()]  # Slurm tells there of a lost node

    def events(self, kind: str) -> list[dict[str, str]]:
        path = self.folder / "slurm/events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def servers(self) -> dict[str, str]:
        """The servers of the cluster in Nova's own database, by name, with their ids."""
        told = "SELECT display_name, uuid FROM instances WHERE deleted = 0 AND display_name LIKE %s"
        with psycopg.connect(self.lab.database_url("nova")) as connection:
            return {str(name): str(uuid) for name, uuid in connection.execute(told, [f"{NAME}-%"])}

    def instance_counts(self) -> dict[str, int]:
        """Return by pool how many instances the cluster's cost is of."""
        costs = json.loads(self.command("cost", NAME, "--json").stdout)
        return {one["pool"]: one["instance_count"] for one in costs["pools"]}

    def told(self) -> str:
        """Return what a failed wait shows."""
        record = (self.folder / "slurm/events.jsonl").read_text()[-3000:]
        return f"{record}\n{(self.folder / 'manager.log').read_text()[-1000:]}\n{self.servers()}"

    def wait_until_empty(self) -> None:
        until(lambda: not self.servers(), 90, self.told, 0.5)
        until(lambda: not [*Path("/run/netns").glob(f"{NAME}-*")], 20, self.told, 0.5)
        until(lambda: not [*self.lab.tenure.instances(CLOUD, status="running")], 60, self.told, 0.5)


@pytest.fixture(scope="module")
def lab() -> Iterator[NovaLab]:
    with lab_of_tests(2) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(lab: NovaLab) -> Iterator[CloudCluster]:
    daemon = NovaDaemon(lab)
    daemon.start()
    daemon.wait_until_it_works()
    folder = Path(tempfile.mkdtemp(prefix="tenure-cloud-", dir="/var/tmp"))
    folder.chmod(0o755)
    hypervisor = Hypervisor(lab, folder / "machines")
    hypervisor.start()
    driver = "criu" if subprocess.run(["criu", "check"], capture_output=True, check=False).returncode == 0 else "signal"
    parts = {"address": hypervisor.address, "reach": hypervisor.reach, "driver": driver}
    file = folder / "cluster.toml"
    file.write_text(FILE.format(name=NAME, folder=folder, port=free_port(), **parts))
    found = CloudCluster(lab, folder, file, hypervisor)
    try:
        created = found.command("create", str(file))
        assert created.returncode == 0, created.stderr
        found.manage()
        yield found
    finally:
        if found.manager is not None:
            found.kill_manager()
        deleted = found.command("delete", str(file), "--yes")
        hypervisor.stop()
        daemon.kill()
        assert deleted.returncode == 0, deleted.stderr
        assert found.servers() == {}
        shutil.rmtree(folder, ignore_errors=True)


def test_check_tells_what_the_project_lacks(cluster: CloudCluster) -> None:
    found = json.loads(cluster.command("check", str(cluster.file), "--json").stdout)
    assert found["missing"] == []
    assert {one["pool"]: one["would_sell"] for one in found["pools"]} == {"spot": True, "own": True}
    other = cluster.folder / "other.toml"
    for old, new, why in (
        ('image = "tiny"', 'image = "huge"', "there is no image huge"),
        ('flavor = "large"', 'flavor = "vast"', "there is no spot flavor for vast"),
    ):
        other.write_text(cluster.file.read_text().replace(old, new))
        told = cluster.command("check", str(other), "--json")
        assert told.returncode == 1
        assert why in json.loads(told.stdout)["missing"][0]


def test_a_job_on_a_spot_server_is_noticed_checkpointed_and_ends_elsewhere(
    cluster: CloudCluster, tmp_path: Path
) -> None:
    """The spot server is sold under a promise, evicted for a paying one, and refused when it is asked for again."""
    lab = cluster.lab
    lab.tenure.change_policy(CLOUD, {"grace_s": GRACE_S})
    paying = [lab.wait_for(lab.create("filler", "large").id)]
    try:
        job = cluster.submit(240)
        until(lambda: cluster.output(job)[20:], 120, cluster.told, 0.5)
        node = cluster.node_of(job)
        server = cluster.servers()[node]
        assert node.startswith(f"{NAME}-spot-")
        bought = [one for one in cluster.events("node_bought") if one["node"] == node]
        assert [one["instance"] for one in bought] == [server]
        promised = lab.tenure.instance(CLOUD, server)
        assert (promised.market, promised.lifetime_s, promised.project) == ("spot", 7200, lab.projects["demo"])
        paying.append(lab.create("paying", "medium"))
        until(lambda: cluster.events("job_checkpointed"), GRACE_S + 30, cluster.told, 0.5)
        until(lambda: lab.tenure.instance(CLOUD, server).status == "evicted", 30, cluster.told, 0.5)
        until(lambda: not [*lab.tenure.handovers(CLOUD)], GRACE_S + 15, cluster.told, 0.5)
        assert lab.wait_for(paying[1].id).status == "ACTIVE"
        until(lambda: cluster.output(job)[-1:] == ["done"], 300, cluster.told, 0.5)
    finally:
        for one in paying:
            lab.cloud.compute.delete_server(one.id)
        lab.tenure.change_policy(CLOUD, {"grace_s": 0})
    assert cluster.output(job) == [*map(str, range(240)), "done"], "each line once"
    (made,) = cluster.events("job_checkpointed")
    assert (made["job"], made["why"]) == (job, "notice")
    (restored,) = cluster.events("job_restored")
    assert restored["node"].startswith(f"{NAME}-own-")
    assert restored["lost_s"] == 0
    refused = cluster.events("node_refused")
    assert {(one["pool"], one["cloud"]) for one in refused} == {("spot", "lab")}
    assert {one["why"] for one in refused} == {"no host has room for a spot server of large now"}
    assert {one["node"] for one in cluster.events("eviction_confirmed")} == {node}
    cluster.wait_until_empty()
    assert "no rule is broken" in audit(lab, tmp_path)
    assert cluster.instance_counts() == {"spot": 1, "own": 1}


def test_a_server_that_vanishes_costs_the_work_since_the_last_checkpoint_alone(cluster: CloudCluster) -> None:
    """Without a grace period the daemon deletes an evicted server at once; to the cluster it has vanished."""
    job = cluster.submit(60)
    until(lambda: cluster.output(job)[8:], 120, cluster.told, 0.5)
    node = cluster.node_of(job)
    saved = cluster.command("checkpoint", str(cluster.file), job)
    assert saved.returncode == 0, saved.stderr
    cluster.lab.cloud.compute.delete_server(cluster.servers()[node])
    until(lambda: cluster.output(job)[-1:] == ["done"], 180, cluster.told, 0.5)
    assert cluster.output(job) == [*map(str, range(60)), "done"]
    assert [one["job"] for one in cluster.events("job_restored")][-1] == job
    assert node in {one["node"] for one in cluster.events("node_lost")}
    cluster.wait_until_empty()


def test_a_killed_manager_neither_leaks_nor_doubles_a_server(cluster: CloudCluster) -> None:
    """It is killed as soon as Nova has the server, which it cannot have written down then, and at random moments."""
    chance = random.Random(3)
    before = len(cluster.hypervisor.boots)
    jobs = [cluster.submit(lines, "-p", "own") for lines in (40, 41)]
    until(cluster.servers, 60, cluster.told, 0.02)
    for _ in range(4):
        cluster.kill_manager()
        cluster.manage()
        time.sleep(chance.uniform(1.0, 6.0))
    for job, lines in zip(jobs, (40, 41), strict=True):
        until(lambda one=job: cluster.output(one)[-1:] == ["done"], 180, cluster.told, 0.5)
        assert cluster.output(job) == [*map(str, range(lines)), "done"]
    cluster.wait_until_empty()
    booted = cluster.hypervisor.boots[before:]
    assert len(booted) == len({*booted})
    assert len(booted) <= 3, "two jobs, and at most one whose order was killed"
