"""The manager of a real cluster is killed at points between its calls, and so is Slurm; the benchmark does it oftener.

Skipped, with the reason, where Slurm or root is missing; `tools/lab-install` installs it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from benchmarks.clusters.crashing import NODES, Queue, evict_maybe, kill_once
from benchmarks.clusters.lab import UNSAVED_S, Lab, Place, lab_at, wait, why_not
from benchmarks.clusters.watching import Watch, busy_nodes_given_back, invariant_lines

REASON = why_not()
pytestmark = [pytest.mark.real_parts, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_at(Place.free(), NODES, {"idle_s": 1}) as found:
        yield found


def managed(lab: Lab) -> None:
    """Start a manager, if none runs."""
    if lab.manager is None or lab.manager.poll() is not None:
        lab.manage()
    wait(lab.is_managing, 60, "a manager")


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
    managed(lab)
    with Watch(lab) as watch:
        queue = Queue(lab, random.Random(8))
        queue.fill(4, f"--begin=now+{UNSAVED_S:.0f}")  # Slurm loses those that it has not written
        wait(lab.running, 60, "a job that runs")
        lab.kill_controller()
        assert queue.wait() < 45
    assert failed_lines(lab, watch, queue.jobs) == []


def test_a_daemon_of_slurms_that_hangs_is_started_anew_and_costs_no_job(lab: Lab) -> None:
    managed(lab)
    events = lab.cluster.events
    with Watch(lab) as watch:
        queue = Queue(lab, random.Random(9))
        for daemon, pid_file in (("munged", "munge/pid"), ("slurmctld", "run/slurmctld.pid")):
            queue.fill(3)
            wait(lab.running, 60, "a job that runs")
            time.sleep(UNSAVED_S)
            os.kill(int((lab.folder / "slurm" / pid_file).read_text()), signal.SIGSTOP)
            wait(
                lambda name=daemon: any(one.get("daemon") == name for one in events.newest()), 120, f"{daemon} is ended"
            )
            assert queue.wait() < 60
    assert failed_lines(lab, watch, queue.jobs) == []


def test_a_second_manager_exits_and_one_takes_over_after_a_kill(lab: Lab) -> None:
    managed(lab)
    began_s = time.monotonic()
    second = lab.command("cluster", "run", str(lab.file))
    assert (second.returncode, time.monotonic() - began_s < 20) == (3, True)
    assert second.stderr == f"tenure: another manager of '{lab.place.name}' runs\n"
    lab.kill_manager()
    queue = Queue(lab, random.Random(9))
    queue.fill(1)
    lab.manage()
    queue.wait()
    lab.kill_manager()
    assert busy_nodes_given_back(lab) == []


def test_a_second_cluster_of_the_same_name_is_refused(lab: Lab) -> None:
    managed(lab)
    folder = lab.folder / "other"
    folder.mkdir()
    file = folder / "cluster.toml"
    file.write_text(lab.file.read_text().replace(f'shared = "{lab.folder}"', f'shared = "{folder}"'))
    job = lab.submit(5)
    wait(lambda: job in lab.running(), 60, "a job that runs")
    refused = lab.command("cluster", "create", str(file))
    assert (refused.returncode, str(lab.folder) in refused.stderr) == (3, True)
    assert "give this one another name" in refused.stderr
    assert lab.command("cluster", "run", str(file)).returncode == 2
    assert lab.command("cluster", "delete", str(file), "--yes").returncode == 2
    assert not (folder / "slurm").exists()
    wait(lambda: job in lab.done(), 60, "its end")
    assert len([ran for ran in lab.runs() if ran.job == job]) == 1


def test_a_node_whose_pool_has_left_the_file_is_given_back(lab: Lab) -> None:
    managed(lab)
    job = lab.submit(8, "-p", "own")
    wait(lambda: job in lab.running(), 60, "a job that runs")
    lab.kill_manager()
    before = lab.file.read_text()
    try:
        lab.file.write_text(before.replace('name = "own"', 'name = "mine"'))
        managed(lab)
        wait(lambda: job in lab.done(), 60, "its end")
        wait(lab.is_empty, 60, "an empty cluster")
    finally:
        lab.kill_manager()
        lab.file.write_text(before)
    assert busy_nodes_given_back(lab) == []


def test_a_running_manager_follows_the_file_and_a_drained_cluster_ends_its_jobs(lab: Lab) -> None:
    def ask(*arguments: str) -> None:
        done = lab.command("cluster", *arguments)
        assert done.returncode == 0, done.stderr

    managed(lab)
    wait(lab.is_empty, 60, "an empty cluster")
    ask("set", str(lab.file), "--max-nodes", "1")
    first, second = lab.submit(8), lab.submit(0.2)
    wait(lambda: first in lab.running(), 60, "a job that runs")
    ask("drain", str(lab.file))
    wait(lambda: first in lab.done(), 60, "its end")
    wait(lab.is_empty, 60, "an empty cluster")
    assert second not in lab.done()
    status = lab.command("cluster", "status", str(lab.file))
    assert "own: 0 nodes of 3, on_demand in small" in status.stdout
    assert "drained: nothing is bought" in status.stdout
    ask("drain", str(lab.file), "--undo")
    wait(lambda: second in lab.done(), 60, "the other job's end")
    assert lab.machines() <= {ran.node for ran in lab.runs()}
    assert busy_nodes_given_back(lab) == []
