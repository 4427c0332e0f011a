"""Blows: the manager is killed at points between its calls and by the clock, and Slurm and the service are, too."""

from __future__ import annotations

import argparse
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from statistics import median

from benchmarks.clusters.lab import UNSAVED_S, Forked, Lab, lab_at, wait
from benchmarks.clusters.lines import Line, Subcommand
from benchmarks.clusters.starting import place_of, place_options
from benchmarks.clusters.watching import Watch, invariant_lines
from tenure_client import ClientError

NODES = (3, 5)
JOBS = 30
_JOB_S = (0.2, 3.0)
_MOST_DEEDS, _MOST_POINTS = 40, 120
_LIFE_S = 6.0
"""A manager that takes rounds for so long without coming to its point is killed then."""
_CLOCK_SHARE = 0.25
_BEGINS_S, _ENDS_S = 60.0, 240.0
_CONVERGED_S = 30.0
"""After a kill of Slurm's controller all jobs, of 3 s at most, have ended by then, and their nodes are gone."""


def _options(parser: argparse.ArgumentParser) -> None:
    place_options(parser)
    parser.add_argument("--times", type=int, default=20, help="blows")
    parser.add_argument("--seed", type=int, default=0)


class Queue:
    """Keeps jobs coming, at most thirty at a time; one in eight takes two nodes."""

    def __init__(self, lab: Lab, draw: random.Random) -> None:
        self._lab, self._draw = lab, draw
        self.jobs: set[str] = set()

    def fill(self, most: int, *options: str) -> None:
        """Submit up to so many more jobs."""
        for _ in range(min(most, JOBS - len(self.jobs - self._lab.done()))):
            pair = ["-N", "2", "-p", "spot"] if self._draw.random() < 0.125 else []
            self.jobs.add(self._lab.submit(round(self._draw.uniform(*_JOB_S), 1), *pair, *options))

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
        wait(lab.is_managing, _BEGINS_S, "a manager")
        time.sleep(draw.uniform(0.0, 4.0))
        lab.kill_manager()
        return True
    kind, most = draw.choice([("deed", _MOST_DEEDS), ("deed", _MOST_DEEDS), ("any", _MOST_POINTS)])
    manager = lab.manage(f"{kind}:{draw.randint(1, most)}")
    wait(lab.is_managing, _BEGINS_S, "a manager")
    try:
        manager.wait(_LIFE_S)
    except TimeoutError:
        lab.kill_manager()
        return True
    return False


def controller_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what holds after Slurm's controller was killed so often, within a second of a job's start.

    Slurm writes its state each five seconds. What was submitted since then is lost with its controller, so jobs are
    submitted some seconds before they may begin; what has begun since then runs again.
    """
    draw = random.Random(asked.seed)
    with lab_at(place_of(asked), NODES) as lab, Watch(lab) as watch:
        lab.manage()
        queue, took_s = Queue(lab, draw), list[float]()
        for _ in range(asked.times):
            before = queue.jobs.copy()
            queue.fill(8, f"--begin=now+{UNSAVED_S:.0f}")
            new = queue.jobs - before
            wait(lambda new=new: new & {ran.job for ran in lab.runs()}, 30, "a job that begins")  # type: ignore[misc]
            time.sleep(draw.uniform(0.0, 1.0))
            lab.kill_controller()
            took_s.append(queue.wait())
        yield Line("controllers killed", asked.times)
        yield Line("from a kill to all jobs ended and no node, s: median", median(took_s))
        yield Line("from a kill to all jobs ended and no node, s: longest", max(took_s), 0, _CONVERGED_S)
        yield from watch.lines()
        yield from invariant_lines(lab, queue.jobs)


def service_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what holds after the service and its PostgreSQL were gone for a while, so often, under jobs that run."""
    with lab_at(place_of(asked), NODES) as lab, Watch(lab) as watch:
        lab.manage()
        jobs, destroyed, took_s = set[str](), 0, list[float]()
        for _ in range(asked.times):
            new = {lab.submit(asked.seconds + 20) for _ in range(3)}
            jobs.update(new)
            wait(lambda new=new: new <= lab.running().keys(), 120, "three jobs that run")  # type: ignore[misc]
            nodes = lab.machines()
            lab.kill_service()
            waiting = lab.submit(1.0)
            time.sleep(asked.seconds)
            destroyed += len(nodes - lab.machines()) + len(new - lab.running().keys())
            lab.start_service()
            took_s.append(wait(lambda one=waiting: one in lab.done(), 120, "the job that waited"))  # type: ignore[misc]
            jobs.add(waiting)
            wait(lambda: jobs <= lab.done() and lab.is_empty(), _ENDS_S, "an empty cluster")
        yield Line("services killed with their PostgreSQL", asked.times)
        yield Line("nodes or jobs lost meanwhile", destroyed, 0, 0)
        yield Line("from a ready service to the end of a job submitted meanwhile, s", max(took_s), 0, 10)
        yield from watch.lines()
        yield from invariant_lines(lab, jobs)


def takeover_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield how long a second manager takes to exit, and one that stands by to take over after a kill of the first."""
    with lab_at(place_of(asked), NODES) as lab:
        first: Forked | subprocess.Popen[bytes] = lab.manage()
        wait(lab.is_managing, _BEGINS_S, "a manager")
        told = lab.folder / "standby.log"
        exits_s, codes, takes_s = list[float](), set[int](), list[float]()
        for _ in range(asked.times):
            began_s = time.monotonic()
            codes.add(lab.command("cluster", "run", str(lab.file)).returncode)
            exits_s.append(time.monotonic() - began_s)
            heir = lab.stand_by()
            time.sleep(10.0)
            assert (heir.poll(), told.read_text()) == (None, "")
            first.kill()
            takes_s.append(wait(lambda: "managing" in told.read_text(), _BEGINS_S, "a manager that takes over"))
            first = heir
        first.kill()
        yield Line("exit code of a second manager", max(codes), 3, 3)
        yield Line("until a second manager exits, s: longest", max(exits_s), 0, 5)
        yield Line("until one that stands by takes over after a kill, s: longest", max(takes_s), 0, 5)


def _service_options(parser: argparse.ArgumentParser) -> None:
    _options(parser)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the service is gone")


SUBCOMMANDS = {
    "service": Subcommand("the service and its PostgreSQL are killed", _service_options, service_lines),
    "takeover": Subcommand("a manager that stands by takes over", _options, takeover_lines),
    "crash": Subcommand("the manager is killed between any two of its calls", _options, crash_lines),
    "slurmctld": Subcommand("Slurm's controller is killed", _options, controller_lines),
}
