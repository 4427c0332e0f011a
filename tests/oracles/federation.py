"""A federation of clouds of fungible cores in plain Python, job by job: what the evaluation must agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.federation.rules.jobs import Job

CELL_US = 600_000_000
WARM_UP_US = 2 * 86_400_000_000


@dataclass
class PlainForeign:
    """A foreign job that runs."""

    origin: str
    job: Job
    end_us: int
    born: int
    counts: bool


@dataclass
class PlainCloud:
    """Its cores, its native jobs with their ends, its foreign ones, and every change of native use."""

    cores: int
    native: list[tuple[int, Job, bool]] = field(default_factory=list)
    foreign: list[PlainForeign] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)

    def use(self) -> int:
        return sum(job.all_cores for _, job, _ in self.native)

    def free(self) -> int:
        return self.cores - self.use() - sum(one.job.all_cores for one in self.foreign)

    def cells(self, now_us: int) -> tuple[list[int], list[int]]:
        """Return the use at each moment, before the changes at it, and the highest in the cell after it."""
        moments, peaks = [], []
        for at_us in range(0, now_us + 1, CELL_US):
            use = ([use for when, use in self.changes if when < at_us] or [0])[-1]
            inside = [use for when, use in self.changes if at_us <= when < at_us + CELL_US]
            moments.append(use)
            peaks.append(max([use, *inside]))
        return moments, peaks


def plain_risk(rule: str, cloud: PlainCloud, job: Job, held_us: int) -> float:
    """Return the share of past moments, one every ten minutes, from which native use reached the room of the job."""
    moments, peaks = cloud.cells(job.start_us)
    spare, length = cloud.free() - job.all_cores, -(-held_us // CELL_US)
    if rule == "literal":
        risen = [max(peaks[at : at + length], default=0) - use > spare for at, use in enumerate(moments)]
        return sum(risen) / len(risen)
    ends = [(-(-(one.end_us - job.start_us) // CELL_US), one.job.all_cores) for one in cloud.foreign]
    bounds = sorted({0, length} | {end for end, _ in ends if end < length})
    alive, share = list(range(len(moments))), 1.0
    for begin, end in pairwise(bounds):
        room = spare + sum(cores for at, cores in ends if at <= begin)
        alive = [at for at in alive if at + end < len(moments)]
        if not alive:
            return 1.0
        killed = {at for at in alive if max(peaks[at + begin : at + end]) - moments[at] > room}
        share *= 1.0 - len(killed) / len(alive)
        alive = [at for at in alive if at not in killed]
        if share == 0.0:
            break
    return 1.0 - share


def plain_federation(
    cores: Mapping[str, int], jobs: Mapping[str, Sequence[Job]], rule: str, sla: float, bytes_per_s: int, train: float
) -> dict[str, dict[str, int]]:
    """Return the counts and works of each cloud, if every cloud offers its jobs to all others in order."""
    clouds = {name: PlainCloud(many) for name, many in cores.items()}
    words = ("requests", "native", "remote", "preempted", "rejected", "native_work", "remote_work")
    counts = {name: dict.fromkeys(words, 0) for name in cores}
    starts = sorted(
        ((name, job) for name in cores for job in jobs.get(name, ())), key=lambda one: one[1].start_us
    )  # stable: equal times keep the order of the clouds and of their jobs
    begin_us = train * max(job.start_us for _, job in starts)
    for born, (name, job) in enumerate(starts):
        _end_until(clouds, counts, job.start_us)
        counted = job.start_us >= begin_us
        home, count = clouds[name], counts[name]
        count["requests"] += counted
        if job.all_cores <= home.cores - home.use():
            count["native"] += counted
            while job.all_cores > home.free():
                victim = max(home.foreign, key=lambda one: one.born)
                home.foreign.remove(victim)
                counts[victim.origin]["preempted"] += victim.counts
            home.native.append((job.start_us + job.lifetime_us, job, counted))
            home.changes.append((job.start_us, home.use()))
            continue
        held_us = job.lifetime_us + -(-(job.input_bytes + job.output_bytes) * 1_000_000 // bytes_per_s)
        for host in (one for other, one in clouds.items() if other != name):
            fits = job.all_cores <= host.free()
            late = rule == "none" or job.start_us >= WARM_UP_US
            if fits and late and (rule == "none" or plain_risk(rule, host, job, held_us) <= sla):
                host.foreign.append(PlainForeign(name, job, job.start_us + held_us, born, counted))
                count["remote"] += counted
                break
        else:
            count["rejected"] += counted
    _end_until(clouds, counts, 1 << 62)
    return counts


def _end_until(clouds: Mapping[str, PlainCloud], counts: Mapping[str, dict[str, int]], at_us: int) -> None:
    for name, cloud in clouds.items():
        for end_us, job, counted in sorted(cloud.native, key=lambda one: one[0]):
            if end_us <= at_us:
                cloud.native.remove((end_us, job, counted))
                cloud.changes.append((end_us, cloud.use()))
                counts[name]["native_work"] += counted * job.all_cores * job.lifetime_us
        for one in [one for one in cloud.foreign if one.end_us <= at_us]:
            cloud.foreign.remove(one)
            counts[one.origin]["remote_work"] += one.counts * one.job.all_cores * (one.end_us - one.job.start_us)
