"""The stage: three sites, each a PostgreSQL, a `tenure serve`, a `tenure worker`, and a proxy before the service."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import httpx2
from nursery import Forked, nursery
from surroundings import own_database

from faults.federation.plan import DATABASE, LINKS, SERVE, SITES
from faults.plan import WORKER
from faults.stage import CALLER, TOKEN, Proxy, TenureProcess

HEADERS = {"X-Auth-Token": TOKEN}
HOLD_S, MARGIN_S, ANSWER_S = 5, 1, 2
CORES = 48
FLAVOR = "c1"
_SETTINGS = {
    "TENURE_PEER_ALLOW_PRIVATE": "true",
    "TENURE_HOLD_S": str(HOLD_S),
    "TENURE_RECLAIM_MARGIN_S": str(MARGIN_S),
    "TENURE_PEER_ANSWER_S": str(ANSWER_S),
    "TENURE_SNAPSHOT_EVERY": "500",
}
_START_S = 180.0


class Part(TenureProcess):
    """A process of a site; a worker is whole once it says so, a service once it answers with its cloud's state.

    It comes from the nursery, so that a start is not the longest part of a kill, unless a defect is brought back.
    """

    def start(self) -> None:
        """Start it, and remember where its log begins."""
        self._begins = self.log.stat().st_size if self.log.exists() else 0
        super().start()

    def _begun(self, command: str, log: IO[bytes]) -> subprocess.Popen[bytes] | Forked:
        if "FAULTS_DEFECT" in self._environment:
            return super()._begun(command, log)
        return nursery().start([command], self._environment, log, log, self.log.parent)

    def is_whole(self) -> bool:
        """Return True if it does its work."""
        if self.name == WORKER:
            return b"worker ready" in self.log.read_bytes()[self._begins :]
        return self.is_up()


class Site:
    """A service with one cloud, called like it. `down`: times (of the wall clock) in which a part of it was away."""

    def __init__(self, name: str, directory: Path, defect: str | None) -> None:
        directory.mkdir()
        self.name, self.down = name, list[tuple[float, float]]()
        self._directory, self._defect = directory, defect
        self._closing: list[Callable[[], None]] = []

    def open(self) -> None:
        """Start all of it; returns when it serves."""
        self.database = own_database(self._directory)
        self._closing.append(self.database.stop)
        self.database.start()
        port = self.database.port
        self.parts = {name: Part(name, self._directory, port, self._defect, _SETTINGS) for name in (SERVE, WORKER)}
        self.url = self.parts[SERVE].url
        callers = [origin for origin, host in LINKS if host == self.name]
        self.proxy = Proxy(self.parts[SERVE].port, self._directory / "proxy.log", callers)
        self._closing.append(self.proxy.close)
        for part in self.parts.values():
            self._closing.append(part.kill)
            part.start()
            self._wait(part.is_whole)
        self._post("/v1/clouds", {"name": self.name, "policy": {"guarantee": "none"}})
        self._post(f"/v1/clouds/{self.name}/nodes", {"name": "n", "cores": CORES})
        self._post(f"/v1/clouds/{self.name}/flavors", {"name": FLAVOR, "cores": 1})

    def knows(self, other: Site) -> None:
        """Enter another site as a peer, by way of the link to it."""
        token = other._post("/v1/tokens", {"name": self.name, "role": "peer"})["token"]
        url = f"http://127.0.0.1:{other.proxy.ports[self.name]}"
        peer = {"name": other.name, "url": url, "cloud": other.name, "token": token, "quota": {"cores_share": 100}}
        self._post("/v1/peers", peer)

    def kill(self, name: str, down_s: float) -> None:
        """Kill a part with -9, start it again after a while, and return when the site is whole."""
        with self._away():
            if name == DATABASE:
                self.database.stop()
                time.sleep(down_s)
                self.database.start()
                self._wait(self._serves)
            else:
                self.parts[name].kill()
                time.sleep(down_s)
                self.parts[name].start()
                self._wait(self.parts[name].is_whole)

    def close(self) -> None:
        """Stop everything."""
        while self._closing:
            with suppress(subprocess.CalledProcessError):
                self._closing.pop()()

    @contextmanager
    def _away(self) -> Iterator[None]:
        since = time.time()
        try:
            yield
        finally:
            self.down.append((since, time.time()))

    def _serves(self) -> bool:
        with suppress(httpx2.HTTPError):
            return CALLER.get(f"{self.url}/v1/clouds/{self.name}", headers=HEADERS, timeout=5).status_code == 200
        return False

    def _wait(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + _START_S
        while not holds():
            assert time.monotonic() < give_up_at, f"site {self.name} did not come up: see {self._directory}"
            time.sleep(0.1)

    def _post(self, path: str, body: Mapping[str, Any] = MappingProxyType({})) -> Any:
        answer = CALLER.post(f"{self.url}{path}", json=dict(body), headers=HEADERS, timeout=30)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()


class Stage:
    """All sites, between `open` and `close`. Nothing that it started is left when `close` returns."""

    def __init__(self, directory: Path, defect: str | None = None) -> None:
        self.sites = {name: Site(name, directory / name, defect) for name in SITES}

    def open(self) -> None:
        """Start all sites, and enter each as a peer of the others."""
        first, *others = self.sites.values()
        first.open()  # it compiles the engine, for which the others would only wait
        with ThreadPoolExecutor(len(others)) as pool:
            for opening in [pool.submit(site.open) for site in others]:
                opening.result()
        for origin, host in LINKS:
            self.sites[origin].knows(self.sites[host])

    def close(self) -> None:
        """Stop everything."""
        with ThreadPoolExecutor(len(self.sites)) as pool:
            for closing in [pool.submit(site.close) for site in self.sites.values()]:
                closing.result()
