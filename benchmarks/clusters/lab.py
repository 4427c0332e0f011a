"""A service with a database of its own, two clouds, and a cluster on them that buys its nodes there."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from app.clusters.rules.wanted import cluster_of_toml
from app.managing.batch import BatchCluster
from app.managing.buying import Buyer
from app.managing.programs import ProgramFailed, missing_programs, run
from benchmarks.ports import free_port
from tenure_client import ClientError, Resources, TenureClient
from tenure_client.forms.events import EventAnswer

TOKEN = "tnr_benchmark"
CLOUDS = ("small", "spare")
BOOT_TIMEOUT_S = 60
_LAUNCH_S = 2.0
"""A job that was launched tells that it began so much later at most."""
UNSAVED_S = 7.0
"""Slurm's controller writes its state each five seconds, with a second more to notice and one to write it."""
_SCALE = {"idle_s": 5, "boot_timeout_s": BOOT_TIMEOUT_S, "retry_s": 2}
_POOL = {"lifetime_s": 7200}
_NOTHING: Mapping[str, object] = {}
_UP_S = 400.0  # a first start compiles
_FILE = """\
name = "{name}"
shared = "{folder}"
[scale]
{scale}
[slurm]
port = {port}
[machines]
subnet = "{subnet}"
[[pools]]
name = "own"
cloud = "small"
flavor = "one"
market = "on_demand"
max_nodes = {own}
[[pools]]
name = "spot"
cloud = "spare"
flavor = "one"
max_nodes = {spot}
{pool}
"""
_JOB = """\
#!/bin/bash
tell() {{ echo "$1 $SLURM_JOB_ID $SLURMD_NODENAME $(date +%s.%N)" >>{folder}/told; }}
tell began
sleep $1
tell ended
"""


class Place(NamedTuple):
    """The place of a lab's cluster, so that several may stand on one host. port, subnet: of Slurm."""

    name: str
    port: int
    subnet: str

    @classmethod
    def free(cls) -> Place:
        """Return a place that no other has, most likely."""
        draw = random.Random()
        return cls(
            f"b{draw.randrange(10**9)}", free_port(), f"10.{draw.randrange(80, 250)}.{draw.randrange(1, 250)}.0/24"
        )


class Ran(NamedTuple):
    """A run of a job on a node, as the job told it, in seconds of the clock. ended_s: None if it did not say so."""

    job: str
    node: str
    began_s: float
    ended_s: float | None


def why_not() -> str:
    """Return the reason why no cluster can be made here; empty: none."""
    if os.geteuid() != 0:
        return "machines of namespaces need root"
    if missing := missing_programs():
        return f"missing: {', '.join(missing)} (tools/lab-install)"
    try:
        probe = f"tenure-probe-{os.getpid()}"
        run(["ip", "netns", "add", probe])
        run(["ip", "netns", "del", probe])
        run(["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"])
    except ProgramFailed as error:
        return f"no namespaces here: {error}"
    return ""


def wait(is_so: Callable[[], object], timeout_s: float, what: str) -> float:
    """Wait for it; return how long it took. Raise TimeoutError if it does not come."""
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > timeout_s:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.1)
    return time.monotonic() - began_s


