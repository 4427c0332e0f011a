"""The parts of measurements with services that are peers: services of their own, and a client that is quick."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2

from benchmarks.alternating import wait_for

TOKEN = "tnr_benchmark-of-peers"
HEADERS = {"X-Auth-Token": TOKEN}
LOOK_S = 0.1
CREATED = 201
_CORES = 10_000
_KEPT_S = 3.0
"""A service closes a connection five seconds after its last answer."""


@contextmanager
def served(name: str, directory: Path, port: int) -> Iterator[httpx2.Client]:
    """Run a service with a cloud, called like it, in a folder of its own, and yield a client of it."""
    own = {
        "TENURE_DATA_DIR": str(directory / name),
        "TENURE_PORT": str(port),
        "TENURE_ADMIN_TOKEN": TOKEN,
        "TENURE_LOG_LEVEL": "warning",
        "TENURE_PEER_ALLOW_PRIVATE": "true",
        "TENURE_PEER_MESSAGES_PER_S": "1000000",
        "TENURE_TOKEN_REQUESTS_PER_S": "1000000",
    }
    log = (directory / f"{name}.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "run"], env=os.environ | own, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=60) as client:
            wait_for(client)
            make_cloud(client, name)
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        log.close()


def make_cloud(client: httpx2.Client, name: str) -> None:
    """Make a cloud of one large node, and a flavor of one core."""
    post(client, "/v1/clouds", {"name": name, "policy": {"guarantee": "none"}})
    post(client, f"/v1/clouds/{name}/nodes", {"name": "n", "cores": _CORES})
    post(client, f"/v1/clouds/{name}/flavors", {"name": "c1", "cores": 1})


def post(client: httpx2.Client, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - an answer of any form
    """Post, and return the answer."""
    answer = client.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


def enter(origin: httpx2.Client, host: httpx2.Client, name: str, other: str) -> str:
    """Enter the host as a peer of the origin, with a token that it gives; return the token."""
    token = str(post(host, "/v1/tokens", {"name": name, "role": "peer"})["token"])
    quota = {"offers": 1_000, "cores_share": 100}
    peer = {"name": other, "url": str(host.base_url), "cloud": other, "token": token, "quota": quota}
    post(origin, "/v1/peers", peer)
    return token


class Caller:
    """A client that keeps its connections, and reads of an answer its status and its JSON."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request over a connection that is free, or a new one; return the status and the JSON of the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {self._token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        while self._idle and time.monotonic() - self._idle[-1][0] > _KEPT_S:
            self._idle.pop()[2].close()
        if not self._idle:
            self._idle.append((0.0, *await asyncio.open_connection("127.0.0.1", self._port)))
        _, reader, writer = self._idle.pop()
        try:
            writer.write(head.encode() + content)
            told = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"content-length: (\d+)", told)
            found = await reader.readexactly(int(length[1]) if length else 0)
        except BaseException:
            writer.close()
            raise
        self._idle.append((time.monotonic(), reader, writer))
        return int(told[9:12]), json.loads(found or b"null")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for wire in self._idle:
            wire[2].close()


async def stop_what_runs(controller: Caller) -> None:
    """Stop what a host has started for its peer, until this is cancelled."""
    seq = 0
    while True:
        events, seq = await events_after(controller, "b", seq)
        runs = [one["id"] for one in events if one["kind"] == "foreign_job_admitted"]
        await asyncio.gather(*(controller.ask("DELETE", f"/v1/clouds/b/instances/{name}") for name in runs))
        await asyncio.sleep(LOOK_S)


async def events_after(caller: Caller, cloud: str, seq: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events after seq, and the seq of the last."""
    _, page = await caller.ask("GET", f"/v1/clouds/{cloud}/events?after_seq={seq}&limit=1000")
    return page["events"], page["events"][-1]["seq"] if page["events"] else seq


def share_of(times: list[float], share: float) -> float:
    """Return the quantile of times that are sorted."""
    return times[min(int(len(times) * share), len(times) - 1)]


class Bars:
    """Figures beside their bars. `are_kept`: none was missed so far."""

    def __init__(self) -> None:
        self.are_kept = True

    def tell(self, what: str, figure: float, bar: float, unit: str, *, is_least: bool = False) -> None:
        """Print a figure beside the most that it may be, or the least."""
        kept = figure >= bar if is_least else figure <= bar
        self.are_kept &= kept
        word = "at least" if is_least else "at most"
        print(f"{what}: {figure:.1f} {unit} (bar: {word} {bar:g}){'' if kept else ' MISSED'}", flush=True)
