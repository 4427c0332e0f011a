"""A Slurm of the cluster's own: its configuration, its daemons, and what is asked of it by its commands.

Nodes are dynamic (`slurmd -Z`): none is named in the configuration, so nothing is ever reconfigured. Only the commands'
plain output is read, with named columns: it is the interface that Slurm keeps stable.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from socket import SO_REUSEADDR, SOL_SOCKET, socket

from app.clusters.rules.deciding import NodeState
from app.clusters.rules.wanted import MOST_NODES, ClusterWanted
from app.managing.files import put
from app.managing.lines import ANY, QueuedJob, RunningJob, job_of, state_of
from app.managing.programs import (
    ProgramFailed,
    ProgramSilent,
    daemon_of,
    end_daemon,
    kill_daemon,
    last_lines,
    run,
    start_daemon,
    start_helper,
    wait_until,
)
from app.managing.recording import ENDS, SCRIPT, script_of

__all__ = ["QueuedJob", "RunningJob", "Slurm", "SlurmSilent"]

CONTROLLER = "tenurectl"
_START_S = 20.0
_ANSWER_S = 12.0
"""A command of Slurm's ends within it, or does not end: Slurm's own messages have ten seconds (MessageTimeout)."""
HANGS_S = 60.0
"""A controller that lives and has not answered for so long is ended: it is not only busy."""
_MUNGE_ANSWERS_S = 5.0
_UNREACHED = ("Unable to contact slurm controller", "Munge encode failed", "Connection refused", "Socket timed out")
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
JobCompType=jobcomp/lua
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
_FIELDS = ("%i", "%T", "%P", "%D", "%r", "%N", "%M", "%l", "%k", "%j", "%A", "%V", "%c", "%C", "%m")
_NUMBER = re.compile(r":(\d+(?:_\d+)?)")
"""Of a job on which another depends, as in `afterok:7(unfulfilled)`."""
_PARTING_BYTES = 8
_CGROUP = "CgroupPlugin={plugin}\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n"


class SlurmSilent(ProgramFailed):
    """Slurm cannot be reached: what was seen of it before may not be so any more."""


class Slurm:
    """The Slurm of one cluster, in the folder `slurm` of its shared folder."""

    def __init__(self, wanted: ClusterWanted, address: str) -> None:
        self._wanted, self._address = wanted, address
        self.folder = Path(wanted.shared) / "slurm"
        self.local = Path(f"/run/tenure-{wanted.name}") if wanted.machines.is_openstack else self.folder
        """The folder that each machine has for itself: of munge, and of servers the scripts of their jobs, too."""
        self.environment = {"SLURM_CONF": str(self.conf)}
        self._silent_since_s: float | None = None

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
        put(self.folder / SCRIPT, script_of(self.ended_file))
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
        self.start_munge()
        if not self.runs():
            program = f"hostname {CONTROLLER}; exec /usr/sbin/slurmctld -D -f {self.conf}"
            start = ["unshare", "--uts", "sh", "-c", program]
            started = start_helper(start, self.folder / "log/start.log", self.environment)
            wait_until(lambda: started.poll() is not None or self.answers(), self._unanswered(), _START_S)
            if started.poll() is not None:
                raise ProgramFailed(f"slurmctld ended at once: {self._last_words()}")
        wait_until(self.answers, self._unanswered(), _START_S)

    def start_munge(self) -> None:
        """Start munged, if it does not run. Raise ProgramFailed if it does not come."""
        munge = self.local / "munge"
        if not self.has_munge():
            files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
            options = [f"--{option}={munge / file}" for option, file in files.items()]
            options.append(f"--key-file={self.folder / 'munge/key'}")
            start_daemon(["/usr/sbin/munged", "--foreground", "--force", *options], self.folder / "log/munged.log")
            wait_until(self.has_munge, "munged does not start", _START_S)

    def _unanswered(self) -> str:
        return f"slurmctld, which listens on slurm.port {self._wanted.slurm.port}, does not answer"

    def _last_words(self) -> str:
        """Return the last line of the controller's log."""
        lines = last_lines(self.folder / "log/slurmctld.log") or last_lines(self.folder / "log/start.log")
        return lines[-1] if lines else f"see {self.folder / 'log/slurmctld.log'}"

    def lacks(self) -> str:
        """Return why the controller could not listen here; empty: it could, or does."""
        port = self._wanted.slurm.port
        if self.runs():
            return ""
        with socket() as tried:
            tried.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            try:
                tried.bind(("", port))
            except OSError as error:
                return (
                    f"slurm.port {port} is taken on this host, perhaps by another cluster's Slurm ({error.strerror}): "
                    f"give this one another port in its file"
                )
        return ""

    def stop(self, *, is_with_munge: bool = True) -> None:
        """End the daemons; munged only if it is asked for."""
        end_daemon(self.folder / "run/slurmctld.pid", "slurmctld")
        if is_with_munge:
            end_daemon(self.local / "munge/pid", "munged")

    def clear(self, why: str) -> None:
        """Cancel all jobs and forget all nodes. Raise ProgramFailed if Slurm does not answer."""
        if jobs := sorted({job.job_id for job in self.jobs()}):
            self._ask("scancel", *jobs)
        if nodes := sorted(self.nodes()):
            self.drop(",".join(nodes), why)

    def forget_nodes(self) -> None:
        """Remove the state of nodes that a controller which does not run any more has saved."""
        for path in (self.folder / "state").glob("node_state*"):
            path.unlink(missing_ok=True)

    def runs(self) -> bool:
        """Return True if the controller is a running process, though it may not answer yet."""
        return daemon_of(self.folder / "run/slurmctld.pid", "slurmctld") is not None

    def has_munge(self) -> bool:
        """Return True if munged runs, without which nobody can speak to the controller."""
        return daemon_of(self.local / "munge/pid", "munged") is not None

    def end_hung(self) -> str:
        """End a daemon that lives and does not answer; return its name, empty: there is none. It is to be started then.

        munged is ended at once, as it keeps nothing. The controller may lose five seconds of its state.
        """
        if self._silent_since_s is None:
            return ""
        if not self._munge_answers():
            return kill_daemon(self.local / "munge/pid", "munged")
        if time.monotonic() - self._silent_since_s < HANGS_S:
            return ""
        self._silent_since_s = None
        return kill_daemon(self.folder / "run/slurmctld.pid", "slurmctld")

    def _munge_answers(self) -> bool:
        try:
            run(["munge", "--no-input", f"--socket={self.local / 'munge/socket'}"], timeout_s=_MUNGE_ANSWERS_S)
        except ProgramSilent:
            return False
        except ProgramFailed:  # it says no, or is not there at all, which is seen elsewhere
            return True
        return True

    def answers(self) -> bool:
        """Return True if the controller answers."""
        try:
            return " is UP" in self._ask("scontrol", "ping")
        except ProgramFailed:
            return False

    def nodes(self) -> dict[str, tuple[NodeState, bool]]:
        """Return the state of each node, and if it takes no more jobs."""
        lines = (line.split("|") for line in self._ask("sinfo", "-h", "-N", "-o", "%N|%T").splitlines())
        return {name: state_of(word) for name, word in lines if name}

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
        return [job_of(line.split(parting), pools) for line in lines]

    @property
    def ended_file(self) -> Path:
        """The record of the jobs that ended, which Slurm's controller writes at once."""
        return self.folder / ENDS

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

    def states(self) -> dict[str, str]:
        """Return Slurm's word for the state of each job that it has not forgotten, those that ended lately, too."""
        lines = (line.split() for line in self._ask("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").splitlines())
        return {words[0]: words[1] for words in lines if len(words) == 2}

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
        """Return what a command of Slurm's says. Raise SlurmSilent if Slurm cannot be reached."""
        began_s = time.monotonic()
        try:
            said = run(arguments, self.environment, _ANSWER_S, self._vain)
        except ProgramFailed as error:
            is_silent = isinstance(error, ProgramSilent) or any(word in str(error) for word in _UNREACHED)
            if is_silent or not self.runs():
                self._silent_since_s = began_s if self._silent_since_s is None else self._silent_since_s
                raise SlurmSilent(str(error)) from None
            raise
        self._silent_since_s = None
        return said

    def _vain(self) -> str:
        """Return why Slurm cannot answer; empty: it may."""
        return "" if self.runs() else "Slurm's controller does not run"
