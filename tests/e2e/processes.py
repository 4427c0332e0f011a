"""Real processes of the service, to be started, killed and started again."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

import httpx2
import pytest
from nursery import Forked, nursery
from templates import furnish
from typer.testing import CliRunner

from app.cli import main
from benchmarks.ports import free_port

TOKEN = "tnr_end-to-end"
HEADERS = {"X-Auth-Token": TOKEN}


class Process:
    """One `tenure` process that serves HTTP (`run` or `serve`). It comes from the nursery, unless it loads a `module`.

    Tests of loading, and of what a process can be seen to have been started with, name "app.cli".
    """

    def __init__(
        self, command: str, directory: Path, environment: Mapping[str, str] | None = None, module: str | None = None
    ) -> None:
        self.command = command
        self.module = module
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / f"{command}-{self.port}.log"
        own = {"TENURE_DATA_DIR": str(directory / "data"), "TENURE_PORT": str(self.port), "TENURE_ADMIN_TOKEN": TOKEN}
        self.environment = os.environ | own | (environment or {})

    def start(self, *, whole: bool = True) -> None:
        """Start it and wait until it answers, and, if it is to be whole, says that it is ready with its worker."""
        if "TENURE_DATABASE_URL" not in self.environment:
            furnish(Path(self.environment["TENURE_DATA_DIR"]))
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("a") as log:
            self.process = self._begun(log)
        says_so = whole and self.command != "worker"
        deadline = time.monotonic() + 180  # compiling for the first time, on a busy machine
        while time.monotonic() < deadline:
            if self.is_up() and (not says_so or "Tenure is ready" in self.log.read_text()[before:]):
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"not up within three minutes:\n{self.log.read_text()}")

    def _begun(self, log: IO[str]) -> subprocess.Popen[Any] | Forked:
        if self.module is None:
            return begun([self.command], self.environment, log, log)
        arguments = [sys.executable, "-m", self.module, self.command]
        return subprocess.Popen(arguments, env=self.environment, stdout=log, stderr=log)

    def is_up(self) -> bool:
        """Ask without a client of httpx2: to make one takes 20 ms of a core, and this is asked again and again."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthcheck")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """kill -9: no chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def interrupt(self, number: int = signal.SIGINT) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


def begun(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: IO[Any],
    stderr: IO[Any],
    folder: Path | None = None,
) -> subprocess.Popen[Any] | Forked:
    """Start `tenure` in a folder; from the nursery, unless it has variables that Python or a library reads first."""
    if nursery().takes(environment):
        return nursery().start(arguments, environment, stdout, stderr, folder)
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=stderr)


def ran(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `tenure` in a folder to its end, as `begun` would start it."""
    with TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        status = begun(arguments, environment, stdout, stderr, folder).wait()
        for output in (stdout, stderr):
            output.seek(0)
        return subprocess.CompletedProcess(["tenure", *arguments], status, stdout.read(), stderr.read())


def tenure(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the CLI to its end."""
    return ran(arguments, os.environ | (environment or {}))


def tenure_here(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the CLI in this process, without a terminal: as `tenure`, but a process is not paid for."""
    with CliRunner().isolation(env=environment) as (stdout, stderr, _), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["tenure", *arguments])
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
        return subprocess.CompletedProcess(
            ["tenure", *arguments], code, stdout.getvalue().decode(), stderr.getvalue().decode()
        )


def tenure_json(*arguments: str) -> dict[str, object]:
    done = tenure_here(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def audited(process: Process, cloud: str, file: Path) -> list[dict[str, str]]:
    """Export the cloud's log, have it audited, and give its rows."""
    common = ["--url", process.url, "--token", TOKEN, "--cloud", cloud]
    exported = tenure_here("log", "export", *common, "--out", str(file))
    assert exported.returncode == 0, exported.stderr
    done = tenure_here("audit", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def agrees(answer: Mapping[str, object], row: Mapping[str, str]) -> bool:
    """Return True if the answer to a start agrees with the log."""
    kind = "instance_started" if answer["status"] == "accepted" else "instance_rejected"
    return (
        row["kind"] == kind
        and row["instance_id"] == answer["id"]
        and row["node"] == (answer["node"] or "")
        and row["reason"] == (answer["reason"] or "")
    )


class Callers:
    """So many threads that call, each with a client of its own, until the block is left."""

    def __init__(self, number: int) -> None:
        self.leaving = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(caller,)) for caller in range(number)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leaving.set()
        for thread in self.threads:
            thread.join()

    def _run(self, caller: int) -> None:
        with httpx2.Client(headers=HEADERS, timeout=30) as client:
            for number in count():
                if self.leaving.is_set():
                    return
                self.call(client, caller, number)

    def call(self, client: httpx2.Client, caller: int, number: int) -> None:
        """Make the next calls of one of them."""
        raise NotImplementedError
