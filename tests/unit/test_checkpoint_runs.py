"""Runs of a job under `tenure-job`: which job it is, which run may write, and what a full disk may not do."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.clusters.rules.wanted import cluster_of_toml
from app.managing.checkpointing import fence, identity, running, saving, starting
from app.managing.checkpointing.drivers import DRIVERS, NotSaved, Unsaved
from app.managing.checkpointing.fence import GONE, LEFT, Fence, Superseded, TwoPrograms
from app.managing.checkpointing.folders import JobFolder
from app.managing.checkpointing.identity import JobIdentity
from app.managing.checkpointing.keeper import CheckpointKeeper
from app.managing.checkpointing.owing import Owed
from app.managing.checkpointing.processes import began_at, is_stopped
from app.managing.checkpointing.running import JobRun
from app.managing.checkpointing.saving import Order, save
from app.managing.programs import ProgramFailed

FIRST = JobIdentity(0, 1000, 1001, "words", "script")
FULL = OSError(errno.ENOSPC, "No space left on device")
COMMAND = [sys.executable, "-I", "-m", "app.managing.checkpointing.job"]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = JobFolder(tmp_path / "7")
    found.prepare()
    return found


def told(folder: JobFolder) -> list[dict[str, Any]]:
    return [*folder.take_told()]


# --- which job --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "is_it"),
    [
        (FIRST, True),
        (JobIdentity(0, 1000, 1009, "words", "script"), True),  # Slurm has lost that it had begun
        (JobIdentity(1, 1005, 1009, "words", "script"), True),
        (JobIdentity(1, 1005, 1009, "words", ""), True),
        (JobIdentity(0, 1005, 1009, "words", "script"), False),
        (JobIdentity(1, 1005, 1009, "others", "script"), False),
        (JobIdentity(1, 1005, 1009, "words", "other"), False),
    ],
)
def test_a_reused_number_is_told_from_a_job_that_was_queued_again(who: JobIdentity, is_it: bool) -> None:
    assert who.is_of(json.loads(FIRST.text())) == is_it


def test_a_folder_without_an_identity_is_a_requeued_jobs_own() -> None:
    assert JobIdentity(2, 1005, 1009, "words", "script").is_of({})
    assert not FIRST.is_of({})
    later = json.loads(JobIdentity(2, 1005, 1009, "words", "script").text())
    assert JobIdentity(0, 1000, 1020, "words", "script").is_of(later)
    assert not JobIdentity(0, 1006, 1020, "words", "script").is_of(later)


def test_slurm_is_asked_which_job_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(arguments: tuple[str, ...], environment: dict[str, str]) -> str:
        assert environment == {"SLURM_CONF": "/c", "SLURM_TIME_FORMAT": "%s"}
        if arguments[0] == "scontrol":
            raise ProgramFailed("no batch script")
        return "8 5 6 0 /a x\n7 1000 1001 0 /srv job.sh one two\n"

    monkeypatch.setenv("SLURM_CONF", "/c")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    monkeypatch.setattr(identity, "run", answer)
    found = identity.asked("7")
    assert (found.restart, found.submitted, found.started, found.script) == (2, 1000, 1001, "")
    assert len(found.words) == 64
    with pytest.raises(ProgramFailed, match="does not know job 9"):
        identity.asked("9")


def test_the_folder_of_another_job_is_set_aside_and_told(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/c")
    owed = Owed(folder)
    starting.own(folder, FIRST, owed)
    folder.note("done", "0@1001 0")
    folder.put_current({"run": FIRST.run})
    folder.tell("job_checkpointed")
    starting.own(folder, JobIdentity(0, 1000, 1050, "words", "script"), owed)
    assert folder.noted("done") == "0@1001 0"
    starting.own(folder, JobIdentity(0, 1040, 1050, "words", "script"), owed)
    assert (folder.noted("done"), folder.identity()["submitted"]) == (None, 1040)
    assert folder.current() == {"run": FIRST.run}
    assert (folder.path.with_name("7.old-1") / "done").exists()
    assert [(one["kind"], one.get("folder")) for one in told(folder)] == [
        ("job_checkpointed", None),
        ("job_set_aside", "7.old-1"),
    ]
    starting.own(folder, JobIdentity(3, 1060, 1061, "words", "another"), owed)
    assert folder.path.with_name("7.old-2").exists()


def run_at(folder: JobFolder, who: JobIdentity, monkeypatch: pytest.MonkeyPatch) -> JobRun:
    def identified(_: JobFolder) -> JobIdentity:
        return who

    monkeypatch.setattr(running, "identified", identified)
    return JobRun(folder, DRIVERS["none"], ["true"])


def test_a_program_that_had_ended_is_not_run_again_though_slurm_forgot_it(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.note("done", f"{FIRST.run} 7")
    later = JobIdentity(0, 1000, 1009, "words", "script")
    assert run_at(folder, later, monkeypatch).run() == 7
    with pytest.raises(TwoPrograms):
        run_at(folder, FIRST, monkeypatch).run()


# --- which run --------------------------------------------------------------------------------------------------------


ELSEWHERE: dict[str, Any] = {"run": "0@1001", "started": 1001, "node": "lab-own-1", "is_alone": True, "host": "other"}


def fence_of(folder: JobFolder, started: int = 1009) -> Fence:
    return Fence(folder, JobIdentity(1, 1005, started, "words", "script"))


@pytest.mark.parametrize(
    ("before", "note", "waits"),
    [
        ({}, "", False),
        (ELSEWHERE, "", True),
        (ELSEWHERE, LEFT, False),
        (ELSEWHERE, GONE, False),
        (ELSEWHERE | {"is_alone": False}, GONE, True),
    ],
)
def test_a_run_waits_for_one_that_may_still_write(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], note: str, waits: bool
) -> None:
    monkeypatch.setattr(fence, "FENCE_S", 0.5)
    if before:
        folder.put_current(before)
    if note:
        folder.note(note, "0@1001")
    began_s = time.monotonic()
    fence_of(folder).take()
    assert (time.monotonic() - began_s >= 0.5) == waits
    assert (folder.current()["run"], folder.current()["is_alone"]) == ("1@1009", True)


def test_a_run_on_this_machine_whose_process_is_gone_is_not_waited_for(folder: JobFolder) -> None:
    fence_of(folder).take()
    mine = folder.current()
    assert mine["pid"] == os.getpid()
    folder.put_current(mine | {"run": "0@1001", "pid_began_at": 1.0})
    began_s = time.monotonic()
    fence_of(folder).take()
    assert time.monotonic() - began_s < fence.FENCE_S / 2


def test_a_run_has_left_only_until_its_next_program_begins(folder: JobFolder) -> None:
    first = fence_of(folder)
    first.take()
    first.leave()
    assert folder.noted(LEFT) == first.run
    fence_of(folder).take()
    assert folder.noted(LEFT) is None


def test_a_second_program_beside_the_first_is_refused(folder: JobFolder) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        fence_of(folder).take()
        folder.put_current(folder.current() | {"pid": other.pid, "pid_began_at": began_at(other.pid)})
        with pytest.raises(TwoPrograms):
            fence_of(folder).take()
        other.kill()
    fence_of(folder).take()


def test_programs_that_srun_starts_together_are_refused(tmp_path: Path) -> None:
    command = [*COMMAND, "--folder", str(tmp_path), "--driver", "none", "true"]
    tried = subprocess.run(
        command, capture_output=True, text=True, env=environment(SLURM_STEP_NUM_TASKS="2"), check=False
    )
    assert (tried.returncode, [*tmp_path.iterdir()]) == (2, [])
    assert "srun starts it 2 times" in tried.stderr


def test_a_run_that_comes_late_does_not_end_the_newer_one(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "FENCE_S", 0.5)
    folder.put_current(ELSEWHERE | {"run": "2@2000", "started": 2000})
    folder.beat({"at": 1.0})
    beats = iter(range(2, 100))
    monkeypatch.setattr(folder, "running", lambda: {"at": next(beats)})
    with pytest.raises(Superseded):
        fence_of(folder).take()
    assert folder.current()["run"] == "2@2000"
    monkeypatch.setattr(folder, "running", lambda: {"at": 1.0})
    fence_of(folder).take()
    assert folder.current()["run"] == "1@1009"


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return kept | {"SLURM_JOB_ID": "7", **more}


@pytest.mark.parametrize("driver", ["none", "signal"])
def test_an_older_run_ends_its_program_at_once_and_notes_no_end(tmp_path: Path, driver: str) -> None:
    folder, out = JobFolder(tmp_path / "7"), tmp_path / "out"
    ticking = "trap '' TERM; while :; do echo tick; sleep 0.1; done"
    command = [*COMMAND, "--folder", str(tmp_path), "--driver", driver, "sh", "-c", ticking]
    with out.open("ab") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environment()) as job:
        while not folder.running():
            time.sleep(0.05)
        program = int(folder.running()["program"])
        folder.put_current(folder.current() | {"run": "1@5"})
        with pytest.raises(NotSaved, match="a newer run"):
            save(folder, Order("asked", 2))
        assert job.wait(fence.FENCE_S) == os.EX_TEMPFAIL
        written = out.read_bytes()
    assert began_at(program) is None
    time.sleep(0.3)
    assert out.read_bytes() == written
    assert set(written.split()) == {b"tick"}
    assert (folder.noted("done"), folder.noted(LEFT)) == (None, None)
    assert [one["kind"] for one in told(folder)][-1] == "job_superseded"


class Machines:
    """Machines by name."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def there(self) -> dict[str, bool]:
        return dict.fromkeys(self.names, True)


