"""Blows: the manager is killed at points between its calls and by the clock, and Slurm and the service are, too."""

from __future__ import annotations

import argparse
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.clusters.lab import Lab, lab_at, wait
from benchmarks.clusters.lines import Line, Subcommand
from benchmarks.clusters.starting import place_of, place_options
from benchmarks.clusters.watching import Watch, invariant_lines
from tenure_client import ClientError

NODES = (3, 5)
JOBS = 30
_JOB_S = (0.2, 3.0)
_MOST_DEEDS, _MOST_POINTS = 40, 120
_LIFE_S = 8.0
"""A manager that has not come to its point by then is killed there."""
_CLOCK_SHARE = 0.25
_ENDS_S = 240.0


def _options(parser: argparse.ArgumentParser) -> None:
    place_options(parser)
    parser.add_argument("--times", type=int, default=20, help="blows")
    parser.add_argument("--seed", type=int, default=0)


class Queue:
    """Keeps jobs coming, at most thirty at a time; one in eight takes two nodes."""

    def __init__(self, lab: Lab, draw: random.Random) -> None:
        self._lab, self._draw = lab, draw
        self.jobs: set[str] = set()

    def fill(self, most: int) -> None:
        """Submit up to so many more jobs."""
        for _ in range(min(most, JOBS - len(self.jobs - self._lab.done()))):
            pair = ["-N", "2", "-p", "spot"] if self._draw.random() < 0.125 else []
            self.jobs.add(self._lab.submit(round(self._draw.uniform(*_JOB_S), 1), *pair))

    def wait(self) -> float:
        """Wait until all have ended and nothing is left; return how long it took."""
        jobs, lab = self.jobs, self._lab
        return wait(lambda: jobs <= lab.done() and lab.is_empty(), _ENDS_S, f"the end of {sorted(jobs - lab.done())}")


def crash_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what holds after the manager was killed so often. Nodes are evicted meanwhile, and idle for a second."""
    draw = random.Random(asked.seed)
    with lab_at(place_of(asked), NODES, {"idle_s": 1}) as lab, Watch(lab) as watch:
        queue, by_clock = Queue(lab, draw), 0
        queue.fill(JOBS)
        for number in range(asked.times):
            queue.fill(draw.randint(0, 6))
            evict_maybe(lab, draw)
            by_clock += kill_once(lab, draw, is_by_clock=number < asked.times * _CLOCK_SHARE)
        lab.manage()
        took_s = queue.wait()
        points = (lab.folder / "points").read_text().splitlines()
        yield Line("managers killed", asked.times)
        yield Line("of these by the clock", by_clock)
        yield Line("different points", len(set(points)))
        yield Line("jobs", len(queue.jobs))
        yield Line("from the last start of a manager to an empty cluster, s", took_s)
        yield from watch.lines()
        yield from invariant_lines(lab, queue.jobs)


def evict_maybe(lab: Lab, draw: random.Random) -> None:
    """Evict the youngest spot node, at one of five managers."""
    if draw.random() < 0.2:
        with suppress(ClientError):
            lab.client.drill("spare")


def kill_once(lab: Lab, draw: random.Random, *, is_by_clock: bool) -> bool:
    """Start a manager and kill it; tell if the clock killed it."""
    if is_by_clock:
        lab.manage()
        time.sleep(draw.uniform(0.5, 5.0))
        lab.kill_manager()
        return True
    kind, most = draw.choice([("deed", _MOST_DEEDS), ("deed", _MOST_DEEDS), ("any", _MOST_POINTS)])
    manager = lab.manage(f"{kind}:{draw.randint(1, most)}")
    try:
        manager.wait(_LIFE_S)
    except subprocess.TimeoutExpired:
        lab.kill_manager()
        return True
    return False


def controller_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what holds after Slurm's controller was killed so often, at times within a second of a job's start."""
    draw = random.Random(asked.seed)
    with lab_at(place_of(asked), NODES) as lab, Watch(lab) as watch:
        lab.manage()
        queue, took_s = Queue(lab, draw), list[float]()
        for _ in range(asked.times):
            queue.fill(8)
            begun = len(lab.runs())
            with suppress(TimeoutError):
                wait(lambda begun=begun: len(lab.runs()) > begun, 10, "a job that begins")  # type: ignore[misc]
            time.sleep(draw.uniform(0.0, 1.0))
            lab.kill_controller()
            took_s.append(queue.wait())
        yield Line("controllers killed", asked.times)
        yield Line("from a kill to all jobs ended and no node, s: longest", max(took_s))
        yield from watch.lines()
        yield from invariant_lines(lab, queue.jobs)


SUBCOMMANDS = {
    "crash": Subcommand("the manager is killed between any two of its calls", _options, crash_lines),
    "slurmctld": Subcommand("Slurm's controller is killed", _options, controller_lines),
}
