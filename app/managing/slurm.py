"""A Slurm of the cluster's own: its configuration, its daemons, and what is asked of it by its commands.

Nodes are dynamic (`slurmd -Z`): none is named in the configuration, so nothing is ever reconfigured. Only the commands'
plain output is read, with named columns: it is the interface that Slurm keeps stable.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.clusters.rules.deciding import NodeState
from app.clusters.rules.wanted import MOST_NODES, ClusterWanted
from app.managing.files import put
from app.managing.programs import ProgramFailed, daemon_of, end_daemon, run, start_daemon, wait_until

CONTROLLER = "tenurectl"
ANY = "any"
"""The partition of jobs of one node that may run in every pool. Slurm refuses a list of partitions without nodes."""
_START_S = 20.0
_ENDLESS_S = 365 * 86_400.0
"""The limit that Slurm writes for a job that has none, where its partition has none either."""
_KEY_BYTES = 1024
_CONF = """\
ClusterName={name}
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={local}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmctldPort={port}
SlurmdPort=6818
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobs.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=100000
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SlurmctldParameters=cloud_reg_addrs
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=5
MessageTimeout=10
TCPTimeout=2
TreeWidth=65533
JobRequeue=1
JobFileAppend=1
CommunicationParameters=NoAddrCache
MaxNodeCount={nodes}
PartitionName=DEFAULT MaxTime=INFINITE State=UP
"""
_FIELDS = ("%i", "%T", "%P", "%D", "%r", "%N", "%M", "%l", "%k", "%j")
_NUMBER = re.compile(r":(\d+(?:_\d+)?)")
"""Of a job on which another depends, as in `afterok:7(unfulfilled)`."""
_PARTING_BYTES = 8
_LONGEST_TEXT = 500
_CGROUP = "CgroupPlugin={plugin}\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n"


class QueuedJob(NamedTuple):
    """A line of squeue. state: PENDING, RUNNING and so on; reason: why it waits; pools: where it may run, in order;
    ran_s: since its present start; limit_s: how long it may run; None: for ever.
    """

    job_id: str
    state: str
    pools: tuple[str, ...]
    node_count: int
    reason: str
    nodes: str
    ran_s: float
    limit_s: float | None
    comment: str
    name: str

    @property
    def left_s(self) -> float | None:
        """The time until its limit ends it."""
        return None if self.limit_s is None else max(self.limit_s - self.ran_s, 0.0)


class RunningJob(NamedTuple):
    """A job as Slurm knows it: its number, its first node, when it was submitted, and if another one waits for it.

    number: of an element of an array, the one that it has besides its name in the queue.
    """

    job_id: str
    number: str
    submitted: str
    host: str
    is_awaited: bool


class Slurm:
    """The Slurm of one cluster, in the folder `slurm` of its shared folder."""

    def __init__(self, wanted: ClusterWanted, address: str) -> None:
        self._wanted, self._address = wanted, address
        self.folder = Path(wanted.shared) / "slurm"
        self.local = Path(f"/run/tenure-{wanted.name}") if wanted.machines.is_openstack else self.folder
        """The folder that each machine has for itself: of munge, and of servers the scripts of their jobs, too."""
        self.environment = {"SLURM_CONF": str(self.conf)}

    @property
    def conf(self) -> Path:
        """The configuration, which every program of Slurm needs."""
        return self.folder / "slurm.conf"

    def configure(self) -> None:
        """Write the configuration and the key, if they are not there as they should be."""
        for part in ("munge", "run", "state", "spool", "log"):
            (self.folder / part).mkdir(mode=0o755, parents=True, exist_ok=True)
        (self.local / "munge").mkdir(mode=0o755, parents=True, exist_ok=True)
        key = self.folder / "munge/key"
        if not key.exists():
            put(key, os.urandom(_KEY_BYTES), mode=0o600)
        plugin = "cgroup/v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "cgroup/v1"
        put(self.folder / "cgroup.conf", _CGROUP.format(plugin=plugin))
        put(self.conf, "".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        wanted = self._wanted
        yield _CONF.format(
            name=wanted.name,
            controller=CONTROLLER,
            address=self._address,
            folder=self.folder,
            local=self.local,
            spool=f"{self.local}/spool-%n" if wanted.machines.is_openstack else f"{self.folder}/spool/%n",
            port=wanted.slurm.port,
            nodes=MOST_NODES,
        )
        names = [pool.name for pool in wanted.pools]
        for name in names:
            yield f"NodeSet={name} Feature={name}\nPartitionName={name} Nodes={name}\n"
        yield f"PartitionName={ANY} Nodes={','.join(names)} Default=YES MaxNodes=1\n"

    def start(self) -> None:
        """Start the daemons that do not run, with the state that they left. Raise ProgramFailed if one does not come.

        The controller has a host name of its own.
        """
        munge = self.local / "munge"
        if daemon_of(munge / "pid", "munged") is None:
            files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
            options = [f"--{option}={munge / file}" for option, file in files.items()]
            options.append(f"--key-file={self.folder / 'munge/key'}")
            start_daemon(["/usr/sbin/munged", "--foreground", "--force", *options], self.folder / "log/munged.log")
            wait_until(lambda: daemon_of(munge / "pid", "munged"), "munged does not start", _START_S)
        if not self.runs():
            program = f"hostname {CONTROLLER}; exec /usr/sbin/slurmctld -D -f {self.conf}"
            start_daemon(["unshare", "--uts", "sh", "-c", program], self.folder / "log/start.log", self.environment)
        wait_until(self.answers, "slurmctld does not answer", _START_S)

    def stop(self) -> None:
        """End the daemons."""
        end_daemon(self.folder / "run/slurmctld.pid", "slurmctld")
        end_daemon(self.local / "munge/pid", "munged")

    def runs(self) -> bool:
        """Return True if the controller is a running process, though it may not answer yet."""
        return daemon_of(self.folder / "run/slurmctld.pid", "slurmctld") is not None

    def answers(self) -> bool:
        """Return True if the controller answers."""
        try:
            return " is UP" in self._ask("scontrol", "ping")
        except ProgramFailed:
            return False

    def nodes(self) -> dict[str, tuple[NodeState, bool]]:
        """Return the state of each node, and if it takes no more jobs."""
        lines = (line.split("|") for line in self._ask("sinfo", "-h", "-N", "-o", "%N|%T").splitlines())
        return {name: _state(word) for name, word in lines if name}

    def address_of(self, node: str) -> str:
        """Return the address from which a node joined. Raise ProgramFailed if there is no such node."""
        words = self._ask("sinfo", "-h", "-N", "-n", node, "-o", "%o").split()
        if not words:
            raise ProgramFailed(f"Slurm has no node {node}")
        return words[0]

    def jobs(self) -> list[QueuedJob]:
        """Return the jobs that wait or run, in the order of the queue.

        A name and a comment are what a user wrote, with any character in it, so nobody must know what parts the fields.
        """
        parting = secrets.token_hex(_PARTING_BYTES)
        form = "".join(f"{field}{parting}" for field in _FIELDS)
        lines = self._ask("squeue", "-h", "-r", "-S", "-p,i", "-o", form).split(f"{parting}\n")[:-1]
        pools = tuple(pool.name for pool in self._wanted.pools)
        return [_job(line.split(parting), pools) for line in lines]

    @property
    def ended_file(self) -> Path:
        """The record of the jobs that ended, which Slurm's controller writes at once."""
        return self.folder / "log/jobs.txt"

    def running(self) -> list[RunningJob]:
        """Return the jobs that Slurm calls running."""
        return self._known("R")

    def pending(self) -> list[RunningJob]:
        """Return the jobs that wait, without the elements of arrays, which have no number of their own yet."""
        return [one for one in self._known("PD") if "_" not in one.job_id]

    def _known(self, state: str) -> list[RunningJob]:
        lines = self._ask("squeue", "-h", "-r", "-t", state, "-o", "%i %A %V %B").splitlines()
        awaited = set(_NUMBER.findall(self._ask("squeue", "-h", "-t", "PD", "-o", "%E") if lines else ""))
        rows = (line.split() for line in lines)
        return [
            RunningJob(job, number, submitted, host, is_awaited=not awaited.isdisjoint({job, number}))
            for job, number, submitted, host in rows
        ]

    def cancel(self, job: str) -> None:
        """End a job."""
        self._ask("scancel", job)

    def end_of(self, job: str) -> str:
        """Return Slurm's word for how a job ended; `unknown` if it has forgotten the job."""
        try:
            words = self._ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").split()
        except ProgramFailed:
            words = []
        return words[0].lower() if words else "unknown"

    def drain(self, node: str, why: str) -> None:
        """Let a node take no more jobs."""
        self._ask("scontrol", "update", f"nodename={node}", "state=drain", f"reason={why}")

    def resume(self, node: str) -> None:
        """Let a drained node take jobs again."""
        self._ask("scontrol", "update", f"nodename={node}", "state=resume")

    def drop(self, node: str, why: str) -> None:
        """Forget a node. Its jobs are queued again."""
        self._ask("scontrol", "update", f"nodename={node}", "state=down", f"reason={why}")
        self._ask("scontrol", "delete", f"nodename={node}")

    def signal(self, job: str, signal: str) -> None:
        """Send a signal to all processes of a job."""
        self._ask("scancel", f"--signal={signal}", "--full", job)

    def requeue(self, job: str) -> None:
        """End a job's present run, and let it wait for nodes again."""
        self._ask("scontrol", "requeue", job)

    def hasten(self, job: str) -> None:
        """Let a job that was queued again start at once, and not after the life of its credential."""
        self._ask("scontrol", "update", f"jobid={job}", "starttime=now")

    def release(self, job: str) -> None:
        """Let a job that Slurm holds wait for nodes again."""
        self._ask("scontrol", "release", job)

    def _ask(self, *arguments: str) -> str:
        return run(arguments, self.environment)


