"""Jobs that know nothing of checkpoints survive the loss of their machine: real CRIU, real Slurm, real evictions.

The same blows as `python -m benchmarks.clusters kills`, `evictions` and `publish`, a few of each. Skipped, with the
reason, where Slurm, CRIU or root is missing; `tools/lab-install` installs them.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.managing.checkpointing.folders import JobFolder
from app.managing.programs import ProgramFailed
from benchmarks.clusters.chains import Chain, ChainJob, told_by, why_no_checkpoints
from benchmarks.clusters.lab import Lab, Place, wait, why_not
from benchmarks.clusters.surviving import evict_once, kill_once, managed_lab
from benchmarks.clusters.writing import JOB_COMMAND, LoneJob, lone_job, publish

NO_CRIU = why_no_checkpoints()
NO_CLUSTER = why_not()
pytestmark = [pytest.mark.real_parts, pytest.mark.skipif(bool(NO_CRIU), reason=NO_CRIU)]
needs_cluster = pytest.mark.skipif(bool(NO_CLUSTER), reason=NO_CLUSTER)
SMALL = Chain(20, 60, 0.25)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with managed_lab(Place.free()) as found:
        yield found


@needs_cluster
def test_a_job_goes_on_from_its_checkpoint_when_its_machine_dies(lab: Lab) -> None:
    found = kill_once(lab, random.Random(3), SMALL)
    assert found.is_right
    assert found.generation >= 1
    assert found.lost_s <= found.since_s + SMALL.seconds


@needs_cluster
def test_an_eviction_with_a_notice_costs_no_work(lab: Lab) -> None:
    found = evict_once(lab, 0, SMALL)
    assert found.is_right
    assert (found.is_saved, found.lost) == (True, 0)
    assert found.early_s > 0
    assert found.ready_s > 0


def stall(writer: subprocess.Popen[bytes], job: ChainJob) -> None:
    """Let a save stand still once it has begun to write, as on storage that hangs: no machine is too fast for that."""
    images, dumping = str(job.folder.path / "2" / "images"), list[psutil.Process]()
    while not dumping:
        assert writer.poll() is None, "the save ended before it could be stalled"
        running = psutil.process_iter(["cmdline"])
        dumping = [one for one in running if {"dump", images} <= set(one.info["cmdline"] or ())]
    dumping[0].suspend()


@needs_cluster
def test_a_checkpoint_that_a_notice_leaves_no_time_for_is_abandoned(lab: Lab) -> None:
    lab.client.change_policy("spare", {"grace_s": 3})
    job = ChainJob(lab, Chain(400, 40, 0.25), "-p", "spot")
    job.wait_for_links(4)
    job.save()
    node = job.node()
    writer = job.begin_save()
    stall(writer, job)
    surge = lab.client.start("spare", "surge-short", "on_demand", "one")
    wait(lambda: not Path("/run/netns", node).exists(), 10, "the machine goes")
    writer.send_signal(signal.SIGCONT)  # nsenter stops with what it has started
    assert writer.wait(30) != 0
    assert (job.folder.published(), job.folder.last()) == ([1], 1)
    wait(lambda: not [*lab.client.handovers("spare")], 10, "the hand-over ends")
    assert surge.ready_at is not None
    confirmed = [one.at for one in lab.events("spare") if one.kind == "eviction_confirmed"]
    assert confirmed[-1] <= surge.ready_at
    lab.client.stop("spare", "surge-short")
    job.wait_for_end()
    assert job.is_right()
    assert [one["generation"] for one in job.events("job_restored")] == [1]
    lab.client.change_policy("spare", {"grace_s": 30})


@needs_cluster
def test_a_job_whose_checkpoints_cannot_be_restored_is_held_and_told(lab: Lab) -> None:
    job = ChainJob(lab, Chain(10, 400, 0.25), "-p", "own")
    job.wait_for_links(2)
    for _ in range(3):
        assert job.begin_save(keep=3).wait(30) == 0
    for generation in job.folder.published():
        spoil(job.folder, generation)
    lab.strike(job.node())
    wait(lambda: job.events("job_held"), 90, "the job is held")
    assert [one["generation"] for one in job.events("restore_failed")] == [3, 2, 1]
    wait(lambda: "held" in lab.slurm("squeue", "-h", "-j", job.job, "-o", "%r").lower(), 30, "Slurm holds it")
    bought = [one["kind"] for one in told_by(lab)].count("node_bought")
    wait(lambda: not lab.machines(), 60, "its node goes")
    assert [one["kind"] for one in told_by(lab)].count("node_bought") == bought
    lab.slurm("scancel", job.job)


@needs_cluster
def test_a_person_may_ask_for_a_checkpoint(lab: Lab) -> None:
    job = ChainJob(lab, Chain(10, 200, 0.25), "-p", "own")
    job.wait_for_links(2)
    told = lab.command("cluster", "checkpoint", str(lab.file), job.job, "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["job"], found["generation"]) == (job.job, 1)
    assert found["image_bytes"] > 10_000_000
    assert 0 < found["pause_s"] <= found["write_s"]
    wait(lambda: job.events("job_checkpointed"), 10, "it is told")
    assert job.events("job_checkpointed")[0]["why"] == "asked"
    lab.slurm("scancel", job.job)
    wait(lambda: not job.node(), 30, "the job ends")
    with pytest.raises(ProgramFailed, match=r"has ended|does not run under tenure-job"):
        job.save()


def spoil(folder: JobFolder, generation: int) -> None:
    """Change a byte in the middle of an image."""
    path = folder.images(generation) / "pages-1.img"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def told_of(job: LoneJob) -> list[dict[str, Any]]:
    return [*job.folder.take_told()]


def kinds(told: list[dict[str, Any]]) -> list[tuple[str, object]]:
    return [(one["kind"], one.get("generation")) for one in told if one["kind"] != "job_checkpointed"]


def test_a_spoilt_checkpoint_is_refused_and_the_one_before_it_taken() -> None:
    with lone_job(Chain(10, 40, 0.2)) as job:
        job.wait_for_links(2)
        job.save()
        job.save()
        spoil(job.folder, 2)
        job.lose()
        job.run()
        assert job.end() == 0
        assert job.is_right()
        told = told_of(job)
        assert kinds(told) == [("restore_failed", 2), ("job_restored", 1)]
        assert "pages-1.img is damaged" in next(one["error"] for one in told if one["kind"] == "restore_failed")


def test_without_a_checkpoint_that_fits_this_processor_a_job_begins_again_and_writes_each_line_once() -> None:
    with lone_job(Chain(10, 40, 0.2)) as job:
        job.wait_for_links(2)
        job.save()
        path = job.folder.path / "1/manifest.json"
        forged = json.loads(path.read_text())
        path.write_text(json.dumps(forged | {"flags": forged["flags"] + " quantum"}))
        job.lose()
        job.run()
        assert job.end() == 0
        assert job.is_right()
        told = told_of(job)
        assert kinds(told) == [("restore_failed", 1), ("job_from_start", None)]
        assert "this processor lacks quantum" in {one.get("error") for one in told}


def test_a_job_that_had_ended_is_not_run_again() -> None:
    with lone_job(Chain(1, 3, 0.0)) as job:
        assert job.end() == 0
        job.run()
        assert job.end() == 0
        assert job.is_right()


def test_a_job_that_saves_itself_at_a_signal_goes_on_as_well() -> None:
    with lone_job(Chain(10, 40, 0.2, saves=True), driver="signal") as job:
        job.wait_for_links(4)
        made = job.save()
        assert made.driver == "signal"
        job.wait_for_links(10)
        job.lose()
        job.run()
        assert job.end() == 0
        assert job.is_right()
        assert kinds(told_of(job)) == [("job_restored", 1)]


def test_killed_writers_never_leave_a_checkpoint_that_is_not_whole() -> None:
    found = publish(8, seed=5)
    assert (found.broken, found.is_right) == (0, True)


@pytest.mark.parametrize(
    ("program", "code", "says"),
    [
        ([sys.executable, "-c", "import time; time.sleep(60)"], 0, "can be checkpointed: "),
        (["true"], 1, "it had ended after"),
        (
            [sys.executable, "-c", "import socket, time; s = socket.socketpair(); time.sleep(60)"],
            0,
            "can be checkpointed: ",
        ),
        (
            [
                sys.executable,
                "-c",
                "import socket as s, time; a = s.create_server(('127.0.0.1', 0)); "
                "b = s.create_connection(a.getsockname()); time.sleep(60)",
            ],
            1,
            "cannot be checkpointed: criu: ",
        ),
    ],
)
def test_a_program_can_be_tried_before_it_is_submitted(program: list[str], code: int, says: str) -> None:
    command = [*JOB_COMMAND, "/nowhere", "--check", "--after", "1", *program]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (code, "")
    assert told.stdout.startswith(says)


def test_tenure_job_outside_of_a_job_says_so() -> None:
    told = subprocess.run([*JOB_COMMAND, "/nowhere", "true"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "run it in a batch script" in told.stderr
