"""The manager of a real cluster is killed at points between its calls, and so is Slurm; the benchmark does it oftener.

Skipped, with the reason, where Slurm or root is missing; `tools/lab-install` installs it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from benchmarks.clusters.crashing import NODES, Queue, evict_maybe, kill_once
from benchmarks.clusters.lab import Lab, Place, lab_at, wait, why_not
from benchmarks.clusters.watching import Watch, busy_nodes_given_back, invariant_lines

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_at(Place.free(), NODES, {"idle_s": 1}) as found:
        yield found


def failed_lines(lab: Lab, watch: Watch, jobs: set[str]) -> list[str]:
    return [line.name for line in [*watch.lines(), *invariant_lines(lab, jobs)] if not line.is_kept]


def test_managers_killed_at_their_calls_leave_no_orphan_and_no_double(lab: Lab) -> None:
    draw = random.Random(7)
    with Watch(lab) as watch:
        queue = Queue(lab, draw)
        for _ in range(5):
            queue.fill(3)
            evict_maybe(lab, draw)
            kill_once(lab, draw, is_by_clock=False)
        lab.manage()
        queue.wait()
    assert (lab.folder / "points").read_text()
    assert failed_lines(lab, watch, queue.jobs) == []


def test_a_controller_of_slurm_killed_at_a_jobs_start_costs_no_job(lab: Lab) -> None:
    with Watch(lab) as watch:
        queue = Queue(lab, random.Random(8))
        queue.fill(2)
        wait(lab.running, 60, "a job that runs")
        lab.kill_controller()
        queue.wait()
    assert failed_lines(lab, watch, queue.jobs) == []


def test_a_second_manager_exits_and_one_takes_over_after_a_kill(lab: Lab) -> None:
    began_s = time.monotonic()
    second = lab.command("cluster", "run", str(lab.file))
    assert (second.returncode, time.monotonic() - began_s < 20) == (3, True)
    assert "another manager" in second.stderr
    lab.kill_manager()
    queue = Queue(lab, random.Random(9))
    queue.fill(1)
    lab.manage()
    queue.wait()
    assert busy_nodes_given_back(lab) == []
