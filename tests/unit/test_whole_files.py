"""Files that a user names come whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import command_line
from app.commands.output import check_writable
from app.commands.workloads import writing
from app.domain.inputs import InputError, parse_nodes
from app.domain.values import Clock, Guarantee, Policy
from app.workbench.matrix import Evaluation, run_matrix
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import combine


def write(path: Path, text: str, error: BaseException | None = None, *, overwrite: bool = True) -> None:
    with writing(path, overwrite=overwrite) as file:
        assert file is not None
        file.write(text)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bad")])
def test_nothing_of_a_file_that_failed_is_there(tmp_path: Path, error: BaseException):
    with pytest.raises(type(error)):
        write(tmp_path / "log.csv", "half", error)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_stays_if_the_new_one_fails(tmp_path: Path):
    path = tmp_path / "log.csv"
    path.write_text("good")
    with pytest.raises(KeyboardInterrupt):
        write(path, "half", KeyboardInterrupt())
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("log.csv", "good")]


def test_the_place_is_taken_when_all_is_written(tmp_path: Path):
    path, link = tmp_path / "log.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write(link, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert link.is_symlink()
    with pytest.raises(InputError, match="is there already: --overwrite replaces it"):
        write(path, "newer", overwrite=False)
    assert path.read_text() == "new"


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path):
    path = tmp_path / "log.csv"

    def slow() -> None:
        with writing(path, overwrite=False) as file:
            assert file is not None
            path.write_text("first")

    with pytest.raises(InputError, match="is there already"):
        slow()
    assert path.read_text() == "first"


@pytest.mark.parametrize(("name", "why"), [("", "it is a folder"), ("no/log.csv", "No such file or directory")])
def test_what_cannot_be_written_is_told_before_the_work(tmp_path: Path, name: str, why: str):
    for attempt in (check_writable, lambda path: write(path, "")):
        with pytest.raises(InputError) as raised:
            attempt(tmp_path / name)
        assert str(raised.value) == f"{tmp_path / name}: {why}"


@pytest.mark.parametrize("name", ["/", "//", "/tmp/.."])
def test_the_root_is_a_folder_like_others(name: str):
    for attempt in (check_writable, lambda path: write(path, "")):
        with pytest.raises(InputError) as raised:
            attempt(Path(name))
        assert str(raised.value) == f"{Path(name)}: it is a folder"


@pytest.mark.parametrize(
    "command",
    [
        ["trace", "synth", "--days", "1", "--out"],
        ["evaluate", "--on-demand", "od.csv", "--spot", "od.csv", "--nodes", "1x4", "--no-sla", "--log"],
        ["evaluate", "--on-demand", "od.csv", "--spot", "od.csv", "--nodes", "1x4", "--no-sla", "--report"],
    ],
    ids=" ".join,
)
def test_commands_that_write_say_that_the_root_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "od.csv", "start_s,lifetime_s,cores\n0,600,1\n")
    done = CliRunner().invoke(command_line(), [*command, "/"])
    assert isinstance(done.exception, InputError), done.output  # of which `main` makes a sentence and exit code 2
    assert str(done.exception) == "/: it is a folder"


def test_a_look_leaves_nothing(tmp_path: Path):
    check_writable(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
    write(Path("/dev/null"), "text")  # what is no file is written as it is
    assert Path("/dev/null").is_char_device()


def test_an_evaluation_that_is_interrupted_leaves_no_log(tmp_path: Path):
    workload = combine(*(synthesize(days=1, mean_utilisation=2, cores=1, seed=seed) for seed in (1, 2)), 0)
    scenario = Scenario(parse_nodes("1x4"), workload, Policy(clock=Clock.EXTERNAL, guarantee=Guarantee.NONE))

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_matrix([Evaluation(scenario, tmp_path / "log.csv")], progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_what_standard_output_leads_to_keeps_what_it_had(tmp_path: Path):
    kept = tmp_path / "kept"
    kept.write_text("kept\n")
    command = [sys.executable, "-m", "app.cli", "trace", "synth", "--days", "1", "--out", "/dev/stdout"]
    with kept.open("a") as end:
        subprocess.run(command, stdout=end, check=True)
    first, second = kept.read_text().splitlines()[:2]
    assert (first, second) == ("kept", "start_s,lifetime_s,cores")


def test_a_place_that_leads_to_itself_is_replaced(tmp_path: Path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    write(loop, "new")
    assert loop.read_text() == "new"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_no_work_behind(tmp_path: Path, number: signal.Signals):
    """Evaluations of several SLAs go on in processes of their own."""
    for name, seed in (("od.csv", 1), ("sp.csv", 2)):
        write(tmp_path / name, "start_s,lifetime_s,cores\n" + "".join(f"{9 * k},{600 * seed},1\n" for k in range(9000)))
    command = [sys.executable, "-m", "app.cli", "evaluate", "--nodes", "20x8", "--sla", "0.1,0.01", "--log", "logs"]
    command += ["--on-demand", "od.csv", "--spot", "sp.csv", "--samples", "2000"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # where the tests run with nohup, it is ignored
    run = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, stdout=subprocess.PIPE)
    signal.signal(signal.SIGHUP, before)
    give_up = time.monotonic() + 60
    while len(list(tmp_path.glob("logs/*.part"))) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    if number is signal.SIGINT:  # from the keyboard it comes to all
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    run.communicate(timeout=30)  # ends when all processes have let go of it
    left = [one.name for one in tmp_path.glob("logs/*.part")]  # the log of a run that was done already is whole
    assert number is signal.SIGKILL or left == []
