"""The walk-through of `make federation`: two services with databases of their own, from nothing to a told refusal."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.ports import free_port

sys.path[:0] = [str(Path(__file__).parents[1] / "objects")]

from object_stores import missing  # noqa: E402 - found by the line above

PROGRAM = Path(__file__).parents[2] / "tools/try-federation"


def two_free_ports() -> int:
    """Return the first of two ports in a row that are free."""
    while True:
        port = free_port()
        with socket.socket() as following, suppress(OSError):
            following.bind(("127.0.0.1", port + 1))
            return port


def played(folder: Path, port: int) -> str:
    """Play it to its end in a folder, and return what it told."""
    own = {"FEDERATION_DIR": str(folder), "FEDERATION_PORT": str(port)}
    done = subprocess.run(
        [sys.executable, PROGRAM, "--once"],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def break_off(folder: Path) -> None:
    """Leave a folder as a start does that breaks off: one token is not written, another has no peer that shows it."""
    (folder / "a").mkdir()
    (folder / "a/token").touch()
    for words in (["db", "upgrade"], ["token", "create", "a", "--role", "peer"]):
        command = [sys.executable, "-m", "app.cli", *words, "--data-dir", str(folder / "b/data")]
        subprocess.run(command, cwd=PROGRAM.parents[1], capture_output=True, timeout=120, check=True)


@pytest.mark.real_parts
def test_the_walk_through_plays_to_its_end(tmp_path: Path) -> None:
    """Each step is told with its command, and each does what is said of it: after a start that broke off, and again."""
    port = two_free_ports()
    break_off(tmp_path)
    told = played(tmp_path, port)
    steps = [
        "a$ tenure peer add b",
        "b answers",
        "fits at home",
        "awarded",
        "preempted as a whole",
        "told why it refused",
        "is cancelled",
    ]
    places = [told.index(step) for step in steps]
    assert places == sorted(places), told
    assert "1 of 1" not in told
    assert ("the output is what b made of the same input: True" in told) is (missing("swift") is None)
    assert told.count("is cancelled") == 2, "the job at home, and the peak"
    standing = told[told.index("a$ tenure peer standing b") :]
    assert "our jobs at b" in standing
    again = played(tmp_path, port)
    assert "a$ tenure peer add b" not in again
    assert "told why it refused" in again
    shutil.rmtree(tmp_path / "b/data")
    anew = played(tmp_path, port)
    assert "a$ tenure peer set b" in anew, "b does not know the token any more that a has"
    assert "b$ tenure peer add a" in anew
    assert "told why it refused" in anew
