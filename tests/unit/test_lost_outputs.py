"""Answers and files that cannot be written: one sentence, and a code that is no answer; and files that are kept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from typer.testing import CliRunner

from app.cli import command_line
from app.commands import changing, imports, tokens
from app.commands import evaluation as evaluation_command
from app.commands.exits import exit_of
from app.commands.keeping import telling_kept
from app.domain.errors import LogUnavailable
from app.domain.inputs import InputError, OutputLost, ReaderGone, WorkEnded
from app.domain.values import Role
from app.workbench.wholefiles import check_apart, whole_file

COMMAND = [sys.executable, str(Path(__file__).parents[2] / "tenure_command.py")]
FULL = "No space left on device"
LOST = f"tenure: standard output: {FULL}; the answer is lost, or not whole\n"
WORKLOAD = ["--on-demand", "od.csv", "--spot", "sp.csv", "--spot-delay", "0s"]


def ended(*words: str, outlet: str = "/dev/full", at: Path | None = None) -> tuple[int, str]:
    """Return the code and the last words of a command that writes there."""
    with Path(outlet).open("w") as out:
        done = subprocess.run([*COMMAND, *words], cwd=at, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with a workload."""
    for name in ("od.csv", "sp.csv"):
        lines = "".join(f"{9 * number},600,1\n" for number in range(500))
        (tmp_path / name).write_text(f"start_s,lifetime_s,cores\n{lines}")
    return tmp_path


