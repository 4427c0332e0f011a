"""Measures two services that are peers: the time that a host takes for an offer, and jobs a second from end to end.

Method: two `tenure run`, each with a private PostgreSQL and a cloud. *Offers*: a peer asks the second for room so often
a second, each time at a moment that was set before, and withdraws it; the time of an offer counts from its moment, so
what waits is seen. *Jobs*: jobs without data are submitted at the first, sixteen at a time, all for its peer. A
controller of the second stops each as soon as it sees it run. The time counts from the first submission until the last
job has ended at its origin. The machine's load stands beside, because whatever else runs counts too.

    python -m benchmarks.peer_service [--rate 200] [--seconds 20] [--jobs 500]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.alternating import wait_for

TOKEN = "tnr_benchmark-of-peers"
HEADERS = {"X-Auth-Token": TOKEN}
_CORES = 10_000
_AT_ONCE = 16
_LONGEST_S = 300.0


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


async def offers(url: str, token: str, rate: int, seconds: float) -> tuple[list[float], Counter[str]]:
    """Offer so many attempts a second; return the times of the answers in seconds, and their words."""
    times, words = list[float](), Counter[str]()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx2.AsyncClient(headers={"X-Auth-Token": token}, timeout=60, limits=limits) as client:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(due - time.monotonic())
            place = f"{url}/v1/clouds/b/offers/offered-{number}/1"
            answer = await client.put(place, json={"cores": 1, "lifetime_s": 60, "hold_s": 60})
            times.append(time.monotonic() - due)
            words[str(answer.json().get("word", answer.status_code))] += 1
            await client.delete(place)

        begun = time.monotonic() + 0.5
        await asyncio.gather(*(one(number, begun + number / rate) for number in range(int(rate * seconds))))
    return times, words


async def cycle(origin: str, host: str, count: int) -> tuple[float, Counter[str]]:
    """Have so many jobs run at the host; return the seconds that it took, and their ends."""
    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as client:
        stopping = asyncio.create_task(_stop_what_runs(client, f"{host}/v1/clouds/b/instances"))
        places, begun = asyncio.Semaphore(_AT_ONCE), time.monotonic()

        async def submit(number: int) -> None:
            async with places:
                body = {"id": f"job-{number}", "flavor": "c1", "lifetime_s": 3600, "federate": "only"}
                (await client.post(f"{origin}/v1/clouds/a/jobs", json=body)).raise_for_status()

        await asyncio.gather(*map(submit, range(count)))
        ends: Counter[str] = Counter()
        while ends.total() < count and time.monotonic() - begun < _LONGEST_S:
            await asyncio.sleep(0.2)
            ends = await _ends(client, origin)
        stopping.cancel()
        return time.monotonic() - begun, ends


async def _ends(client: httpx2.AsyncClient, origin: str) -> Counter[str]:
    found, path = Counter[str](), f"{origin}/v1/clouds/a/jobs?limit=1000"
    while path:
        page = (await client.get(path)).json()
        found.update(job["end"] for job in page["jobs"] if job["end"] is not None)
        path = next((f"{origin}{_path(link['href'])}" for link in page["links"] if link["rel"] == "next"), "")
    return found


def _path(href: str) -> str:
    return "/v1" + href.partition("/v1")[2]


async def _stop_what_runs(client: httpx2.AsyncClient, place: str) -> None:
    while True:
        page = (await client.get(f"{place}?status=running&limit=1000")).json()
        runs = [one["id"] for one in page["instances"] if not one["id"].endswith(".held")]
        await asyncio.gather(*(client.delete(f"{place}/{name}") for name in runs))
        await asyncio.sleep(0.05)


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
        times, words = asyncio.run(offers(str(second.base_url).rstrip("/"), token, asked.rate, asked.seconds))
        times.sort()
        p50, p99 = (times[min(int(len(times) * share), len(times) - 1)] * 1000 for share in (0.5, 0.99))
        print(f"offers at {asked.rate}/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {dict(words)}")
        took_s, ends = asyncio.run(cycle(str(first.base_url).rstrip("/"), str(second.base_url).rstrip("/"), asked.jobs))
        print(f"jobs: {asked.jobs} in {took_s:.1f} s, {ends.total() / took_s:.1f}/s, {dict(ends)}")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
