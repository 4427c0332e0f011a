"""Tells of what Slurm did by itself: nodes that joined it, jobs that came, started, were queued again and ended.

What was told before a restart is read from the record, so nothing is told twice, and what ended meanwhile is told late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from app.clusters.rules.deciding import NodeState
from app.clusters.rules.saving import saving_of
from app.managing.events import Events
from app.managing.slurm import QueuedJob

_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED")


@dataclass(slots=True)
class _ToldOfJob:
    """The nodes on which a job was last told to run; empty: it waits.

    misfit: why no pool can hold it. key: by which the record of ends knows it.
    """

    nodes: str = ""
    misfit: str = ""
    key: tuple[str, str] = ("", "")


class Telling:
    """Compares each look at a cluster's Slurm with the one before."""

    def __init__(self, ends: Callable[[Mapping[str, tuple[str, str]]], Mapping[str, str]], events: Events) -> None:
        """Take a function that tells the ends of jobs that left the queue, by their keys; and the record."""
        self._ends_of, self._events = ends, events
        self._ready: set[str] = set()
        self._jobs: dict[str, _ToldOfJob] = {}
        self._ends: dict[str, str] = {}
        for event in events.newest():
            self._recall(event)

    def _recall(self, event: Mapping[str, object]) -> None:
        kind, job = event.get("kind"), str(event.get("job"))
        if kind == "node_ready":
            self._ready.add(str(event.get("node")))
        elif kind in {"job_seen", "job_requeued"}:
            self._jobs[job] = _ToldOfJob()
        elif kind in {"job_impossible", "job_possible"} and job in self._jobs:
            self._jobs[job].misfit = str(event.get("why", ""))
        elif kind == "job_started":
            self._jobs[job] = _ToldOfJob(str(event.get("node")))
        elif kind == "job_ended":
            self._jobs.pop(job, None)

    def look(self, nodes: Mapping[str, tuple[NodeState, bool]], jobs: Iterable[QueuedJob]) -> None:
        """Tell of what has changed. Raise ProgramFailed if Slurm must be asked for the ends of jobs and is silent.

        Those ends are told in a later look, then.
        """
        joined = {name for name, (state, _) in nodes.items() if state is not NodeState.BAD}
        for node in sorted(joined - self._ready):
            self._events.write("node_ready", node=node)
        self._ready = joined | (self._ready & nodes.keys())
        there = {job.job_id: job for job in jobs}
        for job in there.values():
            self._tell_of(job)
        left = self._jobs.keys() - there.keys()
        noted = {name: self._ends[name] for name in left & self._ends.keys()}
        unknown = {name: self._jobs[name].key for name in sorted(left - noted.keys())}
        self._tell_ends(noted)
        if unknown:
            self._tell_ends(self._ends_of(unknown))

    def _tell_ends(self, ends: Mapping[str, str]) -> None:
        for name in sorted(ends):
            self._events.write("job_ended", job=name, state=ends[name])
            self._ends.pop(name, None)
            del self._jobs[name]

    def look_at_misfits(self, misfits: Mapping[str, str]) -> None:
        """Tell once of each job that no pool can ever hold why, and once more if one can after all."""
        for name, told in self._jobs.items():
            why = misfits.get(name, "")
            if why != told.misfit:
                told.misfit = why
                facts = {"why": why} if why else {}
                self._events.write("job_impossible" if why else "job_possible", job=name, **facts)

    def close(self, ends: Mapping[str, str], otherwise: str) -> None:
        """Tell that all jobs are over, each with its end. otherwise: of those that have none."""
        self._tell_ends({name: ends.get(name) or self._ends.get(name) or otherwise for name in self._jobs})

    @property
    def jobs(self) -> dict[str, tuple[str, str]]:
        """The jobs that were told and are not over, with the key of each."""
        return {name: told.key for name, told in self._jobs.items()}

    def ended(self, job: str, state: str) -> None:
        """Note how a job ended for which Slurm is going to have another word. It is told when Slurm lets it go."""
        self._ends[job] = state

    def has_lost_its_node(self, job: QueuedJob) -> bool:
        """Tell if a job was told to run, and waits now. Slurm may say only a moment later until when."""
        told = self._jobs.get(job.job_id)
        return told is not None and bool(told.nodes) and job.state == "PENDING"

    def _tell_of(self, job: QueuedJob) -> None:
        if job.job_id not in self._jobs:
            saving = saving_of(job.comment)
            facts = {} if saving is None else {"pause_s": saving.pause_s}
            self._events.write("job_seen", job=job.job_id, name=job.name, pools=",".join(job.pools), **facts)
            self._jobs[job.job_id] = _ToldOfJob()
        told = self._jobs[job.job_id]
        if job.number:
            told.key = job.number, job.submitted
        if job.state == "RUNNING" and job.nodes and job.nodes != told.nodes:
            if told.nodes:
                self._events.write("job_requeued", job=job.job_id)
            told.nodes = job.nodes
            self._events.write("job_started", job=job.job_id, node=job.nodes)
        elif told.nodes and job.state not in _RUNNING:
            told.nodes = ""
            self._events.write("job_requeued", job=job.job_id)
