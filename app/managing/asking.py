"""Asks jobs to save themselves: at the notice of an eviction, and when the advice of their cloud says so.

When a job was last asked is remembered by this process alone. After a new start the time since the job began counts,
so a job is rather asked once too often.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from app.clusters.rules.deciding import View, pool_of
from app.clusters.rules.saving import ASK_EVERY_S, is_due, saving_of
from app.clusters.rules.wanted import ClusterWanted
from app.managing.buying import Buyer
from app.managing.events import Events
from app.managing.slurm import QueuedJob, Slurm


class Asking:
    """Asks the jobs of one cluster."""

    def __init__(self, wanted: ClusterWanted, slurm: Slurm, buyer: Buyer, events: Events) -> None:
        self._wanted, self._slurm, self._buyer, self._events = wanted, slurm, buyer, events
        self._asked_s: dict[str, float] = {}
        self._looked_s = time.monotonic()

    def before_the_end(self, node: str, jobs: Iterable[QueuedJob], why: str) -> None:
        """Ask the jobs on a node whose eviction is announced, or whose lease ends."""
        for job in jobs:
            if job.state == "RUNNING" and job.nodes == node:
                self._ask(job, why)

    def as_advised(self, view: View, jobs: Iterable[QueuedJob]) -> None:
        """Ask the jobs of one spot node each whose checkpoint is due by the hazard; looks each half a minute."""
        now_s = time.monotonic()
        if now_s - self._looked_s < ASK_EVERY_S:
            return
        self._looked_s = now_s
        running = [job for job in jobs if job.state == "RUNNING" and saving_of(job.comment) is not None]
        self._asked_s = {job.job_id: self._asked_s.get(job.job_id, now_s - job.ran_s) for job in running}
        for job in running:
            instance, pool = view.instances.get(job.nodes), self._wanted.pool(pool_of(job.nodes))
            saving = saving_of(job.comment)
            if instance is None or instance.notice_s is not None or pool is None or saving is None:
                continue
            if pool.market == "on_demand":
                continue
            at_risk_s = max(now_s - self._asked_s[job.job_id], 0.0)
            if is_due(self._buyer.next_checkpoint_s(job.nodes, pool, saving.pause_s, at_risk_s)):
                self._ask(job, "hazard")

    def _ask(self, job: QueuedJob, why: str) -> None:
        saving = saving_of(job.comment)
        if saving is not None:
            self._slurm.signal(job.job_id, saving.signal)
            self._asked_s[job.job_id] = time.monotonic()
            self._events.write("job_asked_to_save", job=job.job_id, node=job.nodes, why=why)