@pytest.fixture
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has asked for no change yet."""
    monkeypatch.setattr(changing, "_asked", [])
    return


@pytest.mark.parametrize(
    "words", [("--version",), ("trace", "--help"), ("trace", "synth", "--days", "1"), ("audit", "log.csv", "--json")]
)
def test_an_answer_that_cannot_be_written_is_no_answer(traces: Path, words: tuple[str, ...]) -> None:
    log = traces / "log.csv"
    made = CliRunner().invoke(command_line(), evaluation(traces, "--log", str(log)))
    assert made.exit_code == 0, made.output
    more = ("--nodes", "1x1") if "audit" in words else ()  # the log breaks a rule there, and the code would be 1
    assert ended(*words, *more, at=traces) == (3, LOST)


def evaluation(folder: Path, *words: str) -> list[str]:
    """Return the words of an evaluation of the workload in the folder."""
    named = ["--on-demand", str(folder / "od.csv"), "--spot", str(folder / "sp.csv"), "--spot-delay", "0s"]
    return ["evaluate", "--nodes", "1x4", "--no-sla", *named, *words]


@pytest.mark.parametrize("more", [[], ["--out", "/dev/stdout"]])
def test_a_reader_that_is_gone_ends_a_command_quietly(more: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "trace", "synth", "--days", "1", *more]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_outlet_that_is_closed_is_no_answer_and_words_that_are_lost_end_nothing() -> None:
    command = " ".join([*COMMAND, "--version"])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, LOST.replace(FULL, "Bad file descriptor"))
    assert subprocess.run(["sh", "-c", f"{command} >/dev/full 2>&1"], check=False).returncode == 3
    bad = " ".join([*COMMAND, "audit", "/nowhere.csv"])
    assert subprocess.run(["sh", "-c", f"{bad} 2>/dev/full"], check=False).returncode == 2


@pytest.mark.usefixtures("nothing_asked")
def test_a_change_is_told_though_its_answer_is_lost() -> None:
    gone, full = ReaderGone("standard output: Broken pipe"), OutputLost("standard output: full")
    assert exit_of(gone) == (141, "")
    assert exit_of(full) == (3, "standard output: full")
    with changing.changing("token list", "; its value is lost"):
        pass
    look = "it may have been done all the same: look with `tenure token list`; its value is lost"
    assert exit_of(gone) == (3, f"standard output: Broken pipe; {look}")
    assert exit_of(full) == (3, f"standard output: full; {look}")


def test_the_advice_names_the_database_that_the_command_was_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changing, "_asked", [])
    monkeypatch.setattr(tokens, "_with_keeper", lambda change, **_: asyncio.run(change(AsyncMock())))
    monkeypatch.setattr(tokens, "print_json", lambda _: None)
    monkeypatch.setattr(tokens, "_fields", lambda _: {})
    tokens.create("t1", role=Role.READER, data_dir="my data", as_json=True)
    revoking = "its value is lost: `tenure token revoke t1 --data-dir 'my data'` ends it"
    assert changing.told_of_changes().endswith(f"`tenure token list --data-dir 'my data'`; {revoking}")
    tokens.revoke("t1", database_url="postgresql://me:secret@db/tenure")
    assert changing.told_of_changes().endswith("`tenure token list --database-url 'postgresql://me:***@db/tenure'`")
    assert capsys.readouterr().err == ""


def test_a_folder_for_logs_that_never_come_is_removed(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = traces / "deep" / "logs"
    words = evaluation(traces, "--log", str(folder), "--sla", "0.01,0.02")
    words.remove("--no-sla")

    def lost(*_: object, **__: object) -> None:
        assert folder.is_dir()
        raise OutputLost("the disk is full")

    monkeypatch.setattr(evaluation_command, "_run", lost)
    done = CliRunner().invoke(command_line(), words)
    assert (type(done.exception), done.exception.__notes__) == (OutputLost, ["nothing is kept"])
    assert not (traces / "deep").exists()
    (traces / "deep").mkdir()
    CliRunner().invoke(command_line(), words)
    assert (traces / "deep").exists()
    assert not folder.exists()


@pytest.mark.parametrize("state", ["what was written is kept", "the past is in the log as a whole"])
def test_an_import_that_loses_its_database_says_what_is_kept(state: str) -> None:
    telling = imports._telling({words[: len(state)]: words for words in (imports._PARTLY, imports._WHOLE)}[state])
    with pytest.raises(LogUnavailable) as raised, telling:
        raise LogUnavailable("the database could not be reached, or did not answer in time")
    assert exit_of(raised.value).code == 3
    assert f"did not answer in time; {state}" in exit_of(raised.value).sentence


def test_a_file_that_cannot_be_written_after_the_work_is_not_bad_input(tmp_path: Path) -> None:
    assert ended("trace", "synth", "--days", "1", "--out", "/dev/full", outlet="/dev/null")[0] == 3
    limited = f"ulimit -f 4; {' '.join(COMMAND)} trace synth --days 400 --out big.csv"
    done = subprocess.run(["sh", "-c", limited], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "tenure: big.csv: File too large; the file is not written\n")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError), whole_file(tmp_path / "no/log.csv"):
        pass


def linked(folder: Path, name: str) -> str:
    link = folder / f"link-{name}"
    link.symlink_to(folder / name)
    return str(link)


def hard_linked(folder: Path, name: str) -> str:
    link = folder / f"hard-{name}"
    link.hardlink_to(folder / name)
    return str(link)


@pytest.mark.parametrize("name_of", [lambda folder, name: str(folder / name), linked, hard_linked])
@pytest.mark.parametrize(("option", "read"), [("--log", "od.csv"), ("--report", "sp.csv")])
def test_a_trace_is_not_replaced(traces: Path, option: str, read: str, name_of: Callable[[Path, str], str]) -> None:
    before = (traces / read).read_text()
    done = CliRunner().invoke(command_line(), evaluation(traces, option, name_of(traces, read)))
    assert isinstance(done.exception, InputError)
    assert "would replace the file of" in str(done.exception)
    assert (traces / read).read_text() == before


def test_what_is_written_has_places_of_its_own(traces: Path) -> None:
    done = CliRunner().invoke(
        command_line(), evaluation(traces, "--log", str(traces / "x"), "--report", str(traces / "no/../x"))
    )
    assert isinstance(done.exception, InputError)
    jobs = ["federation", "evaluate", "--cloud", "a=1x1", "--jobs", f"a={traces / 'a.csv'}", "--log", str(traces)]
    (traces / "a.csv").write_text("start_s,runtime_s,cores\n")
    for words in (
        jobs,
        ["trace", "jobs", str(traces / "od.csv"), "--out", str(traces / "od.csv"), "--overwrite"],
        ["venue", "backtest", str(traces / "od.csv"), "--report", str(traces / "od.csv")],
    ):
        done = CliRunner().invoke(command_line(), words)
        assert isinstance(done.exception, InputError), done.output
        assert "would replace the file of" in str(done.exception)
    check_apart([("--log", Path("/dev/null"))], [("--out", Path("/dev/null")), ("--report", Path("/dev/null"))])


@pytest.mark.parametrize("error", [KeyboardInterrupt, OutputLost])
@pytest.mark.parametrize("is_written", [True, False])
def test_the_files_that_have_come_are_told(
    tmp_path: Path, *, is_written: bool, error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    log, old = tmp_path / "log.csv", tmp_path / "old.csv"
    for path in (log, old):
        path.write_text("old\n")

    def work() -> None:
        with telling_kept([log, None, old, tmp_path / "never.csv"]):
            if is_written:
                with whole_file(log) as part:
                    part.write_text("old\n")
            raise error

    with pytest.raises((OutputLost, RuntimeError)) as raised:
        work()
    told = "; ".join([capsys.readouterr().err, *getattr(raised.value, "__notes__", ())])
    assert (f"written: {log}" if is_written else "nothing is kept") in "".join(told.splitlines())
    assert str(old) not in told


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_a_process_that_is_killed_is_told(tmp_path: Path, number: signal.Signals) -> None:
    """The one that does the work is killed, or the one that waits for it told to leave a core."""
    for name in ("od.csv", "sp.csv"):
        lines = "".join(f"{9 * at},600,1\n" for at in range(9000))
        (tmp_path / name).write_text(f"start_s,lifetime_s,cores\n{lines}")
    words = ["evaluate", "--nodes", "20x8", "--sla", "0.1,0.01", "--log", "logs", "--samples", "2000", *WORKLOAD]
    before = signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # where a shell runs the tests behind it, it is ignored
    run = subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    signal.signal(signal.SIGQUIT, before)
    give_up = time.monotonic() + 60
    while len(list(tmp_path.glob("logs/*.part"))) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    child = int(next(tmp_path.glob("logs/*.part")).name.split(".")[-2])
    os.kill(child if number is signal.SIGKILL else run.pid, number)
    said = run.communicate(timeout=60)[1].decode()
    assert not list(tmp_path.glob("logs/*.part"))
    if number is signal.SIGQUIT:
        assert run.returncode == -signal.SIGQUIT
    else:
        kept = ", ".join(f"logs/{log.name}" for log in tmp_path.glob("logs/*"))  # of the other one, if it was quick
        told = "tenure: a process of this command was ended, perhaps for want of memory; "
        assert (run.returncode, said.splitlines()[-1]) == (
            3,
            told + (f"written: {kept}" if kept else "nothing is kept"),
        )
    assert exit_of(WorkEnded("ended")) == (3, "ended")