def test_the_manager_notes_which_runs_are_gone_with_their_machines(tmp_path: Path) -> None:
    text = 'name = "lab"\nshared = "/srv/lab"\n[[pools]]\nname = "own"\ncloud = "north"\nflavor = "small"\n'
    folders = [JobFolder(tmp_path / name) for name in ("7", "8", "9")]
    for folder, node in zip(folders, ("lab-own-1", "lab-own-2", "lab-own-3"), strict=True):
        folder.prepare()
        folder.put_current(ELSEWHERE | {"node": node})
    nothing: Any = SimpleNamespace()
    machines: Any = Machines("lab-own-2")
    keeper = CheckpointKeeper(cluster_of_toml(text), machines, nothing, nothing)
    keeper._folder = tmp_path
    keeper._note_gone(frozenset({"lab-own-3"}))
    assert [folder.noted(GONE) for folder in folders] == ["0@1001", None, None]


# --- a full disk ------------------------------------------------------------------------------------------------------


FULL_DISK = """\
import errno, os, sys, time
from pathlib import Path
from app.managing.checkpointing import drivers, folders, running

began_s, (path, from_s, to_s, *command) = time.monotonic(), sys.argv[1:]
put = folders.put

def full(*arguments, **options):
    if float(from_s) <= time.monotonic() - began_s < float(to_s):
        raise OSError(errno.ENOSPC, "No space left on device")
    put(*arguments, **options)

folders.put = full
sys.exit(running.JobRun(folders.JobFolder(Path(path)), drivers.DRIVERS["none"], command).run())
"""


