"""The lines of Slurm and the comments of jobs, as they are read."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from app.clusters.rules.deciding import NodeState
from app.clusters.rules.saving import Saving, is_due, saving_of
from app.managing.lines import QueuedJob, RunningJob, job_of, seconds_of, state_of
from app.managing.lost import lost_ends
from app.managing.manager import _free_in_s, waiting
from app.managing.programs import ProgramFailed

POOLS = ("own", "spot")


def line(written: str) -> QueuedJob:
    fields = written.split("|")
    return job_of([*fields, *["7", "2026-11-23T06:22:58", "0", "1", "0"][len(fields) - 10 :]], POOLS)


@pytest.mark.parametrize(
    ("comment", "saving"),
    [
        ("checkpoint=USR1,30", Saving("USR1", 30)),
        ("night run checkpoint=USR2,5 of Ada", Saving("USR2", 5)),
        ("(null)", None),
        ("checkpoint=KILL,30", None),
        ("checkpoint=USR1,0", None),
        ("nocheckpoint=USR1,30", None),
        ("checkpoint=USR1,123456", None),
    ],
)
def test_a_comment_says_how_a_job_saves_itself(comment: str, saving: Saving | None) -> None:
    assert saving_of(comment) == saving


def test_a_checkpoint_is_due_if_it_comes_before_the_next_look() -> None:
    assert [is_due(at_s) for at_s in (None, 0.0, 29.9, 30.0)] == [False, True, True, False]


@pytest.mark.parametrize(("text", "seconds"), [("0:05", 5), ("1:02:03", 3723), ("2-00:00:01", 172_801), ("INVALID", 0)])
def test_times_of_slurm(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("idle", (NodeState.IDLE, False)),
        ("allocated*", (NodeState.BUSY, False)),
        ("draining", (NodeState.BUSY, True)),
        ("drained", (NodeState.BAD, False)),
        ("down*", (NodeState.BAD, False)),
        ("unknown", (NodeState.BAD, False)),
    ],
)
def test_states_of_nodes(word: str, state: tuple[NodeState, bool]) -> None:
    assert state_of(word) == state


def test_a_line_of_the_queue() -> None:
    job = line("7|PENDING|any|1|Resources||0:00|UNLIMITED|(null)|a")
    assert (job.job_id, job.pools, job.name, job.left_s) == ("7", POOLS, "a", None)
    running = line("8|RUNNING|spot|2|None|lab-spot-1|1:00|2:30|checkpoint=USR1,2|x")
    assert (running.pools, running.limit_s, running.left_s) == (("spot",), 150.0, 90.0)
    assert running._replace(ran_s=200.0).left_s == 0.0
    assert line("9|PENDING|any|1|Resources||0:00|365-00:00:00|(null)|x").limit_s is None


def test_numbers_of_which_slurm_writes_the_thousands_are_read() -> None:
    job = line("7|PENDING|any|2K|Resources||0:00|UNLIMITED|(null)|a|7|x|2K|65536|16P")
    assert (job.node_count, job.cores, job.cores_in_all, job.memory_mib) == (2048, 2048, 65_536, 1 << 34)
    assert line("7|PENDING|any|1|Resources||0:00|UNLIMITED|(null)|a|7|x|1|1.50M|0").cores_in_all == 3 << 19


def test_what_a_user_writes_in_a_name_is_one_short_line() -> None:
    job = line(f"7|PENDING|any|1|Resources||0:00|UNLIMITED|(null)|a\n9 RUNNING\x1b[2J{'x' * 9999}")
    assert job.name.startswith("a 9 RUNNING [2Jxxx")
    assert len(job.name) == 500


@pytest.mark.parametrize("written", ["7|PENDING", "7|PENDING|any|two|Resources||0:00|UNLIMITED|(null)|a"])
def test_a_line_that_is_no_job_is_told(written: str) -> None:
    with pytest.raises(ProgramFailed, match="squeue writes what is no job"):
        line(written)


def test_a_node_is_free_when_the_limits_of_all_its_jobs_have_ended_them() -> None:
    first = line("1|RUNNING|spot|1|None|lab-spot-1|0:10|1:00|(null)|x")
    longer = first._replace(job_id="2", limit_s=100.0)
    endless = first._replace(job_id="3", nodes="lab-spot-2", limit_s=None)
    pair = first._replace(job_id="4", node_count=2, nodes="lab-spot-[3-4]")
    waiting = first._replace(job_id="5", state="PENDING", nodes="")
    assert _free_in_s([first, longer, endless, pair, waiting]) == {"lab-spot-1": 90.0}


@pytest.mark.parametrize(
    ("state", "reason", "counts", "is_held"),
    [
        ("PENDING", "Resources", True, False),
        ("PENDING", "PartitionConfig", True, False),
        ("PENDING", "None", True, False),
        ("PENDING", "Dependency", False, False),
        ("PENDING", "BeginTime", False, False),
        ("PENDING", "JobHeldUser", False, False),
        ("PENDING", "job requeued in held state", False, False),
        ("PENDING", "launch failed requeued held", True, True),
        ("RUNNING", "None", False, False),
    ],
)
def test_which_jobs_wait_for_nodes(state: str, reason: str, counts: bool, is_held: bool) -> None:
    seen = waiting(line(f"7|{state}|spot|1|{reason}||0:00|UNLIMITED|(null)|x"))
    assert (seen is not None) == counts
    assert seen is None or seen.is_held == is_held


RECORD = "end {job} {state} {at}\n"
AT, LATER = "2026-11-23T06:22:58", "2026-11-23T06:24:07"


class _Queue:
    """Slurm, as far as it is asked here: what it calls running, and its record of ends."""

    def __init__(self, path: Path, *running: RunningJob, pending: tuple[RunningJob, ...] = ()) -> None:
        self.ended_file, self._running, self._pending = path, running, pending

    def running(self) -> list[RunningJob]:
        return [*self._running]

    def pending(self) -> list[RunningJob]:
        return [*self._pending]


class _Here:
    """A machine that is this host."""

    def call(self, name: str, command: list[str]) -> list[str]:
        if name != "lab-own-1":
            raise ProgramFailed(f"the machine {name} does not run")
        return command


def test_a_job_that_ended_before_slurms_controller_died_is_known_from_its_record(tmp_path: Path) -> None:
    record = tmp_path / "ends.txt"
    queue = [
        RunningJob("7", "7", AT, "lab-own-1", is_awaited=False),
        RunningJob("8", "8", LATER, "lab-own-1", is_awaited=False),
        RunningJob("9_1", "10", AT, "lab-own-2", is_awaited=True),
        RunningJob("11", "11", AT, "lab-own-1", is_awaited=False),
    ]
    slurm = _Queue(record, *queue)
    assert [*lost_ends(slurm, _Here())] == []  # type: ignore[arg-type]
    lines = [
        RECORD.format(job=7, state="COMPLETED", at=AT),
        RECORD.format(job=8, state="NODE_FAIL", at=AT),
        RECORD.format(job=10, state="FAILED", at=AT),
        RECORD.format(job=11, state="COMPLETED", at=AT),
    ]
    record.write_text("".join(lines) + lines[0][:8])
    with subprocess.Popen(["bash", "-c", "exec -a 'slurmstepd: [11.batch]' sleep 60"]) as watcher:
        wait_for = Path(f"/proc/{watcher.pid}/cmdline")
        while b"slurmstepd" not in wait_for.read_bytes().split(b"\0")[0]:
            time.sleep(0.01)
        found = [*lost_ends(slurm, _Here())]  # type: ignore[arg-type]
        watcher.kill()
    assert found == [("7", "completed", False), ("9_1", "failed", True)]


def test_a_job_that_slurm_thinks_to_wait_has_ended_if_its_record_says_so(tmp_path: Path) -> None:
    record = tmp_path / "ends.txt"
    pending = (
        RunningJob("7", "7", AT, "n/a", is_awaited=False),
        RunningJob("8", "8", AT, "n/a", is_awaited=True),
        RunningJob("9", "9", AT, "n/a", is_awaited=True),
        RunningJob("10", "10", LATER, "n/a", is_awaited=False),
    )
    ends = ("7", "COMPLETED"), ("8", "COMPLETED"), ("9", "CANCELLED"), ("10", "COMPLETED")
    record.write_text("".join(RECORD.format(job=job, state=state, at=AT) for job, state in ends))
    found = [*lost_ends(_Queue(record, pending=pending), _Here())]  # type: ignore[arg-type]
    assert found == [("7", "completed", False), ("9", "cancelled", False)]


def test_a_cancellation_that_slurm_has_lost_is_done_again(tmp_path: Path) -> None:
    record = tmp_path / "ends.txt"
    slurm = _Queue(
        record,
        RunningJob("7", "7", AT, "lab-own-2", is_awaited=True),
        RunningJob("8", "8", AT, "lab-own-2", is_awaited=False),
    )
    ends = ("7", "CANCELLED"), ("8", "COMPLETED"), ("8", "CANCELLED")
    record.write_text("".join(RECORD.format(job=job, state=state, at=AT) for job, state in ends))
    found = [*lost_ends(slurm, _Here())]  # type: ignore[arg-type]
    assert found == [("7", "cancelled", False), ("8", "completed", False)]
