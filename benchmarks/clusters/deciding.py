"""The time that the pure rule takes over 3,000 nodes and 10,000 jobs that wait. It needs no Slurm."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median

from app.clusters.rules.deciding import NodeState, SeenInstance, SeenJob, SeenNode, View, pool_of
from app.clusters.rules.reconciling import decide
from app.clusters.rules.wanted import ClusterWanted, PoolWanted, ScaleWanted
from benchmarks.clusters.lines import Line, Subcommand

NODES, JOBS, POOLS = 3_000, 10_000, 3
_BAR_MS = 50.0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=50)


def large_view() -> tuple[ClusterWanted, View]:
    """Return a cluster that is full: nine nodes in ten are busy, and only the jobs of one pool find idle ones."""
    pools = tuple(PoolWanted(name=f"p{at}", cloud="c", flavor="f", max_nodes=NODES) for at in range(POOLS))
    wanted = ClusterWanted(name="lab", shared="/lab", pools=pools, scale=ScaleWanted(max_nodes=NODES + 500))
    names = [f"lab-p{at % POOLS}-{at}" for at in range(NODES)]
    idle = {name for name in names[::10] if pool_of(name) == "p0"}
    nodes = {name: SeenNode(NodeState.IDLE if name in idle else NodeState.BUSY) for name in names}
    jobs = [SeenJob(str(at), tuple(pool.name for pool in pools[at % 2 :]), 1 + at % 2) for at in range(JOBS)]
    return wanted, View(dict.fromkeys(names, SeenInstance(500.0, 3600.0)), frozenset(names), nodes, jobs)


def decide_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield the times of a decision, by the clock and by what it takes of a core."""
    wanted, view = large_view()
    wall_ms, core_ms = [], []
    for _ in range(asked.times):
        began_s, began_core_s = time.perf_counter(), time.process_time()
        actions = decide(wanted, view)
        wall_ms.append(1000 * (time.perf_counter() - began_s))
        core_ms.append(1000 * (time.process_time() - began_core_s))
    yield Line("actions", len(actions), 1)
    yield Line("a decision, ms of a core: median", median(core_ms), 0, _BAR_MS)
    yield Line("a decision, ms by the clock: median", median(wall_ms))
    yield Line("a decision, ms by the clock: shortest", min(wall_ms))


SUBCOMMANDS = {"decide": Subcommand("how long a decision on 3,000 nodes and 10,000 jobs takes", _options, decide_lines)}