def _state(word: str) -> tuple[NodeState, bool]:
    plain = word.strip("*~#!%$@^+-").lower()
    if plain in {"idle", "planned"}:
        return NodeState.IDLE, False
    is_busy = plain in {"allocated", "mixed", "completing", "draining"}
    return NodeState.BUSY if is_busy else NodeState.BAD, plain == "draining"


def _job(fields: Sequence[str], pools: tuple[str, ...]) -> QueuedJob:
    """Return the job of a line. Raise ProgramFailed if it is not one."""
    try:
        job_id, state, partition, count, reason, nodes, ran, limit, comment, name = fields
        node_count = int(count)
    except ValueError:
        raise ProgramFailed(f"squeue writes what is no job: {fields!r:.200}") from None
    may = pools if partition == ANY else tuple(partition.split(","))
    written_s = _seconds(limit) if limit[:1].isdecimal() else _ENDLESS_S
    limit_s = None if written_s >= _ENDLESS_S else written_s
    comment, name = _plain(comment), _plain(name)
    return QueuedJob(job_id, state, may, node_count, reason, nodes, _seconds(ran), limit_s, comment, name)


def _plain(text: str) -> str:
    """Return the beginning of what a user wrote, on one line."""
    return "".join(one if one.isprintable() else " " for one in text[:_LONGEST_TEXT])


def _seconds(text: str) -> float:
    """Return the seconds of a time as Slurm writes it, days-hours:minutes:seconds. The first may be left out."""
    days, _, rest = text.rpartition("-")
    total = 0
    for part in rest.split(":"):
        total = total * 60 + (int(part) if part.isdecimal() else 0)
    return float(total + 86_400 * (int(days) if days.isdecimal() else 0))
