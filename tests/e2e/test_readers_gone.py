"""Processes whose output nobody can read any more, or whose disk is full: they answer, and stop when told to."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from processes import HEADERS, Process

Outlet = Callable[[], tuple[int, Callable[[], None]]]


def _terminal() -> tuple[int, Callable[[], None]]:
    ours, theirs = pty.openpty()
    return theirs, lambda: os.close(ours)


def _pipe() -> tuple[int, Callable[[], None]]:
    read, write = os.pipe()
    return write, lambda: os.close(read)


def _full_disk() -> tuple[int, Callable[[], None]]:
    return os.open("/dev/full", os.O_WRONLY), lambda: None


def _started(process: Process, outlet: int, *arguments: str) -> None:
    command = [sys.executable, "-m", "app.cli", process.command, *arguments]
    process.process = subprocess.Popen(
        command, env=process.environment, stdin=subprocess.DEVNULL, stdout=outlet, stderr=outlet
    )
    os.close(outlet)
    deadline = time.monotonic() + 180
    while not process.is_up():
        assert process.process.poll() is None, process.process.returncode
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("command", "outlet"), [("serve", _terminal), ("serve", _pipe), ("serve", _full_disk), ("run", _pipe)]
)
def test_a_service_without_a_reader_answers_and_stops(tmp_path: Path, command: str, outlet: Outlet) -> None:
    process = Process(command, tmp_path, {"TENURE_LOG_REQUESTS": "true"})
    end, leave = outlet()
    _started(process, end)
    try:
        leave()
        for _ in range(3):
            assert httpx2.get(f"{process.url}/v1/clouds", headers=HEADERS, timeout=30).status_code == 200
        assert process.interrupt(signal.SIGTERM) == 0
    finally:
        process.kill()
    assert not (tmp_path / "data/postgres/postmaster.pid").exists(), "its database is stopped in order"


@pytest.mark.parametrize(("outlet", "form"), [(_pipe, "console"), (_full_disk, "json")])
def test_a_worker_without_a_reader_works_and_stops(
    tmp_path: Path, outlet: Outlet, form: str, embedded_server: str
) -> None:
    environment = {"TENURE_DATABASE_URL": embedded_server, "TENURE_LOG_FORMAT": form}
    process = Process("worker", tmp_path, environment)
    end, leave = outlet()
    _started(process, end, "--port", str(process.port))
    try:
        leave()
        assert process.interrupt(signal.SIGTERM) == 0
    finally:
        process.kill()
