"""Lets the jobs of a cluster be checkpointed in time, and tells what became of it.

It remembers little: what was written, and how long that took, stands in the manifests; which jobs can be checkpointed,
and how large they are, in what `tenure-job` says of them. A checkpoint is taken on the job's machine by a helper
that goes on if this process dies.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any, NamedTuple

from app.clusters.rules.choosing import LOSS_EVERY_S, Timing, ends_before_next, is_due_by_young, timing_of
from app.clusters.rules.deciding import KILL_MARGIN_S, SeenInstance, View, pool_of
from app.clusters.rules.saving import ASK_EVERY_S, is_due
from app.clusters.rules.wanted import ClusterWanted
from app.clusters.rules.writing import MOST_MEASURED, Measured, Predicted, fits, predict
from app.managing.buying import Buyer
from app.managing.checkpointing.fence import GONE
from app.managing.checkpointing.folders import BrokenImage, JobFolder, Manifest
from app.managing.checkpointing.placing import checkpoints_of, launcher_of
from app.managing.events import Events
from app.managing.machines import MachineDriver
from app.managing.programs import ProgramFailed, run, start_helper
from app.managing.slurm import QueuedJob

KEEP_ENDED_S = 3600.0
"""The checkpoints of a job that left the queue are kept for so long."""
_STALE_S = 10.0
_MEND_EVERY_S = 5.0
_JUST_S = 3.0
"""For so long after a checkpoint the job may not have said yet that it stands."""
_ASKED_TIMEOUT_S = 3700.0


class KeptJob(NamedTuple):
    """A running job that can be checkpointed. saved: its newest checkpoint, if there is one."""

    folder: JobFolder
    node: str
    memory_bytes: float
    ran_s: float
    is_stopped: bool
    saved: Manifest | None

    def at_risk_s(self, now: float) -> float:
        """Return the work that the loss of its machine would cost."""
        since_s = now - self.saved.at if self.saved is not None else self.ran_s
        return max(min(since_s, self.ran_s), 0.0)

    def is_safe(self) -> bool:
        """Return True if it stands since its newest checkpoint, and waits for another machine."""
        if self.saved is None or not self.saved.is_stopped:
            return False
        now = time.time()
        is_of_this_run = now - self.saved.at <= self.ran_s
        is_just_made = now - self.saved.at - self.saved.write_s < _JUST_S
        return is_of_this_run and (self.is_stopped or is_just_made)


class CheckpointKeeper:
    """Looks after the checkpoints of one cluster."""

    def __init__(self, wanted: ClusterWanted, machines: MachineDriver, buyer: Buyer, events: Events) -> None:
        self._wanted, self._machines, self._buyer, self._events = wanted, machines, buyer, events
        self._folder = checkpoints_of(wanted)
        self._helpers: dict[str, subprocess.Popen[bytes]] = {}
        self._measured: list[Measured] | None = None
        self._looked_s = self._mended_s = time.monotonic()
        self._too_late: set[tuple[str, str]] = set()

    def safe_nodes(self, jobs: Iterable[QueuedJob]) -> frozenset[str]:
        """Return the nodes on which every job stands since its checkpoint: they can go at once."""
        kept = self._kept(jobs)
        running: dict[str, list[str]] = {}
        for job in jobs:
            if job.nodes and job.state != "PENDING":
                running.setdefault(job.nodes, []).append(job.job_id)
        return frozenset(
            node for node, there in running.items() if all(one in kept and kept[one].is_safe() for one in there)
        )

    def look(self, view: View, jobs: Iterable[QueuedJob]) -> None:
        """Start the checkpoints that are due, and note which runs are gone with their machines."""
        self._note_gone(view.machines)
        self._helpers = {job: one for job, one in self._helpers.items() if one.poll() is None}
        kept = self._kept(jobs)
        is_time = time.monotonic() - self._looked_s >= ASK_EVERY_S
        for job in kept.values():
            instance = view.instances.get(job.node)
            if instance is not None and job.folder.job not in self._helpers and not job.folder.is_locked():
                self._look_at(job, instance, self._beside(job, kept), is_time=is_time)
        if is_time:
            self._looked_s = time.monotonic()
            self._remove_ended({job.job_id for job in jobs})

    def _note_gone(self, alive: Set[str]) -> None:
        """Note of each job's current run if its machine is not there any more, for the next run waits for that."""
        found = [(folder, folder.current()) for folder in self._folders()]
        gone = [(folder, current) for folder, current in found if current and current.get("node") not in alive]
        new = [(folder, current) for folder, current in gone if current.get("run") != folder.noted(GONE)]
        there = self._machines.there() if new else {}
        for folder, current in new:
            if current.get("node") and current["node"] not in there:
                with suppress(OSError):  # a full disk; the next run waits for longer
                    folder.note(GONE, str(current.get("run")))

    def _look_at(self, job: KeptJob, instance: SeenInstance, predicted: Predicted, *, is_time: bool) -> None:
        margin_s = float(self._wanted.checkpoint.margin_s)
        if instance.notice_s is not None:
            self._before_eviction(job, instance.notice_s, predicted)
        elif job.is_stopped:
            self._mend(job)
        elif self._is_lease_over(job, instance.left_s, predicted, margin_s):
            self._save(job, "lease")
        elif is_time:
            timing = self._timing(job, predicted)
            if self._is_due(job, timing, predicted):
                self._save(job, timing)

    def _before_eviction(self, job: KeptJob, notice_s: float, predicted: Predicted) -> None:
        """Take a checkpoint if it is written in time. If it is not, the job goes on to the end, for nothing is lost."""
        if self._wanted.checkpoint.policy == "none" or job.is_safe():
            return
        if fits(predicted, notice_s, float(self._wanted.checkpoint.margin_s)):
            until = time.time() + notice_s - KILL_MARGIN_S
            self._save(job, "notice", "--last", "--until", f"{until:.3f}")
        elif (job.folder.job, job.node) not in self._too_late:
            self._too_late.add((job.folder.job, job.node))
            takes = f"it would take {predicted.mean_s:.1f} s, give or take {predicted.sigma_s:.1f}"
            error = f"{takes}, and {notice_s:.1f} s are left"
            self._events.write("checkpoint_failed", job=job.folder.job, node=job.node, why="notice", error=error)

    def _is_lease_over(self, job: KeptJob, left_s: float | None, predicted: Predicted, margin_s: float) -> bool:
        if self._wanted.checkpoint.policy == "none" or left_s is None:
            return False
        window_s = predicted.mean_s + 3.0 * predicted.sigma_s + margin_s
        return ends_before_next(left_s, predicted, margin_s) and job.at_risk_s(time.time()) > 2.0 * window_s

    def _timing(self, job: KeptJob, predicted: Predicted) -> Timing:
        pool = self._wanted.pool(pool_of(job.node))
        if pool is None:
            return Timing.NEVER
        grace_s = None if pool.market == "on_demand" else self._buyer.grace_s(pool)
        return timing_of(self._wanted.checkpoint.policy, grace_s, predicted, float(self._wanted.checkpoint.margin_s))

    def _is_due(self, job: KeptJob, timing: Timing, predicted: Predicted) -> bool:
        pool, at_risk_s = self._wanted.pool(pool_of(job.node)), job.at_risk_s(time.time())
        if timing is Timing.NEVER or pool is None:
            return False
        pause_s = max(predicted.mean_s, 1.0)
        if timing is Timing.HAZARD:
            return is_due(self._buyer.next_checkpoint_s(job.node, pool, pause_s, at_risk_s, LOSS_EVERY_S))
        by_promise = self._wanted.checkpoint.policy == "young" and pool.market != "on_demand"
        rate = self._buyer.eviction_probability(pool) / pool.lifetime_s if by_promise else 0.0
        return is_due_by_young(at_risk_s, pause_s, rate + 1.0 / LOSS_EVERY_S)

    def _mend(self, job: KeptJob) -> None:
        """Let a job go on that a killed helper left standing. What it says of itself may be old, so not too often."""
        if time.monotonic() - self._mended_s > _MEND_EVERY_S:
            self._mended_s = time.monotonic()
            self._help(job, "--mend", job.folder.job)

    def _save(self, job: KeptJob, why: str, *more: str) -> None:
        keep = str(self._wanted.checkpoint.keep)
        self._help(job, "--save", job.folder.job, "--why", why, "--keep", keep, *more)

    def _help(self, job: KeptJob, *arguments: str) -> None:
        command = self._machines.call(job.node, [str(launcher_of(self._wanted)), *arguments])
        self._helpers[job.folder.job] = start_helper(command, self._folder / "helpers.log")

    def save_now(self, job_id: str, jobs: Iterable[QueuedJob]) -> Manifest:
        """Take a checkpoint that a person asks for, and wait for it. Raise ProgramFailed with the reason if none is."""
        queued = {job.job_id: job for job in jobs}
        job = self._kept(queued.values()).get(job_id)
        if job is None:
            raise ProgramFailed(self._why_not(job_id, queued.get(job_id)))
        keep = str(self._wanted.checkpoint.keep)
        arguments = [str(launcher_of(self._wanted)), "--save", job.folder.job, "--keep", keep]
        try:
            said = run(self._machines.call(job.node, arguments), timeout_s=_ASKED_TIMEOUT_S)
        except ProgramFailed as error:
            raise ProgramFailed(f"no checkpoint of job {job_id}: {str(error).rpartition(': ')[2]}") from None
        return job.folder.manifest(int(said.split()[0]))

    def _why_not(self, job_id: str, queued: QueuedJob | None) -> str:
        """Return why no checkpoint of a job can be taken. queued: what the queue says of it."""
        if queued is None:
            is_known = any(event.get("job") == job_id for event in self._events.newest())
            return f"job {job_id} has ended" if is_known else f"there is no job {job_id}"
        if queued.state == "PENDING":
            return f"job {job_id} waits for a node, so no checkpoint of it can be taken yet"
        return f"job {job_id} does not run under tenure-job, so no checkpoint of it can be taken"

    def _beside(self, job: KeptJob, kept: Mapping[str, KeptJob]) -> Predicted:
        """Return how long a checkpoint takes, with those of all jobs on the same node at the same time."""
        memory_bytes = sum(one.memory_bytes for one in kept.values() if one.node == job.node)
        return predict(self._history(), memory_bytes)

    def _kept(self, jobs: Iterable[QueuedJob]) -> dict[str, KeptJob]:
        """Return the running jobs that can be checkpointed, by their number in the queue."""
        running = {job.job_id: job for job in jobs if job.state == "RUNNING"}
        found = {}
        for folder in self._folders() if running else ():
            said = folder.running()
            queued = running.get(str(said.get("queued_as")))
            if queued is None or queued.nodes != said.get("node") or said.get("driver") == "none":
                continue
            if (one := _kept(folder, said)) is not None:
                found[queued.job_id] = one
        return found

    def _folders(self) -> Iterator[JobFolder]:
        return (JobFolder(path) for path in sorted(self._folder.glob("[0-9]*")) if path.name.isdecimal())

    def tell(self) -> None:
        """Tell what became of checkpoints and of the jobs that went on from them."""
        history = self._history()
        for folder in self._folders():
            for said in folder.take_told():
                kind = said.pop("kind")
                self._events.write(kind, **said)
                if kind == "job_checkpointed":
                    with suppress(KeyError, TypeError, ValueError):
                        history.append(Measured(float(said["memory_bytes"]), float(said["write_s"])))
        del history[:-MOST_MEASURED]

    def _history(self) -> list[Measured]:
        """Return what was written, the oldest first; read from the manifests once, then as it is told."""
        if self._measured is None:
            made = [manifest for folder in self._folders() for manifest in _manifests(folder)]
            made.sort(key=lambda one: one.at)
            self._measured = [Measured(one.memory_bytes, one.write_s) for one in made[-MOST_MEASURED:]]
        return self._measured

    def _remove_ended(self, queued: set[str]) -> None:
        for folder in self._folders():
            name = str(folder.running().get("queued_as", folder.job))
            if name not in queued and time.time() - folder.path.stat().st_mtime > KEEP_ENDED_S:
                shutil.rmtree(folder.path, ignore_errors=True)
        for path in self._folder.glob("[0-9]*.old-*"):
            if time.time() - path.stat().st_mtime > KEEP_ENDED_S:
                shutil.rmtree(path, ignore_errors=True)


def _manifests(folder: JobFolder) -> Iterator[Manifest]:
    for generation in folder.published():
        try:
            yield folder.manifest(generation)
        except BrokenImage:
            continue


def _kept(folder: JobFolder, said: Mapping[str, Any]) -> KeptJob | None:
    try:
        age_s = time.time() - float(said["at"])
        if age_s > _STALE_S:
            return None
        saved = next(_manifests(folder), None)
        memory_bytes, ran_s = float(said["memory_bytes"]), float(said["ran_s"]) + age_s
        return KeptJob(folder, str(said["node"]), memory_bytes, ran_s, said["is_stopped"] is True, saved)
    except (KeyError, TypeError, ValueError):
        return None
