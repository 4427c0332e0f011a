"""The first case of the paper on EC3: 124 jobs on a cluster of 35 own nodes and 15 bought ones, from its text.

Stated there: 83 jobs of one node and 41 of two, of about one and about two hours; own nodes first, all nodes of a job
in one cloud; a node is started only if none is idle, and goes after 60 s without work if nothing is queued; boot times
(table 1, preconfigured); prices; 35 own nodes busy at 3 h 20 min, submissions less than a minute apart at 5 h 30 min,
three times of growing. Not stated, and so assumed, before any figure was seen: three bursts of a third of the jobs,
which begin at 0:00, 2:40 and 5:10 with a job every 120, 60 and 30 s; half of the jobs last 3,600 s, half 7,200 s, and
they are shuffled. On a spot node the job stands 160 s for a checkpoint in each hour of the node.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import NamedTuple

import numpy as np

SEQUENTIAL, PARALLEL = 83, 41
OWN, BOUGHT = "own", "bought"
MOST = {OWN: 35, BOUGHT: 15}
OWN_BOOT_S, ON_DEMAND_BOOT_S, SPOT_BOOT_S = 236, 277, 672
ON_DEMAND, SPOT = 0.087, 0.0081
IDLE_S, PAUSE_S, HOUR_S = 60, 160, 3600
PAPERS_TOTAL_S = 38_832
BURSTS = ((0, 41, 120), (9_600, 41, 60), (18_600, 42, 30))


@dataclass(eq=False)
class Node:
    """A node of a pool: since when it is paid, when it is ready, and since when it is idle; None: busy or booting."""

    pool: str
    bought_s: float
    ready_s: float
    idle_s: float | None = None
    has_run: bool = False


@dataclass(eq=False)
class Job:
    """A job with its wait, once it runs."""

    at_s: float
    nodes: int
    length_s: float
    wait_s: float = -1.0
    is_awaited: bool = False


class Figures(NamedTuple):
    """The row of table 2, and how many bought nodes never ran a job."""

    sequential_wait_s: float
    parallel_wait_s: float
    total_s: float
    cost: float
    bought: int
    in_vain: int


def drawn_jobs(seed: int, stretch: float = 1.0) -> list[Job]:
    """Return the jobs in the order of their submission, whose times are stretched."""
    random = np.random.default_rng(seed)
    sizes = random.permutation([1] * SEQUENTIAL + [2] * PARALLEL)
    lengths = random.permutation([HOUR_S, 2 * HOUR_S] * ((SEQUENTIAL + PARALLEL) // 2))
    times = [begin + at * every for begin, how_many, every in BURSTS for at in range(how_many)]
    rows = zip(times, sizes.tolist(), lengths.tolist(), strict=True)
    return [Job(at_s * stretch, nodes, float(length_s)) for at_s, nodes, length_s in rows]


class Cluster:
    """The queue and the nodes, event by event."""

    def __init__(self, jobs: list[Job], *, is_spot: bool, paid_s: int = HOUR_S) -> None:
        self._jobs, self._is_spot, self._paid_s = jobs, is_spot, paid_s
        self._nodes: list[Node] = []
        self._queue: list[Job] = []
        self._order = count()
        self._due = [(job.at_s, next(self._order), job) for job in jobs]
        self._now_s, self._ends_s, self._cost = 0.0, 0.0, 0.0
        self._bought, self._used = 0, 0
        heapq.heapify(self._due)

    def run(self) -> Figures:
        """Return the figures once all jobs have run and all nodes are gone."""
        while self._due:
            self._now_s, _, what = heapq.heappop(self._due)
            if isinstance(what, Job):
                self._queue.append(what)
            elif isinstance(what, Node):
                self._ready_or_idle(what)
            else:
                self._release(what[0])
            self._serve()
        one, two = (np.mean([job.wait_s for job in self._jobs if job.nodes == size]) for size in (1, 2))
        return Figures(float(one), float(two), self._ends_s, self._cost, self._bought, self._bought - self._used)

    def _later(self, at_s: float, what: object) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), what))  # type: ignore[misc]

    def _ready_or_idle(self, node: Node) -> None:
        if node in self._nodes:
            node.idle_s = self._now_s
            self._later(self._now_s + IDLE_S, (node,))

    def _release(self, node: Node) -> None:
        """Give back a node that has been idle long enough, if nothing is queued; else look again."""
        if node.idle_s is None or self._now_s - node.idle_s < IDLE_S:
            return
        if self._queue:
            self._later(self._now_s + IDLE_S, (node,))
            return
        self._nodes.remove(node)
        if node.pool == BOUGHT:
            paid_h = ceil((self._now_s - node.bought_s) / self._paid_s) * self._paid_s / HOUR_S
            self._cost += paid_h * (SPOT if self._is_spot else ON_DEMAND)

    def _serve(self) -> None:
        for job in [*self._queue]:
            pool = next((pool for pool in MOST if len(self._idle(pool)) >= job.nodes), None)
            if pool is not None:
                self._start(job, pool)
            elif not job.is_awaited:
                self._buy(job)

    def _idle(self, pool: str) -> list[Node]:
        return [node for node in self._nodes if node.pool == pool and node.idle_s is not None]

    def _start(self, job: Job, pool: str) -> None:
        self._queue.remove(job)
        job.wait_s = self._now_s - job.at_s
        taken = self._idle(pool)[: job.nodes]
        ends_s = max(self._end_s(node, job.length_s) for node in taken)
        self._ends_s = max(self._ends_s, ends_s)
        for node in taken:
            node.idle_s = None
            self._used += pool == BOUGHT and not node.has_run
            node.has_run = True
            self._later(ends_s, node)

    def _end_s(self, node: Node, length_s: float) -> float:
        """Return when a job ends on a node: on spot one pause at the end of each hour of the node's life."""
        ends_s = self._now_s + length_s
        if node.pool == BOUGHT and self._is_spot:
            hours = (ends_s - node.bought_s) // HOUR_S - (self._now_s - node.bought_s) // HOUR_S
            ends_s += PAUSE_S * hours
        return ends_s

    def _buy(self, job: Job) -> None:
        """Start the nodes that the job lacks, in the first cloud that may have so many."""
        for pool, most in MOST.items():
            if len(self._pool(pool)) + job.nodes <= most:
                job.is_awaited = True
                for _ in range(job.nodes):
                    node = Node(pool, self._now_s, self._now_s + self._boot_s(pool))
                    self._nodes.append(node)
                    self._bought += pool == BOUGHT
                    self._later(node.ready_s, node)
                return

    def _pool(self, pool: str) -> list[Node]:
        return [node for node in self._nodes if node.pool == pool]

    def _boot_s(self, pool: str) -> float:
        return OWN_BOOT_S if pool == OWN else SPOT_BOOT_S if self._is_spot else ON_DEMAND_BOOT_S


def table2(seeds: range) -> Iterator[tuple[Figures, Figures]]:
    """Yield the figures on demand and on spot for each shuffle of the jobs."""
    for seed in seeds:
        yield Cluster(drawn_jobs(seed), is_spot=False).run(), Cluster(drawn_jobs(seed), is_spot=True).run()


def costs_read_otherwise(seeds: range) -> dict[str, float]:
    """Return the mean cost on demand if it is read in other ways than the bar's: none of them is the paper's figure."""
    last_s = BURSTS[-1][0] + (BURSTS[-1][1] - 1) * BURSTS[-1][2]
    stretch = (PAPERS_TOTAL_S - 2 * HOUR_S - ON_DEMAND_BOOT_S) / last_s
    by_second = [Cluster(drawn_jobs(seed), is_spot=False, paid_s=1).run().cost for seed in seeds]
    stretched = [Cluster(drawn_jobs(seed, stretch), is_spot=False).run().cost for seed in seeds]
    return {
        "paid by the second": float(np.mean(by_second)),
        f"submissions stretched by {stretch:.2f} to end as late as the paper's may": float(np.mean(stretched)),
    }
