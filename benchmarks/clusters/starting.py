"""The time in which nodes come and go."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.clusters.lab import Lab, Place, lab_at, wait
from benchmarks.clusters.lines import Line, Subcommand
from benchmarks.clusters.watching import busy_nodes_given_back

_IDLE_S = 5


def place_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the cluster stands."""
    free = Place.free()
    parser.add_argument("--name", default=free.name, help="of the cluster")
    parser.add_argument("--port", type=int, default=free.port, help="of Slurm's controller")
    parser.add_argument("--subnet", default=free.subnet, help="of the machines")


def place_of(asked: argparse.Namespace) -> Place:
    """Return where the cluster stands."""
    return Place(asked.name, asked.port, asked.subnet)


def _options(parser: argparse.ArgumentParser) -> None:
    place_options(parser)
    parser.add_argument(
        "--times", type=int, default=20, help="jobs on an empty cluster, and rounds of ten jobs a fifth"
    )


def start_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield the times from `sbatch` to a running job, and from an idle node to none."""
    with lab_at(place_of(asked), (3, 8)) as lab:
        lab.manage()
        wait(lab.is_managing, 60, "a manager")
        began_s, gone_s = zip(*(one_job(lab) for _ in range(asked.times)), strict=True)
        yield Line("from sbatch to a running job, s: median", median(began_s), 0, 3)
        yield Line("from sbatch to a running job, s: longest", max(began_s))
        yield Line("from a job's end to no node anywhere, s: median", median(gone_s))
        yield Line("from a job's end to no node anywhere, s: longest", max(gone_s), _IDLE_S, _IDLE_S + 3)
        tens = [ten_jobs(lab) for _ in range(max(asked.times // 5, 1))]
        yield Line("ten jobs on two pools all run, s: median", median(took_s for took_s, _ in tens), 0, 6)
        yield Line("ten jobs on two pools all run, s: longest", max(took_s for took_s, _ in tens))
        yield Line("nodes of the first pool, of three: least", min(count for _, count in tens), 3, 3)
        yield Line("busy nodes given back", len(busy_nodes_given_back(lab)), 0, 0)


def one_job(lab: Lab) -> tuple[float, float]:
    """Return how long a job on an empty cluster took to run, and its node to go after it."""
    at_s = time.time()
    job = lab.submit(0.5)
    wait(lambda: job in lab.done(), 60, "a job's end")
    (ran,) = [ran for ran in lab.runs() if ran.job == job]
    wait(lab.is_empty, 60, "an empty cluster")
    assert ran.ended_s is not None
    return ran.began_s - at_s, time.time() - ran.ended_s


def ten_jobs(lab: Lab) -> tuple[float, int]:
    """Return how long ten jobs took until all ran, and how many of their nodes are of the first pool."""
    at_s = time.time()
    jobs = {lab.submit(15) for _ in range(10)}
    wait(lambda: jobs <= {ran.job for ran in lab.runs()}, 60, "ten jobs that run")
    runs = [ran for ran in lab.runs() if ran.job in jobs]
    wait(lambda: jobs <= lab.done(), 90, "ten jobs that end")
    wait(lab.is_empty, 60, "an empty cluster")
    return max(ran.began_s for ran in runs) - at_s, sum(ran.node.split("-")[1] == "own" for ran in runs)


SUBCOMMANDS = {
    "start": Subcommand("from sbatch to a running job, and from an idle node to none", _options, start_lines)
}
