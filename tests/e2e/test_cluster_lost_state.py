"""Jobs under `tenure-job` when Slurm's controller dies before it has written its state, or a node is cut off from it.

Skipped, with the reason, where Slurm, CRIU or root is missing; `tools/lab-install` installs them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from app.managing.checkpointing.placing import launcher_of
from app.managing.programs import run
from benchmarks.clusters.chains import Chain, ChainJob, told_by, why_no_checkpoints
from benchmarks.clusters.lab import UNSAVED_S, Lab, Place, lab_at, wait, why_not

REASON = why_not() or why_no_checkpoints()
pytestmark = [pytest.mark.real_parts, pytest.mark.skipif(bool(REASON), reason=REASON)]
STARTS_S = 60


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_at(Place.free(), (2, 1), {"idle_s": 600}) as found:
        yield found


@pytest.fixture
def warm(lab: Lab) -> Lab:
    """Give the lab with a manager and two idle nodes."""
    if lab.manager is None or lab.manager.poll() is not None:
        lab.manage()
    if left := lab.slurm("squeue", "-h", "-o", "%i").split():
        lab.slurm("scancel", *left)
    jobs = {lab.submit(3, "-p", "own") for _ in range(2)}
    wait(lambda: jobs <= lab.done(), STARTS_S, "two nodes that work")
    wait(lambda: not lab.slurm("squeue", "-h"), STARTS_S, "an empty queue")
    return lab


def just_written(lab: Lab) -> None:
    """Let Slurm write its state; the next five seconds are lost with its controller."""
    time.sleep(UNSAVED_S)
    lab.slurm("scancel", wrapped(lab, "true", "-H"))
    time.sleep(2.0)


def saved_and_lost(lab: Lab) -> ChainJob:
    """Return a job with a checkpoint that Slurm has forgotten: where all that took too long, it is tried again."""
    for _ in range(4):
        just_written(lab)
        job = ChainJob(lab, Chain(10, 400, 0.1), "-p", "own")
        job.wait_for_links(3, 20)
        job.save()
        restarted(lab)
        if job.job not in lab.slurm("squeue", "-h", "-o", "%i").split():
            return job
        lab.slurm("scancel", job.job)
        wait(lambda: not lab.slurm("squeue", "-h"), STARTS_S, "an empty queue")
    raise AssertionError("Slurm had written its state each time")


def wrapped(lab: Lab, script: str, *options: str) -> str:
    common = ["--parsable", "--requeue", "-p", "own", "-o", f"{lab.folder}/out-%j", *options]
    return lab.slurm("sbatch", *common, "--wrap", script).strip()


def output(lab: Lab, job: str) -> str:
    path = lab.folder / f"out-{job}"
    return path.read_text() if path.exists() else ""


def restarted(lab: Lab) -> None:
    """Kill Slurm's controller, and wait until the manager has started it again."""
    before = [one["kind"] for one in told_by(lab)].count("slurm_started")
    lab.kill_controller()
    wait(lambda: [one["kind"] for one in told_by(lab)].count("slurm_started") > before, 60, "a new controller")
    wait(lab.cluster.slurm.answers, 60, "it answers")


def test_a_reused_number_is_another_job(warm: Lab) -> None:
    lab = warm
    lost = saved_and_lost(lab)
    program = f"{launcher_of(lab.cluster.wanted)} sh -c 'echo the second begins; sleep 2; echo it ends'"
    while int(job := wrapped(lab, program)) < int(lost.job):
        pass
    assert job == lost.job
    wait(lambda: "it ends" in output(lab, job), STARTS_S, "the end of the second job")
    assert output(lab, job).endswith("the second begins\nit ends\n")
    wait(lambda: lost.events("job_set_aside"), 10, "it is told")
    assert not lost.events("job_restored")
    assert (lost.folder.path.parent / f"{job}.old-1/1/manifest.json").exists()


def test_a_job_that_had_succeeded_has_succeeded_after_slurms_death_too(warm: Lab) -> None:
    lab = warm
    marks = lab.folder / "marks"
    program = f"{launcher_of(lab.cluster.wanted)} sh -c 'echo ran >>{marks}; sleep 1'"
    job = wrapped(lab, program, f"--begin=now+{UNSAVED_S + 3:.0f}")
    other = wrapped(lab, f"echo after >>{marks}", f"--dependency=afterok:{job}")
    just_written(lab)
    record = lab.folder / "slurm/log/ends.txt"
    wait(lambda: f"end {job} " in record.read_text(), 15, "the end of the job")
    restarted(lab)
    wait(lambda: "after" in marks.read_text(), 120, "the job that waited for it")
    assert marks.read_text() == "ran\nafter\n"
    wait(lambda: f"end {other} " in record.read_text(), 30, "the end of the other one")
    assert f"end {job} FAILED" not in record.read_text()


def test_a_cancellation_outlives_slurms_death(warm: Lab) -> None:
    lab = warm
    job = wrapped(lab, f"{launcher_of(lab.cluster.wanted)} sh -c 'echo runs; sleep 300'")
    wait(lambda: output(lab, job), STARTS_S, "the job runs")
    just_written(lab)
    lab.slurm("scancel", job)
    wait(lambda: job not in lab.running(), 10, "it ends")
    restarted(lab)
    wait(lambda: job not in lab.slurm("squeue", "-h", "-o", "%i").split(), 20, "it is cancelled again")
    time.sleep(3)
    assert output(lab, job).count("runs") == 1


def link_of(node: str) -> str:
    return f"tv{crc32(node.encode()):08x}"


def test_a_node_that_is_cut_off_from_slurm_does_not_write_beside_the_next_run(warm: Lab) -> None:
    lab = warm
    job = ChainJob(lab, Chain(10, 200, 0.25), "-p", "own")
    job.wait_for_links(6)
    job.save()
    node, program = job.node(), job.folder.running()["program"]
    lab.kill_manager()
    assert program
    run(["ip", "link", "set", link_of(node), "down"])
    try:
        wait(lambda: job.folder.current()["node"] != node, 120, "Slurm starts it on the other node")
        wait(lambda: job.folder.running()["node"] != node, 30, "its program runs there")
        assert Path("/run/netns", node).exists()
        job.wait_for_end()
        assert job.is_right()
    finally:
        run(["ip", "link", "set", link_of(node), "up"])
    lab.manage()
    wait(lambda: job.events("job_superseded"), 30, "it is told")
    assert [one["node"] for one in job.events("job_superseded")] == [node]
    wait(lambda: job.job not in lab.slurm("squeue", "-h", "-o", "%i").split(), 60, "it ends")


def test_a_name_of_a_job_is_no_end_of_another_one(warm: Lab) -> None:
    lab = warm
    victim = wrapped(lab, "true", "--begin=now+1hour")
    submitted = lab.slurm("squeue", "-h", "-j", victim, "-o", "%V").strip()
    record = f"UserId=root(0) GroupId=root(0) Name=x JobState=CANCELLED Partition=any SubmitTime={submitted} "
    record += "EligibleTime=x DerivedExitCode=0:0 ExitCode=0:0 "
    name = f"x\nJobId={victim} {record}\nend {victim} CANCELLED {submitted}\n"
    attack = wrapped(lab, "true", "-J", name)
    wait(lambda: f"end {attack} " in (lab.folder / "slurm/log/ends.txt").read_text(), STARTS_S, "its end")
    time.sleep(UNSAVED_S)
    restarted(lab)
    time.sleep(3)
    assert victim in lab.slurm("squeue", "-h", "-o", "%i").split()
    lab.slurm("scancel", victim)
