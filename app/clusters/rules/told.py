"""The state of a cluster as its manager told it: the fold of its events in their order.

Kinds that are unknown here are kept in the record and change nothing, so a newer manager may tell more. What is counted
is counted from the events that the service still keeps.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from app.clusters.rules.bids import BID_ENDED, ToldBid, ToldBids, told_end
from app.clusters.rules.deciding import NO_INSTANCE, pool_of
from app.domain.times import SECOND_US

Fact = str | int | float | bool | None
MOST_GONE = 2_000
"""Of nodes that are gone, and of jobs that ended, the newest are remembered."""
MOST_JOBS, MOST_NODES_THERE = 10_000, 2_000
"""Of jobs that are not over, and of nodes that are there, so many are remembered, the newest. Slurm has no more."""
_MOST_SERVERS = 100_000
MOST_MARKS = 200
MOST_REFUSALS = 200
OTHER = "other"
WHYS = ("hour", "threshold", "young", "hazard", "notice", "lease", "asked")
"""The reasons for a checkpoint that are counted by name; all others are counted together."""
CHECKPOINT_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
BOOT_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
CHECKPOINTS = {"job_checkpointed": "written", "checkpoint_failed": "failed", "job_asked_to_save": "asked"}
"""The kinds of events that tell of a checkpoint, with its result. `asked`: the job saves itself, and says no more."""


class NodeStage(StrEnum):
    """The life of a node: bought and not in Slurm yet, without a job, with one, under notice, given back or lost."""

    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    EVICTED = "evicted"
    GONE = "gone"


class JobStage(StrEnum):
    """The life of a job. It may wait again: its node was lost, and it was queued again."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class ToldEvent(NamedTuple):
    """An event as a manager told it."""

    seq: int
    at_us: int
    kind: str
    facts: Mapping[str, Fact]

    def text(self, name: str) -> str:
        """Return a fact as text; empty if it was not told."""
        fact = self.facts.get(name)
        return "" if fact is None else str(fact)

    def number(self, name: str) -> float | None:
        """Return a fact that is a number and not below 0; None if it was not told."""
        fact = self.facts.get(name)
        is_number = isinstance(fact, int | float) and not isinstance(fact, bool)
        return float(fact) if is_number and fact >= 0 else None  # type: ignore[arg-type,operator]


class JobMark(NamedTuple):
    """A moment in the life of a job, by the kind of its event."""

    at_us: int
    kind: str


class Refusal(NamedTuple):
    """A cloud's refusal to sell a node, and its reason."""

    at_us: int
    pool: str
    cloud: str
    why: str


@dataclass(slots=True)
class ToldNode:
    """A node: when it was bought and for what, when it joined Slurm, and how it ended."""

    name: str
    pool: str
    bought_us: int
    why: str
    ready_us: int | None = None
    evicted_us: int | None = None
    gone_us: int | None = None
    gone_why: str | None = None
    stage: NodeStage = NodeStage.BOOTING


@dataclass(slots=True)
class ToldJob:
    """A job. safe_us: the work up to then is kept; lost_s: work that had to be done again, so far.

    misfit: why no pool can ever hold it, with what would be accepted; None: one can.
    """

    job: str
    name: str
    pools: str
    seen_us: int
    pause_s: float | None = None
    stage: JobStage = JobStage.WAITING
    nodes: tuple[str, ...] = ()
    started_us: int | None = None
    safe_us: int | None = None
    ended_us: int | None = None
    end: str | None = None
    checkpoints: int = 0
    requeues: int = 0
    lost_s: float = 0.0
    lost_last_s: float = 0.0
    misfit: str | None = None
    marks: deque[JobMark] = field(default_factory=lambda: deque(maxlen=MOST_MARKS))


