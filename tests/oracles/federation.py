"""A federation of clouds of fungible cores in plain Python, job by job: what the evaluation must agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.federation.rules.jobs import Job

CELL_US = 600_000_000
WARM_UP_US = 2 * 86_400_000_000
POOLED_FROM, USED_SHARE, MOST_RISK, CLOSED_BEYOND, CLOSED_US = 40, 0.7, 0.5, 20, 30 * 86_400_000_000


@dataclass
class PlainForeign:
    """A foreign job that runs."""

    origin: str
    job: Job
    end_us: int
    declared_us: int
    born: int
    counts: bool
    risk: float


@dataclass
class PlainCloud:
    """Its cores, its native jobs with their ends, its foreign ones, and every change of native use."""

    cores: int
    native: list[tuple[int, Job, bool]] = field(default_factory=list)
    foreign: list[PlainForeign] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)
    admitted: int = 0
    preempted: int = 0
    closed_until_us: int | None = None

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
    ends = [(-(-(one.declared_us - job.start_us) // CELL_US), one.job.all_cores) for one in cloud.foreign]
    lost = _lost(moments, peaks, spare, length, ends, list(range(len(moments))))
    if rule == "timeline" or lost == 1.0:
        return lost
    least = max(lost, length / len(moments))
    hour_us, day_us = 3_600_000_000, 86_400_000_000
    same = [at for at in range(len(moments)) if (at * CELL_US - job.start_us + hour_us) % day_us <= 2 * hour_us]
    risen = _lost(moments, peaks, spare, length, ends, same)
    reached = _lost([cloud.use()] * len(moments), peaks, spare, length, ends, same)
    weight = plain_told_by_hour(moments)
    return least + weight * (max(least, risen, reached) - least)


def plain_told_by_hour(moments: Sequence[int]) -> float:
    """Return the share of the variance that is between times of day, less what chance shows."""
    days = len(moments) // 144
    if days < 2:
        return 1.0
    known = moments[: days * 144]
    mean = sum(known) / len(known)
    variance = sum((one - mean) ** 2 for one in known) / len(known)
    if variance == 0:
        return 0.0
    by_time = [sum(known[at::144]) / days for at in range(144)]
    share = sum((one - mean) ** 2 for one in by_time) / 144 / variance
    return max(0.0, (share - 1 / days) / (1 - 1 / days))


def plain_admitted_risk(rule: str, cloud: PlainCloud, job: Job, held_us: int, sla: float) -> float | None:
    """Return the risk at which a cloud admits a foreign job that fits; None if it refuses it."""
    if rule == "none":
        return 0.0
    if job.start_us < WARM_UP_US:
        return None
    if rule != "tenure":
        risk = plain_risk(rule, cloud, job, held_us)
        return risk if risk <= sla else None
    if cloud.closed_until_us is None and cloud.preempted > sla * cloud.admitted + CLOSED_BEYOND:
        cloud.closed_until_us = job.start_us + CLOSED_US
    if cloud.closed_until_us is not None:
        if job.start_us < cloud.closed_until_us:
            return None
        cloud.admitted, cloud.preempted, cloud.closed_until_us = 0, 0, None
    risk = plain_risk(rule, cloud, job, held_us)
    if risk <= USED_SHARE * sla:
        return risk
    if risk > MOST_RISK or cloud.admitted < POOLED_FROM:
        return None
    used = cloud.preempted + sum(one.risk for one in cloud.foreign) + risk
    return risk if used <= USED_SHARE * sla * (cloud.admitted + 1) else None


def _lost(
    moments: Sequence[int],
    peaks: Sequence[int],
    spare: int,
    length: int,
    ends: Sequence[tuple[int, int]],
    alive: list[int],
) -> float:
    """Return the estimated share of moments whose job is preempted on its path."""
    bounds, share = sorted({0, length} | {end for end, _ in ends if end < length}), 1.0
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
    cores: Mapping[str, int],
    jobs: Mapping[str, Sequence[Job]],
    rule: str,
    sla: float,
    bytes_per_s: int,
    train: float,
    bound: float = 1.0,
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
            _preempt(home, counts, job.all_cores)
            home.native.append((job.start_us + job.lifetime_us, job, counted))
            home.changes.append((job.start_us, home.use()))
            continue
        moved_us = -(-(job.input_bytes + job.output_bytes) * 1_000_000 // bytes_per_s)
        declared_us, held_us = round(job.lifetime_us * bound) + moved_us, job.lifetime_us + moved_us
        start_us = job.start_us
        away = PlainForeign(name, job, start_us + held_us, start_us + declared_us, born, counted, 0.0)
        is_remote = _runs_away([one for other, one in clouds.items() if other != name], away, rule, sla)
        count["remote" if is_remote else "rejected"] += counted
    _end_until(clouds, counts, 1 << 62)
    return counts


def _runs_away(hosts: Sequence[PlainCloud], away: PlainForeign, rule: str, sla: float) -> bool:
    """Let a host that has room and admits a job run it: the first, or by `tenure` that of the lowest risk.

    Return False if none does.
    """
    taken = None
    for host in hosts:
        if away.job.all_cores > host.free() or (taken is not None and rule != "tenure"):
            continue
        risk = plain_admitted_risk(rule, host, away.job, away.declared_us - away.job.start_us, sla)
        if risk is not None and (taken is None or risk < away.risk):
            taken, away.risk = host, risk
    if taken is None:
        return False
    taken.admitted += 1
    taken.foreign.append(away)
    return True


def _preempt(home: PlainCloud, counts: Mapping[str, dict[str, int]], cores: int) -> None:
    """End the youngest foreign job until there is room."""
    while cores > home.free():
        victim = max(home.foreign, key=lambda one: one.born)
        home.foreign.remove(victim)
        home.preempted += 1
        counts[victim.origin]["preempted"] += victim.counts


def _end_until(clouds: Mapping[str, PlainCloud], counts: Mapping[str, dict[str, int]], at_us: int) -> None:
    for name, cloud in clouds.items():
        for end_us, job, counted in sorted(cloud.native, key=lambda one: one[0]):
            if end_us <= at_us:
                cloud.native.remove((end_us, job, counted))
                cloud.changes.append((end_us, cloud.use()))
                counts[name]["native_work"] += counted * job.count * job.lifetime_us
        for one in [one for one in cloud.foreign if one.end_us <= at_us]:
            cloud.foreign.remove(one)
            counts[one.origin]["remote_work"] += one.counts * one.job.count * (one.end_us - one.job.start_us)
