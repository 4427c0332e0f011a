"""An admin of one cloud: receivers of its choice, recomputations, policies."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import cycle, pairwise
from typing import Any

from hostile.target import HERE, Target, attack
from hostile.wire import Closed, Wire, request

_LATEST_S = 3.0
"""A webhook of the honest cloud is sent what happens there at least this often: it starts forty a second."""
_TAKEN = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@attack("cloud admin")
async def endless_receivers(target: Target) -> None:
    """Receivers that stream 100 Continue, endless heads or endless bodies; each is tested without a pause."""
    floods = [b"HTTP/1.1 100 Continue\r\n\r\n" * 2000, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2000, b"X" * 60_000]

    def flood(content: bytes) -> Serve:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                writer.write(content)
                await writer.drain()

        return serve

    async with _hooks(target, "cloud_admin", "target", [flood(content) for content in floods]) as hooks:
        paths = cycle(hooks)
        await target.hammer(8, lambda: request("POST", f"{next(paths)}/test", target.tokens["cloud_admin"]))


@attack("cloud admins", least_s=6)
async def slow_receivers(target: Target) -> None:
    """Forty receivers of two clouds never answer, while those clouds are busy and a third waits for its events."""

    async def never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    taken: list[float] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(length[15:]))
            taken.append(time.monotonic())
            writer.write(_TAKEN)

    async with (
        _hooks(target, "honest_admin", "honest", [take]),
        _hooks(target, "cloud_admin", "target", [never] * 20) as hooks,
        _hooks(target, "second_admin", "second", [never] * 20),
    ):
        begun = time.monotonic()
        busy = [asyncio.create_task(_busy(target, cloud)) for cloud in ("target", "second")]
        tests = cycle(hooks)
        testing = target.hammer(4, lambda: request("POST", f"{next(tests)}/test", target.tokens["cloud_admin"]))
        busy.append(asyncio.create_task(testing))
        await asyncio.sleep(max(_LATEST_S, target.seconds - 2))
        await _cancel(busy)
        moments = [begun, *taken, time.monotonic()]
        target.counts["events taken by the third cloud's receiver"] += len(taken)
        pause = max(later - earlier for earlier, later in pairwise(moments))
        if pause > _LATEST_S:
            target.wrong.append(f"the third cloud's receiver was sent nothing for {pause:.1f} s")


async def _busy(target: Target, cloud: str) -> None:
    """Starts in the cloud, for there to be events."""
    path, token = f"/v1/clouds/{cloud}/instances", target.tokens["admin"]

    def start() -> bytes:
        body = {"id": f"i-{random.getrandbits(60):x}", "market": "on_demand", "flavor": "small"}
        return request("POST", path, token, body)

    wire = await target.open()
    while True:
        target.tally(await wire.ask(start()))
        await asyncio.sleep(0.02)


@attack("cloud admin", "service.overloaded", "log.contended")
async def recomputations(target: Target) -> None:
    """New tables, new policies and new nodes, as fast as they are taken."""
    admin = target.tokens["cloud_admin"]

    def change() -> bytes:
        kind = random.randrange(3)
        if kind == 0:
            return request("POST", "/v1/clouds/target/tables", admin)
        if kind == 1:
            seed = random.randrange(1 << 40)
            return request("PATCH", "/v1/clouds/target", admin, {"policy": {"seed": seed, "sample_count": 1_000_000}})
        name = f"node-{random.getrandbits(50):x}"
        return request("POST", "/v1/clouds/target/nodes", admin, {"name": name, "cores": 1})

    await target.hammer(8, change)


@attack("cloud admin", "service.overloaded", "log.contended")
async def many_flavors(target: Target) -> None:
    """The greatest number of flavors, hundreds of nodes, and quotes and a table of them all."""
    admin = target.tokens["flavored"]
    await _furnish(target, "flavored", admin, 300, 300)
    paths = cycle([f"/v1/clouds/flavored/{what}" for what in ("quotes", "flavors", "sla", "tables/newest", "nodes")])
    wire = await target.open(HERE)
    target.tally(await wire.ask(request("POST", "/v1/clouds/flavored/tables", admin)))
    await target.hammer(8, lambda: request("GET", next(paths), admin))


@attack("cloud admin", "service.overloaded", "log.contended", least_s=12)
async def greedy_tables(target: Target) -> None:
    """Tables of 200 flavors and a million samples each are due every second, and another cloud wants one."""
    admin, wire = target.tokens["greedy"], await target.open(HERE)
    await _furnish(target, "greedy", admin, 200, 20)

    def policy(**changed: int) -> bytes:
        return request("PATCH", "/v1/clouds/greedy", admin, {"policy": changed})

    await _done(wire, policy(recompute_every_s=1, sample_count=1_000_000))
    has_come, begun = False, time.monotonic()
    try:
        await asyncio.sleep(2)
        asked = await _done(wire, request("POST", "/v1/clouds/honest/tables", target.tokens["honest_admin"]))
        run = request("GET", f"/v1/clouds/honest/runs/{asked['id']}", target.tokens["honest_admin"])
        while not has_come:
            has_come = (await _done(wire, run))["status"] == "succeeded"
            target.counts["looked for the other cloud's table"] += 1
            await asyncio.sleep(0.1)
        await asyncio.Event().wait()
    finally:
        wire = await target.open(HERE)  # the other one was idle, and ends
        await asyncio.shield(_done(wire, policy(recompute_every_s=3600, sample_count=1000)))
        if not has_come:
            target.wrong.append(f"the other cloud got no table within {time.monotonic() - begun:.1f} s")


async def _furnish(target: Target, cloud: str, admin: str, flavors: int, nodes: int) -> None:
    """Add so many flavors and nodes to the cloud."""
    wire = await target.open(HERE)
    for kind, count in (("flavors", flavors), ("nodes", nodes)):
        for number in range(count):
            body = {"name": f"{kind}-{number}", "cores": 1 + number % 60}
            target.tally(await wire.ask(request("POST", f"/v1/clouds/{cloud}/{kind}", admin, body)))


@asynccontextmanager
async def _hooks(target: Target, admin: str, cloud: str, serves: list[Serve]) -> AsyncIterator[list[str]]:
    """Webhooks of the cloud, each led to such a receiver; the paths of the webhooks."""
    token, wire = target.tokens[admin], await target.open(HERE)
    servers = [await asyncio.start_server(_quietly(serve), "127.0.0.1", 0) for serve in serves]
    ids = []
    for server in servers:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        made = await _done(wire, request("POST", f"/v1/clouds/{cloud}/webhooks", token, {"url": url}))
        ids.append(f"/v1/clouds/{cloud}/webhooks/{made['id']}")
    try:
        yield ids
    finally:
        wire = await target.open(HERE)
        for path in ids:
            await asyncio.shield(wire.ask(request("DELETE", path, token)))
        for server in servers:
            server.close()


async def _done(wire: Wire, content: bytes) -> Any:
    answer = await wire.ask(content)
    assert answer.status < 300, answer
    return json.loads(answer.body)


def _quietly(serve: Serve) -> Serve:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except Closed:
            pass
        finally:
            writer.close()

    return handle


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