@dataclass(slots=True)
class LengthTally:
    """Lengths of time counted by upper bounds, as Prometheus does."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total_s: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, length_s: float) -> None:
        """Count a length."""
        self.counts[sum(length_s > bound for bound in self.bounds)] += 1
        self.total_s += length_s

    def cumulative(self) -> list[tuple[str, float]]:
        """Return how many are at most each bound, the last one without bound."""
        return [*zip([*map(str, self.bounds), "+Inf"], map(float, accumulate(self.counts)), strict=True)]


class ClusterPast:
    """All that is known of a cluster up to the event `seq`."""

    def __init__(self) -> None:
        self.seq = 0
        self.deleted_us: int | None = None
        """The time at which its owner deleted it; None: it is there."""
        self.nodes: dict[str, ToldNode] = {}
        self.jobs: dict[str, ToldJob] = {}
        self.bids = ToldBids()
        self.servers: dict[str, str] = {}
        """Nodes whose instance has an id of its own, as servers of OpenStack have, with that id."""
        self.refusals: deque[Refusal] = deque(maxlen=MOST_REFUSALS)
        self.checkpoints: Counter[tuple[str, str]] = Counter()
        self.restores: Counter[str] = Counter()
        self.orphans, self.lost_s = 0, 0.0
        self.checkpoint_s, self.boot_s = LengthTally(CHECKPOINT_S), LengthTally(BOOT_S)
        self._on: dict[str, dict[str, ToldJob]] = {}
        self._ordered: tuple[int, list[ToldJob]] = (0, [])
        self._over: dict[str, deque[str]] = {"nodes": deque(), "jobs": deque()}
        self._acts: dict[str, Callable[[ToldEvent], None]] = {
            "manager_started": self._created,
            "cluster_deleted": self._deleted,
            "node_bought": self._bought,
            "node_refused": self._refused,
            BID_ENDED: self._bid_ended,
            "node_made": self._made,
            "node_ready": self._ready,
            "node_drain": self._drained,
            "node_lost": self._gone,
            "node_released": self._gone,
            "eviction_confirmed": self._gone,
            "node_destroy": self._destroyed,
            "job_seen": self._seen,
            "job_started": self._started,
            "job_requeued": self._requeued,
            "job_impossible": self._judged,
            "job_possible": self._judged,
            "job_ended": self._ended,
            "job_restored": self._restored,
            "restore_failed": self._not_restored,
            **dict.fromkeys(CHECKPOINTS, self._checkpointed),
        }

    def add(self, events: Iterable[ToldEvent]) -> None:
        """Take in the next events."""
        for event in events:
            self.seq = event.seq
            act = self._acts.get(event.kind)
            if act is not None:
                act(event)

    def there(self) -> Iterator[ToldNode]:
        """Yield the nodes that are not gone."""
        return (node for node in self.nodes.values() if node.stage is not NodeStage.GONE)

    def in_order(self) -> list[ToldJob]:
        """Return the jobs, first those that are not over, then by number. Reckoned once for all that was told."""
        if self._ordered[0] != self.seq:
            jobs = sorted(self.jobs.values(), key=lambda job: (job.stage is JobStage.ENDED, len(job.job), job.job))
            self._ordered = self.seq, jobs
        return self._ordered[1]

    def _created(self, _event: ToldEvent) -> None:
        self.deleted_us = None

    def _deleted(self, event: ToldEvent) -> None:
        """Take what is not told to be over as over: a manager may have died before it told."""
        self.deleted_us = event.at_us
        for node in [*self.there()]:
            node.stage, node.gone_us, node.gone_why = NodeStage.GONE, event.at_us, "the cluster is deleted"
            self._forget("nodes", self.nodes, node.name)
        for job in [job for job in self.jobs.values() if job.stage is not JobStage.ENDED]:
            job.stage, job.ended_us, job.end, job.nodes, job.misfit = JobStage.ENDED, event.at_us, "cancelled", (), None
            self._forget("jobs", self.jobs, job.job)

    def _bought(self, event: ToldEvent) -> None:
        name = event.text("node")
        self.nodes[name] = ToldNode(name, pool_of(name), event.at_us, event.text("why"))
        for first in _too_many(self.nodes, MOST_NODES_THERE):
            del self.nodes[first]
        if instance := event.text("instance"):
            self.servers[name] = instance
            if len(self.servers) > _MOST_SERVERS:
                del self.servers[next(iter(self.servers))]
        if (bid := event.number("bid")) is not None:
            self.bids.bought(ToldBid(name, pool_of(name), event.at_us, bid, event.number("notice_s") or 0.0))

    def _bid_ended(self, event: ToldEvent) -> None:
        name, from_s, to_s = event.text("node"), event.number("from_s"), event.number("to_s")
        if from_s is not None and to_s is not None:
            self.bids.ended(told_end(name, pool_of(name), from_s, to_s, event.text("by")))

    def _refused(self, event: ToldEvent) -> None:
        self.refusals.append(Refusal(event.at_us, event.text("pool"), event.text("cloud"), event.text("why")))
        node = self.nodes.get(event.text("node"))
        if node is not None and node.stage is NodeStage.BOOTING:  # it was asked for, and never was
            del self.nodes[node.name]
            self.servers.pop(node.name, None)

    def _made(self, event: ToldEvent) -> None:
        node = self.nodes.get(event.text("node"))
        if node is None:
            self._bought(event)
        elif node.stage is NodeStage.GONE:
            node.stage, node.ready_us, node.gone_us, node.gone_why = NodeStage.BOOTING, None, None, None

    def _ready(self, event: ToldEvent) -> None:
        node = self.nodes.get(event.text("node"))
        if node is not None and node.ready_us is None:
            node.ready_us = event.at_us
            if node.stage is NodeStage.BOOTING:
                node.stage = NodeStage.IDLE
            self.boot_s.add(max(event.at_us - node.bought_us, 0) / SECOND_US)

    def _drained(self, event: ToldEvent) -> None:
        node = self.nodes.get(event.text("node"))
        if node is not None and event.text("why") == "evicted":
            node.stage, node.evicted_us = NodeStage.EVICTED, event.at_us
            for job in self._on.get(node.name, {}).values():
                job.marks.append(JobMark(event.at_us, event.kind))

    def _gone(self, event: ToldEvent) -> None:
        node = self.nodes.get(event.text("node"))
        if node is not None and node.stage is not NodeStage.GONE:
            node.stage, node.gone_us, node.gone_why = NodeStage.GONE, event.at_us, event.text("why")
            self._forget("nodes", self.nodes, node.name)

    def _destroyed(self, event: ToldEvent) -> None:
        self.orphans += event.text("why") == NO_INSTANCE
        self._gone(event)

    def _seen(self, event: ToldEvent) -> None:
        job = ToldJob(
            event.text("job"), event.text("name"), event.text("pools"), event.at_us, event.number("pause_s") or None
        )
        if job.job not in self.jobs:
            self._enter(job)

    def _started(self, event: ToldEvent) -> None:
        job = self._job(event)
        if job.stage is JobStage.RUNNING:
            self._set_back(job, event)
        self._leave(job)
        job.misfit = None
        job.stage, job.started_us, job.safe_us = JobStage.RUNNING, event.at_us, event.at_us
        job.nodes = tuple(event.text("node").split(","))
        for name in job.nodes:
            self._on.setdefault(name, {})[job.job] = job
        self._set_stage(job.nodes, NodeStage.IDLE, NodeStage.BUSY)

    def _requeued(self, event: ToldEvent) -> None:
        job = self._job(event)
        if job.stage is JobStage.RUNNING:
            self._set_back(job, event)
        self._leave(job)
        job.stage = JobStage.WAITING

    def _judged(self, event: ToldEvent) -> None:
        self._job(event).misfit = event.text("why") or None

    def _ended(self, event: ToldEvent) -> None:
        job = self._job(event)
        if job.stage is not JobStage.ENDED:
            self._leave(job)
            job.misfit = None
            job.stage, job.ended_us, job.end = JobStage.ENDED, event.at_us, event.text("state")
            self._forget("jobs", self.jobs, job.job)

    def _checkpointed(self, event: ToldEvent) -> None:
        job, why, result = self._job(event), event.text("why"), CHECKPOINTS[event.kind]
        self.checkpoints[why if why in WHYS else OTHER, result] += 1
        if result != "failed":
            job.safe_us, job.checkpoints = event.at_us, job.checkpoints + 1
        if (pause_s := event.number("pause_s")) is not None and result == "written":
            self.checkpoint_s.add(pause_s)

    def _restored(self, event: ToldEvent) -> None:
        """The work lost is told exactly here; what was reckoned when the job was queued again is put right."""
        job = self._job(event)
        self.restores["restored"] += 1
        if (lost_s := event.number("lost_s")) is not None:
            self._lose(job, lost_s - job.lost_last_s)
            job.lost_last_s = lost_s

    def _not_restored(self, event: ToldEvent) -> None:
        self._job(event)
        self.restores["failed"] += 1

    def _job(self, event: ToldEvent) -> ToldJob:
        """Return the job of an event, with the event among its marks."""
        name = event.text("job")
        if name not in self.jobs:
            self._enter(ToldJob(name, "", "", event.at_us))
        self.jobs[name].marks.append(JobMark(event.at_us, event.kind))
        return self.jobs[name]

    def _enter(self, job: ToldJob) -> None:
        self.jobs[job.job] = job
        for first in _too_many(self.jobs, MOST_JOBS):
            if first != job.job:
                self._leave(self.jobs.pop(first))

    def _set_back(self, job: ToldJob, event: ToldEvent) -> None:
        lost_s = event.number("lost_s")
        if lost_s is None:
            lost_s = max(event.at_us - (job.safe_us or event.at_us), 0) / SECOND_US
        job.requeues, job.lost_last_s = job.requeues + 1, lost_s
        self._lose(job, lost_s)

    def _lose(self, job: ToldJob, lost_s: float) -> None:
        job.lost_s, self.lost_s = job.lost_s + lost_s, self.lost_s + lost_s

    def _leave(self, job: ToldJob) -> None:
        self._set_stage(job.nodes, NodeStage.BUSY, NodeStage.IDLE)
        for name in job.nodes:
            self._on.get(name, {}).pop(job.job, None)
            if not self._on.get(name):
                self._on.pop(name, None)
        job.nodes = ()

    def _set_stage(self, nodes: Iterable[str], old: NodeStage, new: NodeStage) -> None:
        for name in nodes:
            node = self.nodes.get(name)
            if node is not None and node.stage is old:
                node.stage = new

    def _forget(self, what: str, kept: dict[str, ToldNode] | dict[str, ToldJob], name: str) -> None:
        """Forget the oldest of those that are over, if they are too many."""
        over = self._over[what]
        over.append(name)
        if len(over) > MOST_GONE:
            first = over.popleft()
            one = kept.get(first)
            if first not in over and one is not None and one.stage in _OVER:
                del kept[first]


def _too_many(kept: Mapping[str, ToldNode] | Mapping[str, ToldJob], most: int) -> list[str]:
    """Return the oldest that are not over, a tenth, if there are more than so many; else nothing."""
    if len(kept) <= most + MOST_GONE:
        return []
    return [name for name, one in kept.items() if one.stage not in _OVER][: most // 10]


_OVER = (NodeStage.GONE, JobStage.ENDED)
