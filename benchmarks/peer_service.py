"""Measures two services that are peers: the time that a host takes for an offer, and jobs a second from end to end.

Method: two `tenure run`, each with a private PostgreSQL and a cloud. *Offers*: a peer asks the second for room so often
a second, each time at a moment that was set before, and withdraws it; the time of an offer counts from its moment, so
what waits is seen. *Jobs*: jobs without data are submitted at the first, sixteen at a time, all for its peer. A
controller of the second reads its events ten times a second, and stops what they start. The time counts from the
first submission until the last job has ended at its origin. Beside them stand the processor time that each message or
job took all processes of a service, with their PostgreSQL, and the machine's load, because whatever else runs counts.

    python -m benchmarks.peer_service [--rate 200] [--seconds 20] [--jobs 500]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import psutil

from benchmarks.alternating import wait_for

TOKEN = "tnr_benchmark-of-peers"
HEADERS = {"X-Auth-Token": TOKEN}
_CORES = 10_000
_AT_ONCE = 16
_LONGEST_S = 300.0
_LOOK_S = 0.1
_CREATED = 201
_KEPT_S = 3.0
"""A service closes a connection five seconds after its last answer."""
_SETTLE_S = 10.0
"""New services compile and load for some seconds; what they are asked meanwhile would wait for that."""


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
            post(client, "/v1/clouds", {"name": name, "policy": {"guarantee": "none"}})
            post(client, f"/v1/clouds/{name}/nodes", {"name": "n", "cores": _CORES})
            post(client, f"/v1/clouds/{name}/flavors", {"name": "c1", "cores": 1})
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        log.close()


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
        writer.write(head.encode() + content)
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", told)
        found = await reader.readexactly(int(length[1]) if length else 0)
        self._idle.append((time.monotonic(), reader, writer))
        return int(told[9:12]), json.loads(found or b"null")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for wire in self._idle:
            wire[2].close()


def processor_s(folder: Path) -> Counter[str]:
    """Return the processor time that the processes of a service have taken, by kind, in seconds."""
    found = Counter[str]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_database = process.cwd().startswith(str(folder))
            if is_database or process.environ().get("TENURE_DATA_DIR") == str(folder):
                kind = "PostgreSQL" if is_database else "worker" if "worker" in process.cmdline() else "service"
                times = process.cpu_times()
                found[kind] += times.user + times.system
    return found


def processor_words(before: Counter[str], after: Counter[str], count: int) -> str:
    """Return the processor time that each of so many took, in words."""
    return ", ".join(f"{kind} {(after[kind] - before[kind]) / count * 1000:.2f} ms" for kind in sorted(after))


async def offers(port: int, token: str, rate: int, seconds: float) -> tuple[list[float], Counter[str]]:
    """Offer so many attempts a second; return the times of the answers in seconds, and their words."""
    times, words = list[float](), Counter[str]()
    async with Caller(port, token) as peer:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(due - time.monotonic())
            place = f"/v1/clouds/b/offers/offered-{number}/1"
            status, told = await peer.ask("PUT", place, {"cores": 1, "lifetime_s": 60, "hold_s": 60})
            times.append(time.monotonic() - due)
            words[str(told.get("word", status))] += 1
            await peer.ask("DELETE", place)

        begun = time.monotonic() + 0.5
        await asyncio.gather(*(one(number, begun + number / rate) for number in range(int(rate * seconds))))
    return times, words


async def cycle(origin: int, host: int, count: int) -> tuple[float, Counter[str]]:
    """Have so many jobs run at the host; return the seconds that it took, and their ends."""
    async with Caller(origin, TOKEN) as user, Caller(host, TOKEN) as controller:
        stopping = asyncio.create_task(_stop_what_runs(controller))
        places, begun = asyncio.Semaphore(_AT_ONCE), time.monotonic()

        async def submit(number: int) -> None:
            async with places:
                body = {"id": f"job-{number}", "flavor": "c1", "lifetime_s": 3600, "federate": "only"}
                status, told = await user.ask("POST", "/v1/clouds/a/jobs", body)
                assert status == _CREATED, told

        await asyncio.gather(*map(submit, range(count)))
        ends, seq = Counter[str](), 0
        while ends.total() < count and time.monotonic() - begun < _LONGEST_S:
            await asyncio.wait([stopping], timeout=_LOOK_S)
            if stopping.done():
                stopping.result()
            events, seq = await _events(user, "a", seq)
            ends.update(one["end"] for one in events if one["kind"] == "job_ended" and one["is_last"])
        stopping.cancel()
        return time.monotonic() - begun, ends


async def _stop_what_runs(controller: Caller) -> None:
    seq = 0
    while True:
        events, seq = await _events(controller, "b", seq)
        runs = [one["id"] for one in events if one["kind"] == "foreign_job_admitted"]
        await asyncio.gather(*(controller.ask("DELETE", f"/v1/clouds/b/instances/{name}") for name in runs))
        await asyncio.sleep(_LOOK_S)


async def _events(caller: Caller, cloud: str, seq: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events after seq, and the seq of the last."""
    _, page = await caller.ask("GET", f"/v1/clouds/{cloud}/events?after_seq={seq}&limit=1000")
    return page["events"], page["events"][-1]["seq"] if page["events"] else seq


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="offers a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long offers are made")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--port", type=int, default=18_190, help="of the first service; the second has the next one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-peers-") as folder, ExitStack() as stack:
        directory = Path(folder)
        first = stack.enter_context(served("a", directory, asked.port))
        second = stack.enter_context(served("b", directory, asked.port + 1))
        token = enter(first, second, "a", "b")
        enter(second, first, "b", "a")
        time.sleep(_SETTLE_S)
        begun = processor_s(directory / "b")
        times, words = asyncio.run(offers(asked.port + 1, token, asked.rate, asked.seconds))
        took = processor_words(begun, processor_s(directory / "b"), 2 * len(times))
        times.sort()
        p50, p99 = (times[min(int(len(times) * share), len(times) - 1)] * 1000 for share in (0.5, 0.99))
        print(f"offers at {asked.rate}/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {dict(words)}")
        print(f"an offer or its withdrawal took the host: {took}")
        starts = [processor_s(directory / name) for name in "ab"]
        took_s, ends = asyncio.run(cycle(asked.port, asked.port + 1, asked.jobs))
        print(f"jobs: {asked.jobs} in {took_s:.1f} s, {ends.total() / took_s:.1f}/s, {dict(ends)}")
        for name, start in zip("ab", starts, strict=True):
            print(f"a job took {name}: {processor_words(start, processor_s(directory / name), asked.jobs)}")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
