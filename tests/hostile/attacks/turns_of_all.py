"""Questions at which all callers have turns, by somebody whose hundreds of other requests wait in a line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count

from hostile.target import Target, attack
from hostile.wire import request

_AT = "at=2026-01-{:02}T01:00:{:02}Z"


async def _in_a_line(target: Target, reads: int, *others: tuple[int, Callable[[], bytes]]) -> None:
    """Read single instances on so many connections, and send other requests with the same token on some."""
    numbers, token = count(), target.tokens["venues"]
    path = "/v1/clouds/target/instances/never-{}"
    async with asyncio.TaskGroup() as group:
        for connections, make in others:
            group.create_task(target.hammer(connections, make))
        group.create_task(target.hammer(reads, lambda: request("GET", path.format(next(numbers)), token)))


@attack("reader, service", looks=["/v1/clusters"])
async def clusters_in_a_line(target: Target) -> None:
    """Show a cluster of which ever more is told, on 300 connections, beside 300 with single reads."""
    numbers = count()

    def tell() -> bytes:
        keys = (f"k{time.time_ns()}-{next(numbers)}" for _ in range(20))
        facts = {"node": "theirs-all-1", "why": "x"}
        events = [{"key": key, "at": "2026-01-01T00:00:00Z", "kind": "node_bought", "facts": facts} for key in keys]
        return request("POST", "/v1/clusters/theirs/events", target.tokens["manager"], {"events": events})

    shown = request("GET", "/v1/clusters/theirs", target.tokens["venues"])
    await _in_a_line(target, 300, (300, lambda: shown), (8, tell))


@attack("reader", looks=["/v1/clusters/own/cost"])
async def costs_in_a_line(target: Target) -> None:
    """Ask for the cost of a cluster on two connections, beside 650 with single reads."""
    cost = request("GET", "/v1/clusters/theirs/cost", target.tokens["venues"])
    await _in_a_line(target, 650, (2, lambda: cost))


@attack("reader", needs_venue=True, looks=["/v1/venues/few/quotes?at=2026-01-12T01:00:00Z&lifetime_s={}"])
async def quotes_in_a_line(target: Target) -> None:
    """Ask for quotes of two venues, each as of another time, on a connection each, beside 500 with single reads."""
    numbers = count()

    def ask(venue: str) -> bytes:
        day, second = divmod(next(numbers) % 540, 60)
        path = f"/v1/venues/{venue}/quotes?lifetime_s=3600&{_AT.format(4 + day, second)}"
        return request("GET", path, target.tokens["venues"])

    await _in_a_line(target, 500, (1, lambda: ask("many")), (1, lambda: ask("few")))
