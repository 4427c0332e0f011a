"""Private servers of PostgreSQL, and processes that use them and are really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

# Holds the server until its standard input ends, as the service does until it is told to stop.
_HOLDER = """
import sys
from pathlib import Path
from app.platform.database.embedded import embedded_url
with embedded_url(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


class Holder:
    """A process that uses the private server."""

    def __init__(self, data_dir: Path, python: str = sys.executable, **popen: object) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _HOLDER, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **popen,
        )

    @property
    def pid(self) -> int:
        """Its number, and that of its group."""
        return self._process.pid

    def url(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)


@contextmanager
def temporary_data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tenure-embedded-") as directory:
        path = Path(directory) / "some" / "where"
        yield path
        stop(path)


def server_pid(data_dir: Path) -> int | None:
    """The running server's process id."""
    try:
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    except FileNotFoundError:
        return None
    return pid if psutil.pid_exists(pid) else None


def stop(data_dir: Path) -> None:
    pid = server_pid(data_dir)
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)
        psutil.Process(pid).wait(30)


def ask(url: str, question: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]
