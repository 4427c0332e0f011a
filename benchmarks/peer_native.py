"""Native starts of a cloud beside jobs for 32 peers of which 16 are dead; see `benchmarks.peer_service`."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import httpx2

from benchmarks.peer_parts import (
    CREATED,
    TOKEN,
    Bars,
    Caller,
    events_after,
    make_cloud,
    post,
    share_of,
    stop_what_runs,
)

_HALF = 16
"""Of the peers: so many answer, and so many are dead."""
_ROUNDS = 3
_MOST_ADDED = 10
"""Dead peers may add so many hundredths to the p99 of native starts."""
_OTHER = "other"
"""A cloud of the same service that has no jobs: its starts share the machine with them, and not the log."""
_MS = 1000
_AFTER_S = 3.0


@contextmanager
def many_peers(origin: httpx2.Client, host: httpx2.Client, token: str) -> Iterator[list[tuple[str, str]]]:
    """Enter peers at the origin that are all the same host, and as many dead ones; yield pairs of a dead and a live.

    Half of the dead take no connection, the others take them and never answer.
    """
    with ExitStack() as stack:
        for number in range(_HALF):
            quiet = stack.enter_context(socket.socket())
            quiet.bind(("127.0.0.1", 0))
            if number % 2:
                quiet.listen(1024)
            nowhere = f"http://127.0.0.1:{quiet.getsockname()[1]}"
            for name, url in ((f"dead-{number}", nowhere), (f"live-{number}", str(host.base_url))):
                post(origin, "/v1/peers", {"name": name, "url": url, "cloud": "b", "token": token})
        yield [(f"dead-{number}", f"live-{number}") for number in range(_HALF)]


async def starts(port: int, cloud: str, prefix: str, rate: int, seconds: float) -> list[float]:
    """Start so many on-demand instances a second, and stop each; return the times of the answers in seconds."""
    path = f"/v1/clouds/{cloud}/instances"
    times = list[float]()
    async with Caller(port, TOKEN) as user:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(due - time.monotonic())
            body = {"id": f"{prefix}-{number}", "market": "on_demand", "flavor": "c1"}
            status, told = await user.ask("POST", path, body)
            times.append(time.monotonic() - due)
            assert status == CREATED, told
            await user.ask("DELETE", f"{path}/{prefix}-{number}")

        begun = time.monotonic() + 0.5
        await asyncio.gather(*(one(number, begun + number / rate) for number in range(int(rate * seconds))))
    return times


async def submit(port: int, prefix: str, pairs: list[tuple[str, str]], rate: float, seconds: float) -> None:
    """Submit so many jobs a second, each for a dead peer and then for a live one."""
    async with Caller(port, TOKEN) as user:
        for number in range(int(rate * seconds)):
            due = asyncio.create_task(asyncio.sleep(1 / rate))
            asked = {"flavor": "c1", "lifetime_s": 3600, "federate": "only", "peers": pairs[number % len(pairs)]}
            status, told = await user.ask("POST", "/v1/clouds/a/jobs", {"id": f"{prefix}-{number}", **asked})
            assert status == CREATED, told
            await due


class Measured(NamedTuple):
    """The times of native starts in seconds, sorted, and how the jobs beside them ended."""

    alone: list[float]
    beside_live: list[float]
    beside_dead: list[float]
    in_other: list[float]
    ends: Counter[str]


async def measure(
    origin: int, host: int, pairs: list[tuple[str, str]], rate: int, seconds: float, jobs: float
) -> Measured:
    """Measure native starts alone, beside jobs for peers that answer, for a dead one first, and in another cloud."""
    found = Measured([], [], [], [], Counter())
    live = [(one, other) for (_, one), (_, other) in zip(pairs, reversed(pairs), strict=True)]
    besides = (("live", "a", live, found.beside_live), ("dead", "a", pairs, found.beside_dead))
    async with Caller(origin, TOKEN) as user, Caller(host, TOKEN) as controller:
        stopping = asyncio.create_task(stop_what_runs(controller))
        for cloud in ("a", _OTHER):
            await starts(origin, cloud, "warm", rate, 2)
        for number in range(_ROUNDS):
            found.alone.extend(await starts(origin, "a", f"alone-{number}", rate, seconds))
            for what, cloud, peers, times in (*besides, ("other", _OTHER, pairs, found.in_other)):
                name = f"{what}-{number}"
                more, _ = await asyncio.gather(
                    starts(origin, cloud, name, rate, seconds), submit(origin, f"many-{name}", peers, jobs, seconds)
                )
                times.extend(more)
                await asyncio.sleep(_AFTER_S)
        seq, last = 0, -1
        while seq != last:
            last = seq
            events, seq = await events_after(user, "a", seq)
            of_these = [one for one in events if one["kind"] == "job_ended" and one["job"].startswith("many-")]
            found.ends.update(one["end"] for one in of_these if one["is_last"])
        stopping.cancel()
    for times in found[:4]:
        times.sort()
    return found


def tell_native(
    bars: Bars,
    clients: tuple[httpx2.Client, httpx2.Client],
    token: str,
    ports: tuple[int, int],
    seconds: float,
    jobs: float,
) -> None:
    """Measure native starts at a hundred a second, alone and beside so many jobs a second, and print them."""
    make_cloud(clients[0], _OTHER)
    with many_peers(*clients, token) as pairs:
        found = asyncio.run(measure(*ports, pairs, 100, seconds, jobs))
    print(f"jobs beside native starts, {jobs:g} a second: {dict(found.ends)}")
    besides = (
        "alone",
        "beside jobs for live peers",
        "beside jobs for dead peers",
        "of a cloud without jobs, beside them",
    )
    for what, times in zip(besides, found[:4], strict=True):
        told = f"p50 {share_of(times, 0.5) * _MS:.1f} ms, p99 {share_of(times, 0.99) * _MS:.1f} ms"
        print(f"native starts {what}: {told}")
    added = 100 * (share_of(found.beside_dead, 0.99) / share_of(found.beside_live, 0.99) - 1)
    bars.tell("16 dead peers of 32 add to the p99 of native starts", added, _MOST_ADDED, "%")
