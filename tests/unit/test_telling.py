"""Work that takes long is seen: a line at times where there is no terminal, and nothing where it is quick."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from app.commands import connecting, output
from app.commands.exits import exit_of
from app.commands.steps import Steps
from tenure_client import ClientError

QUIETLY = [sys.executable, str(Path(__file__).parents[2] / "tools/quietly.py"), "installing"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    for name in ("STDERR", "STDOUT"):
        monkeypatch.setattr(output, name, Console(file=stream, width=1000))
    monkeypatch.setattr("app.commands.steps.STDOUT", output.STDOUT)
    return stream


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("app.commands.output", "app.commands.steps"):
        monkeypatch.setattr(f"{name}._WORTH_TELLING_S", 0.0)
        monkeypatch.setattr(f"{name}._AGAIN_S", 0.2)


def test_what_is_quick_is_not_told(told: io.StringIO) -> None:
    with output.progress_bar("importing") as progress:
        progress(1, 2)
    with output.waiting("waiting for the first table"):
        pass
    assert told.getvalue() == ""


def test_an_import_tells_how_far_it_is_to_its_end(told: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    with output.progress_bar("importing") as progress:
        for done in range(4):
            progress(done, 3)
            time.sleep(0.15)
    lines = told.getvalue().splitlines()
    assert lines[0] == "importing: 0 of 3, 0 s"
    assert 2 <= len(lines) <= 3, lines
    with output.waiting("waiting for the first table"):
        time.sleep(1.5)
    assert "waiting for the first table: 1 s" in told.getvalue()


def test_a_step_is_told_again_while_it_lasts(told: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    with Steps(to_log=False).step("compiling"):
        assert told.getvalue() == "compiling\n"
        time.sleep(0.7)
    assert told.getvalue().count("compiling (") in (2, 3)


def test_what_a_program_says_is_shown_if_it_fails() -> None:
    quiet = [sys.executable, "-c", "print('WARNING: noise')"]
    done = subprocess.run([*QUIETLY, *quiet], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "installing\n", "")
    failing = [sys.executable, "-c", "import sys; print('no such package'); sys.exit(3)"]
    done = subprocess.run([*QUIETLY, *failing], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "no such package\ninstalling: failed with exit code 3\n"


@pytest.mark.parametrize(("after_s", "is_told"), [(0.1, True), (60.0, False)])
def test_a_service_that_is_silent_is_told(
    after_s: float, is_told: bool, told: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, and an answer that breaks off ends with what to do."""
    monkeypatch.setattr(connecting, "STDERR", output.STDERR)
    monkeypatch.setattr(connecting, "_WORTH_TELLING_S", after_s)
    monkeypatch.setattr(connecting, "_RETRY_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        def break_off() -> None:
            with silent.accept()[0]:
                time.sleep(0.5)

        ends = threading.Thread(target=break_off)
        ends.start()
        with connecting.connect(url, None) as client, pytest.raises(ClientError) as caught:
            client.job("north", "j")
        ends.join()
    assert told.getvalue() == (f"waiting for {url}, no answer yet\n" if is_told else "")
    ending = exit_of(caught.value)
    assert ending is not None
    assert ".;" not in ending.sentence
    assert (ending.code, ending.sentence.endswith("try again, and if it stays so, look into its log")) == (3, True)