def on_a_full_disk(tmp_path: Path, from_s: float, to_s: float) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)
    program = ["sh", "-c", "echo a; sleep 4; echo b; exit 3"]
    command = [sys.executable, str(script), str(tmp_path / "7"), str(from_s), str(to_s), *program]
    here = str(Path(__file__).parents[2])
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(PYTHONPATH=here), check=False, timeout=60
    )


@pytest.mark.parametrize("from_s", [0.0, 1.0])
def test_a_disk_that_is_full_for_a_while_ends_no_job_and_is_told(tmp_path: Path, from_s: float) -> None:
    found = on_a_full_disk(tmp_path, from_s, 3.0)
    assert (found.returncode, found.stdout) == (3, "a\nb\n")
    folder = JobFolder(tmp_path / "7")
    events = told(folder)
    kinds = ["checkpoints_impossible"] if from_s == 0.0 else []
    assert [one["kind"] for one in events] == [*kinds, "checkpoint_failed"]
    assert "No space left" in events[-1]["error"]
    assert folder.noted("output") is not None
    assert folder.noted("done") == "0@ 3"


def test_a_job_with_checkpoints_does_not_begin_again_for_want_of_room(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise FULL

    monkeypatch.setattr(starting, "ROOM_S", 0.0)
    monkeypatch.setattr(starting, "_AGAIN_S", 0.01)
    monkeypatch.setattr(folder, "put_current", full)
    assert "No space" in starting.take(folder, fence_of(folder))
    monkeypatch.setattr(folder, "published", lambda: [1])
    with pytest.raises(starting.NoRoom, match="No space"):
        starting.take(folder, fence_of(folder))
    monkeypatch.setattr(folder, "published", list[int])
    monkeypatch.setattr(folder, "current", lambda: ELSEWHERE)
    with pytest.raises(starting.NoRoom):
        starting.take(folder, fence_of(folder))


class Stopping(Unsaved):
    """Stops the program, and writes an image."""

    name = "stopping"

    def save(self, program: int, images: Path) -> None:
        os.kill(program, 19)
        (images / "image").write_text("x")


@pytest.fixture
def program(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setitem(DRIVERS, "stopping", Stopping())
    with subprocess.Popen(["sleep", "60"]) as process:
        folder.beat({"program": process.pid, "program_began_at": began_at(process.pid), "driver": "stopping"})
        yield process.pid
        process.kill()


@pytest.mark.parametrize("place", ["sealed", "publish"])
def test_a_checkpoint_for_which_there_is_no_room_is_removed_and_the_program_goes_on(
    folder: JobFolder, program: int, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(_: object) -> None:
        raise FULL

    monkeypatch.setattr(saving if place == "sealed" else folder, place, full)
    with pytest.raises(NotSaved, match="No space left on device"):
        save(folder, Order("notice", 2, is_last=True))
    assert (folder.unpublished(), folder.published(), is_stopped(program)) == ([], [], False)
    assert [(one["kind"], one["why"]) for one in told(folder)] == [("checkpoint_failed", "notice")]


def test_a_checkpoint_that_cannot_be_told_is_published_all_the_same(
    folder: JobFolder, program: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise FULL

    monkeypatch.setattr(folder, "tell", full)
    assert save(folder, Order("asked", 2)).generation == 1
    assert (folder.published(), is_stopped(program)) == ([1], False)
