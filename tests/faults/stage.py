"""The stage of the faults: a PostgreSQL, the proxy before it, three API processes and a worker, all real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO

import httpx2
from nursery import Forked
from surroundings import clean_environment, own_database, undisturbed

from benchmarks.ports import free_port
from faults.clock import write_offset
from faults.plan import PROCESSES, SERVERS, WORKER

TOKEN = "tnr_token-under-faults"
_START_S = 180.0
CALLER = httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0))
"""One for all questions: to make one takes longer than to ask. No connection outlives a killed process."""


class Proxy:
    """The proxy's process; see `faults.proxy`."""

    def __init__(self, far_port: int, log: Path, links: Sequence[str] = PROCESSES) -> None:
        command = [sys.executable, "-m", "faults.proxy", str(far_port), *links]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                env=clean_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._obeying = threading.Lock()
        self.ports: Mapping[str, int] = json.loads(self._out.readline())

    def obey(self, link: str, rule: str, **how: object) -> None:
        """Put a rule in force on a link; returns when it is. Several threads may ask at a time."""
        with self._obeying:
            self._in.write(json.dumps({"link": link, "rule": rule, **how}) + "\n")
            self._in.flush()
            assert self._out.readline() == "ok\n", "the proxy is gone"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class TenureProcess:
    """One `tenure serve` or `tenure worker`, in a process group of its own."""

    def __init__(
        self,
        name: str,
        directory: Path,
        database_port: int,
        defect: str | None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.clock = directory / f"{name}.clock"
        write_offset(self.clock, 0)
        self.log = directory / f"{name}.log"
        self._popen: subprocess.Popen[bytes] | Forked | None = None
        self._environment = clean_environment() | {
            "FAULTS_CLOCK": str(self.clock),
            "TENURE_DATABASE_URL": f"postgresql://tenure@127.0.0.1:{database_port}/postgres",
            "TENURE_ADMIN_TOKEN": TOKEN,
            "TENURE_PORT": str(self.port),
            "TENURE_LOG_REQUESTS": "false",
            "TENURE_STREAM_HEARTBEAT_S": "2",
            "TENURE_FORECAST_THREADS": "1",
            **settings,
        }
        if defect:
            self._environment["FAULTS_DEFECT"] = defect

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._popen = self._begun("worker" if self.name == WORKER else "serve", log)

    def _begun(self, command: str, log: IO[bytes]) -> subprocess.Popen[bytes] | Forked:
        words = [sys.executable, "-m", "faults.process", command]
        return subprocess.Popen(
            words, env=self._environment, cwd=self.log.parent, stdout=log, stderr=log, process_group=0
        )

    def is_up(self) -> bool:
        """Return True if the process answers; a worker answers nothing, so it is up while it runs."""
        assert self._popen is not None
        assert self._popen.poll() is None, f"{self.name} ended by itself: see {self.log}"
        if self.name == WORKER:
            return True
        with suppress(httpx2.HTTPError):
            return CALLER.get(f"{self.url}/healthcheck", timeout=2).status_code == 200
        return False

    def send(self, number: int) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self._popen is not None:
            self._popen.wait()


class Stage:
    """All of it, between `open` and `close`. Nothing that it started is left when `close` returns."""

    def __init__(self, directory: Path, defect: str | None = None) -> None:
        self._directory = directory
        self._defect = defect
        self._closing: list[Callable[[], None]] = []
        self.processes: dict[str, TenureProcess] = {}

    @property
    def urls(self) -> dict[str, str]:
        """Addresses of the API processes."""
        return {name: self.processes[name].url for name in SERVERS}

    def open(self) -> None:
        """Start everything; returns when all API processes answer."""
        self.database = own_database(self._directory)
        self._closing.append(self.database.stop)
        self.database.start()
        self.proxy = Proxy(self.database.port, self._directory / "proxy.log")
        self._closing.append(self.proxy.close)
        for name in PROCESSES:
            process = TenureProcess(name, self._directory, self.proxy.ports[name], self._defect)
            self.processes[name] = process
            self._closing.append(process.kill)
            process.start()
            if name == SERVERS[0]:  # it brings the schema and the compiled engine, for which the others would only wait
                self.wait_until_up()
        assert self.wait_until_up(), f"the service did not come up: see {self._directory}"

    def wait_until_up(self, most_s: float = _START_S) -> bool:
        """Wait at most so many seconds; return True if all processes answer."""
        give_up_at = time.monotonic() + most_s
        while not all(process.is_up() for process in self.processes.values()):
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.1)
        return True

    def restart_database(self) -> None:
        """Restart the database as by a crash: connections are cut, and the server recovers from its log."""
        self.database.stop()
        self.database.start()

    def close(self) -> None:
        """Stop everything, however often somebody presses Ctrl-C meanwhile."""
        with undisturbed():
            self._close()

    def _close(self) -> None:
        while self._closing:
            with suppress(subprocess.CalledProcessError):
                self._closing.pop()()
