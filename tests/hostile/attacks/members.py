"""Requests of a member, in a cloud of its own."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from typing import Any

from hostile.target import Target, attack
from hostile.wire import request

_BATCH = "/v1/clouds/{}/batch"
_STARTS = "/v1/clouds/{}/instances"
_BUSY = ("service.overloaded", "log.contended")
_numbers = count()
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def _id() -> str:
    return f"i-{random.getrandbits(40):x}-{next(_numbers)}"


def _start(market: str = "on_demand", **also: Any) -> dict[str, Any]:
    return {"id": _id(), "market": market, "flavor": "small", **also}


@attack("member")
async def unknown_keys(target: Target) -> None:
    """Bodies of a megabyte with 110,000 unknown keys, and deep ones."""
    keys = json.dumps({f"k{number}": 1 for number in range(80_000)}).encode()[: (1 << 20) - 1] + b"}"
    deep, lists = b"[" * 500_000, b'{"operations":[' + b"{}," * 300_000 + b"{}]}"
    text = b'{"operations":"' + b"\\u0041" * 170_000 + b'"}'
    member = target.tokens["member"]
    kinds = cycle(
        [
            request("POST", path.format("target"), member, body)
            for body in (keys, deep, lists, text)
            for path in (_BATCH, _STARTS)
        ]
    )
    await target.hammer(8, lambda: next(kinds))


@attack("member")
async def faulty_batches(target: Target) -> None:
    """Batches of a thousand operations, each with as many faults as one may have."""
    fault = {f"k{number}": "v" * 90 for number in range(9)}
    operations = [{"start": {**_start("never"), **fault, "lifetime_s": "x", "at": "never"}} for _ in range(800)]
    body = json.dumps({"operations": operations}).encode()[: 1 << 20]
    await target.hammer(8, lambda: request("POST", _BATCH.format("target"), target.tokens["member"], body))


@attack("member", *_BUSY)
async def evicting_batches(target: Target) -> None:
    """Batches of 1000 that evict, among 16,000 instances half of which overrun their lifetime."""

    def batch() -> bytes:
        operations = []
        for _ in range(333):
            start = _start()
            stop = {"stop": {"id": start["id"]}}
            operations += [{"start": start}, stop, {"start": _start("spot", lifetime_s=random.choice((1, 9999)))}]
        return request("POST", _BATCH.format("overrun"), target.tokens["overrun"], {"operations": operations})

    await target.hammer(4, batch)


@attack("member", *_BUSY)
async def extending_batches(target: Target) -> None:
    """Batches of 1000 extensions over 8 connections, each of them accepted."""
    starts = [_start("spot", lifetime_s=100_000) for _ in range(1000)]
    wire, token, lifetimes = await target.open(), target.tokens["member"], count(100_001)
    path, operations = _BATCH.format("target"), [{"start": start} for start in starts]
    target.tally(await wire.ask(request("POST", path, token, {"operations": operations})))
    wire.close()

    def batch() -> bytes:
        lifetime_s = next(lifetimes)
        longer = [{"extend": {"id": start["id"], "lifetime_s": lifetime_s}} for start in starts]
        return request("POST", path, token, {"operations": longer})

    await target.hammer(8, batch)


@attack("member", *_BUSY)
async def many_starts(target: Target) -> None:
    """Single starts and stops over 64 connections, as fast as they are answered."""
    member = target.tokens["member"]
    await target.hammer(64, lambda: request("POST", _STARTS.format("target"), member, _start()))


@attack("member", *_BUSY)
async def starts_on_700(target: Target) -> None:
    """Starts on nearly as many connections as one address may have."""
    member = target.tokens["member"]
    await target.hammer(700, lambda: request("POST", _STARTS.format("target"), member, _start()))


@attack("member", *_BUSY)
async def starts_with_great_nodes(target: Target) -> None:
    """Starts that may take a thousand nodes with long names, none of which there is, on 200 connections."""
    names = [f"n{number:x<230}" for number in range(999)]
    body, member = json.dumps(_start(nodes=names)), target.tokens["member"]
    before, after = body.split(json.loads(body)["id"])
    path = _STARTS.format("target")
    await target.hammer(200, lambda: request("POST", path, member, f"{before}{_id()}{after}".encode()))


@attack("member", *_BUSY)
async def unknown_flavors_on_300(target: Target) -> None:
    """Starts with a flavor that there is not, on 300 connections."""
    member = target.tokens["member"]
    await target.hammer(300, lambda: request("POST", _STARTS.format("target"), member, _start() | {"flavor": "none"}))


@attack("member", *_BUSY)
async def many_batches(target: Target) -> None:
    """Batches of 1000 starts and stops over 32 connections: more than the queue of a cloud takes."""
    ready = []
    for _ in range(8):
        started = [_start() for _ in range(500)]
        operations = [{"start": start} for start in started] + [{"stop": {"id": start["id"]}} for start in started]
        ready.append(json.dumps({"operations": operations}).encode())
    bodies = cycle(ready)
    await target.hammer(32, lambda: request("POST", _BATCH.format("target"), target.tokens["member"], next(bodies)))


@attack("service", *_BUSY)
async def handovers(target: Target) -> None:
    """Evictions under a grace period that nobody confirms, up to the bound, and lists of them all."""
    token, path = target.tokens["graced"], "/v1/clouds/graced/handovers?limit=1000"

    def evictions() -> bytes:
        operations = []
        for _ in range(333):
            start = _start()
            operations += [{"start": start}, {"stop": {"id": start["id"]}}, {"start": _start("spot", lifetime_s=9999)}]
        return request("POST", _BATCH.format("graced"), token, {"operations": operations})

    kinds = cycle([evictions, evictions, lambda: request("GET", path, token)])
    await target.hammer(6, lambda: next(kinds)())  # noqa: PLW0108 - each call takes the next


@attack("member", *_BUSY)
async def many_classes(target: Target) -> None:
    """Spot starts, each with an eviction probability of its own."""

    def start() -> bytes:
        body = _start("spot", lifetime_s=60, eviction_probability=random.random() * 0.98 + 0.01)
        return request("POST", _STARTS.format("target"), target.tokens["member"], body)

    await target.hammer(16, start)


_WAITS = (*_BUSY, "batch.epochs_crossed", "log.unavailable", "service.stopping")


@attack("member", *_WAITS)
async def clock_jumps(target: Target) -> None:
    """An external clock is sent to the end of time, and over a thousand epochs in one batch."""
    steps, token = count(1), target.tokens["jumping"]

    def at(passed: timedelta) -> str:
        return (_BEGAN + passed).isoformat()

    def jump() -> bytes:
        if next(steps) % 2:
            return request("POST", _STARTS.format("jumping"), token, _start(at="9999-12-31T23:59:59Z"))
        begin = timedelta(hours=next(steps) * 17)
        operations = [
            {"start": _start("spot", lifetime_s=60, at=at(begin + timedelta(seconds=60 * number)))}
            for number in range(1000)
        ]
        return request("POST", _BATCH.format("jumping"), token, {"operations": operations})

    async def watch(_: int) -> None:
        wire = await target.open()
        while True:
            target.tally(await wire.ask(request("GET", "/v1/clouds/jumping/sla", target.tokens["jumping_reader"])))

    async def go(number: int) -> None:
        if number < 2:
            await watch(number)
        wire = await target.open()
        while True:
            target.tally(await wire.ask(jump()))

    await target.each(10, go)


@attack("member")
async def squatting(target: Target) -> None:
    """Another's instance ids are started and stopped where ids are not shared."""
    mallory, alice = target.tokens["mallory"], target.tokens["alice"]
    path = _STARTS.format("owned")
    hers = [f"alice.web-{_id()}" for _ in range(20)]
    wire = await target.open()
    for name in hers[:10]:
        target.tally(await wire.ask(request("POST", path, alice, {**_start(), "id": name})))
    attempts = count()

    def attempt() -> bytes:
        number = next(attempts)
        name = hers[number % 20]
        if number // 20 % 2:
            return request("DELETE", f"{path}/{name}", mallory)
        return request("POST", path, mallory, {**_start(), "id": name})

    async def try_on(_: int) -> None:
        wire = await target.open()
        while True:
            answer = await wire.ask(attempt())
            target.tally(answer)
            if answer.status < 400:
                target.wrong.append(f"an id of another's was taken or stopped: {answer.told}")

    await target.each(8, try_on)


@attack("service", *_BUSY)
async def confirmations(target: Target) -> None:
    """Confirmations of hand-overs that there are not."""
    path = "/v1/clouds/target/handovers/{}/confirm"
    await target.hammer(16, lambda: request("POST", path.format(_id()), target.tokens["service"]))