def _lines(values: Mapping[str, object]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


class Forked:
    """A manager that a nursery has born: `benchmarks.clusters.killed`."""

    def __init__(self, nursery: subprocess.Popen[str], asked: Mapping[str, object]) -> None:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        self._lines = nursery.stdout
        nursery.stdin.write(json.dumps(asked) + "\n")
        nursery.stdin.flush()
        self.pid = int(self._lines.readline())
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return its end, None if it lives."""
        if self._status is None and select.select([self._lines], [], [], 0)[0]:
            self._status = int(self._lines.readline() or -1)  # -1: the nursery has died
        return self._status

    def wait(self, timeout_s: float) -> None:
        """Wait for its end. Raise TimeoutError if it does not come."""
        wait(lambda: self.poll() is not None, timeout_s, "the end of a manager")

    def kill(self) -> None:
        """Kill it, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Lab:
    """A service, its clouds, a cluster, and its manager. nodes: how many each of the two pools may have.

    scale, pool: values of the file's `scale`, and of its second pool.
    """

    def __init__(
        self,
        place: Place,
        nodes: tuple[int, int],
        scale: Mapping[str, object] = _NOTHING,
        pool: Mapping[str, object] = _NOTHING,
    ) -> None:
        self.place, self.folder, self.token = place, Path(tempfile.mkdtemp(prefix="tenure-lab-")), TOKEN
        self.url = f"http://127.0.0.1:{free_port()}"
        self.file, self.told = self.folder / "cluster.toml", self.folder / "told"
        text = _FILE.format(
            **place._asdict(),
            folder=self.folder,
            scale=_lines(_SCALE | dict(scale)),
            pool=_lines(_POOL | dict(pool)),
            own=nodes[0],
            spot=nodes[1],
        )
        self.file.write_text(text)
        (self.folder / "job.sh").write_text(_JOB.format(folder=self.folder))
        self.client = TenureClient(self.url, TOKEN, retry_s=30.0)
        self.cluster = BatchCluster(cluster_of_toml(text), self.client)
        self._nodes = nodes
        self._service: subprocess.Popen[bytes] | None = None
        self._nursery: subprocess.Popen[str] | None = None
        self.manager: Forked | None = None
        self.struck: set[str] = set()
        self._controllers_killed_s: list[float] = []

    # --- processes ----------------------------------------------------------------------------------------------------

    def start_service(self) -> None:
        """Start the service and wait until it is ready; its database is in the folder."""
        own = {
            "TENURE_DATA_DIR": str(self.folder / "data"),
            "TENURE_PORT": self.url.rpartition(":")[2],
            "TENURE_ADMIN_TOKEN": TOKEN,
        }
        with (self.folder / "service.log").open("a") as log:
            command = [sys.executable, "-m", "app.cli", "run"]
            self._service = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
        wait(self._is_ready, _UP_S, "the service is ready")

    def _is_ready(self) -> bool:
        with suppress(ClientError), TenureClient(self.url, TOKEN, retry_s=0.0) as client:
            return client.readiness().ready
        return False

    def kill_service(self) -> None:
        """Kill the service with all its processes, and its PostgreSQL."""
        assert self._service is not None
        pid = int((self.folder / "data/postgres/postmaster.pid").read_text().split()[0])
        family = [psutil.Process(self._service.pid), psutil.Process(pid)]
        for process in [child for one in family for child in one.children(recursive=True)] + family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._service.wait()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line."""
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self._environment(), check=False)

    def _environment(self) -> dict[str, str]:
        return os.environ | {"TENURE_URL": self.url, "TENURE_TOKEN": TOKEN}

    def manage(self, kill_at: str = "") -> Forked:
        """Start a manager; it dies at the point that is given, if it comes there."""
        if self._nursery is None:
            command = [sys.executable, "-m", "benchmarks.clusters.killed"]
            self._nursery = subprocess.Popen(
                command, env=self._environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        told: dict[str, object] = {"arguments": ["cluster", "run", str(self.file)], "kill_at": kill_at}
        files = {"points": str(self.folder / "points"), "log": str(self.folder / "manager.log")}
        (self.folder / "manager.log").write_text("")
        self.manager = Forked(self._nursery, told | files)
        return self.manager

    def stand_by(self) -> subprocess.Popen[bytes]:
        """Start a manager that waits for the end of the one that there is."""
        with (self.folder / "standby.log").open("w") as log:
            command = [sys.executable, "-m", "app.cli", "cluster", "run", str(self.file), "--standby"]
            return subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log)

    def is_managing(self) -> bool:
        """Tell if the manager that was started last has begun its rounds, or is dead already."""
        is_dead = self.manager is None or self.manager.poll() is not None
        return is_dead or "managing" in (self.folder / "manager.log").read_text()

    def kill_manager(self) -> None:
        """Kill the manager, if it lives."""
        if self.manager is not None:
            self.manager.kill()
            self.manager.wait(10)

    def kill_controller(self) -> None:
        """Kill Slurm's controller, if it runs."""
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / "slurm/run/slurmctld.pid").read_text()), signal.SIGKILL)
            self._controllers_killed_s.append(time.time())

    def is_unsaved(self, ran: Ran) -> bool:
        """Tell if Slurm's controller was killed before it had written that a job began or ended."""
        moments = [ran.began_s, *([] if ran.ended_s is None else [ran.ended_s])]
        return any(-_LAUNCH_S < killed_s - at < UNSAVED_S for killed_s in self._controllers_killed_s for at in moments)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def slurm(self, *arguments: str) -> str:
        """Return what a command of Slurm says."""
        return run(arguments, self.cluster.slurm.environment, 60)

    def submit(self, seconds: float, *options: str) -> str:
        """Submit a job that tells when it begins and ends; return its number."""
        common = ["--parsable", "--requeue", "--open-mode=append", "-o", f"{self.folder}/out-%j"]
        return self.slurm("sbatch", *common, *options, str(self.folder / "job.sh"), str(seconds)).strip()

    def runs(self) -> list[Ran]:
        """Return all runs of jobs so far, in the order of their beginning."""
        found: list[Ran] = []
        lines = self.told.read_text().splitlines() if self.told.exists() else []
        for word, job, node, at in map(str.split, lines):
            if word == "began":
                found.append(Ran(job, node, float(at), None))
            else:
                last = max(at for at, ran in enumerate(found) if ran[:2] == (job, node))
                found[last] = found[last]._replace(ended_s=float(at))
        return found

    def done(self) -> set[str]:
        """Return the jobs that have ended."""
        return {ran.job for ran in self.runs() if ran.ended_s is not None}

    def running(self) -> dict[str, str]:
        """Return the node of each job that runs."""
        return dict(map(str.split, self.slurm("squeue", "-h", "-t", "R", "-o", "%i %N").splitlines()))

    # --- what is there ------------------------------------------------------------------------------------------------

    def instances(self) -> set[str]:
        """Return the nodes whose instances run, or hold room still."""
        return {*self.cluster.buyer.instances()}

    def buyer_of(self, client: TenureClient) -> Buyer:
        """Return what reads the cluster's instances with a client."""
        return Buyer(self.cluster.wanted, client)

    def machines(self) -> set[str]:
        """Return the machines."""
        return {path.name for path in Path("/run/netns").glob(f"{self.place.name}-*")}

    def is_empty(self) -> bool:
        """Tell if no place knows of a node."""
        with suppress(ProgramFailed, ClientError):
            return not (self.machines() or self.instances() or self.cluster.slurm.nodes())
        return False

    def strike(self, node: str) -> None:
        """Kill all that runs on a machine."""
        self.struck.add(node)
        for pid in run(["ip", "netns", "pids", node]).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def events(self, cloud: str) -> list[EventAnswer]:
        """Return the log of a cloud."""
        return list(self.client.events(cloud))

    def begin(self) -> None:
        """Start the service, make the clouds, and create the cluster. There is no manager yet."""
        self.start_service()
        for cloud, count in zip(CLOUDS, self._nodes, strict=True):
            self.client.create_cloud(cloud, {"guarantee": "none", "grace_s": 6})
            self.client.add_node(cloud, "host", Resources(cores=count, memory_mib=1024 * count))
            self.client.add_flavor(cloud, "one", Resources(cores=1, memory_mib=512))
        created = self.command("cluster", "create", str(self.file))
        if created.returncode:
            raise ProgramFailed(created.stderr)

    def end(self) -> None:
        """Give all back and remove the folder."""
        self.kill_manager()
        if self._nursery is not None:
            self._nursery.kill()
            self._nursery.wait()
        deleted = self.command("cluster", "delete", str(self.file), "--yes")
        if self._service is not None:
            self._service.send_signal(signal.SIGINT)
            self._service.wait(60)
        self.client.close()
        if deleted.returncode or self.machines() or self.cluster.slurm.runs():
            raise ProgramFailed(f"the cluster of {self.folder} was not deleted: {deleted.stderr} {self.machines()}")
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def lab_at(
    place: Place,
    nodes: tuple[int, int],
    scale: Mapping[str, object] = _NOTHING,
    pool: Mapping[str, object] = _NOTHING,
) -> Iterator[Lab]:
    """Give a lab with a running service and a created cluster, and take all away after it."""
    lab = Lab(place, nodes, scale, pool)
    try:
        lab.begin()
        yield lab
    finally:
        lab.end()


def node_of(event: EventAnswer) -> str:
    """Return the node whose instance an event is about."""
    return str(event.fields["id"]).replace(".", "-", 1)


def struck_or_evicted(lab: Lab) -> Mapping[str, str]:
    """Return the nodes that were taken from their jobs by a blow or by a cloud, and by which."""
    evicted = {
        node_of(event): "evicted"
        for cloud in CLOUDS
        for event in lab.events(cloud)
        if event.kind in {"eviction_scheduled", "instance_evicted"}
    }
    return evicted | dict.fromkeys(lab.struck, "struck")
