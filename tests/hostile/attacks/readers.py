"""Reads of somebody who may only read: dear ones, and streams."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from itertools import cycle

from hostile.target import Target, attack
from hostile.wire import Closed, Wire, request

_REVOKED_S = 6.0
"""Five seconds are documented; the rest is this machine's."""


def _reads(target: Target, *paths: str) -> Callable[[], bytes]:
    asked = cycle([request("GET", path, target.tokens["reader"]) for path in paths])
    return lambda: next(asked)


@attack("reader")
async def readiness_on_300(target: Target) -> None:
    """Readiness, with a token, on 300 connections."""
    await target.hammer(300, lambda: request("GET", "/readiness", target.tokens["reader"]))


@attack("reader")
async def runs_on_300(target: Target) -> None:
    """The list of runs, on 300 connections."""
    await target.hammer(300, lambda: request("GET", "/v1/clouds/target/runs", target.tokens["reader"]))


@attack("reader")
async def dear_lists(target: Target) -> None:
    """Whole pages of events, instances, decisions and nodes, as fast as they are answered."""
    cloud = "/v1/clouds/target"
    paths = [f"{cloud}/events?limit=1000", f"{cloud}/instances?limit=1000", f"{cloud}/decisions?limit=1000"]
    await target.hammer(16, _reads(target, *paths, f"{cloud}/decisions?outcome=rejected", f"{cloud}/nodes?limit=1000"))


@attack("reader")
async def dear_figures(target: Target) -> None:
    """Metrics of clouds, utilisation, reliability, classes, tables, quotes."""
    cloud = "/v1/clouds/target"
    paths = ["utilisation?points=1000", "reliability", "sla", "tables/newest", "quotes", "runs?limit=1000"]
    await target.hammer(16, _reads(target, "/metrics", *[f"{cloud}/{path}" for path in paths]))


@attack("admin")
async def metrics(target: Target) -> None:
    """The metrics of all of 160 clouds, as a scraper without patience reads them."""
    scrape = request("GET", "/metrics/clouds", target.tokens["admin"])
    await target.hammer(16, lambda: scrape)


@attack("reader")
async def metrics_of_the_process(target: Target) -> None:
    """The counts of the process on 160 clouds, in one format and the other, on six connections."""
    token = target.tokens["onlooker"]
    open_format = request("GET", "/metrics", token, None, "Accept: application/openmetrics-text; version=1.0.0")
    asked = cycle([request("GET", "/metrics", token), open_format])
    await target.hammer(6, lambda: next(asked))


@attack("reader")
async def explanations(target: Target) -> None:
    """Explanations of one instance after the other."""
    path = "/v1/clouds/target/instances/past-{}/explanation"
    await target.hammer(16, lambda: _ask(target, path.format(random.randrange(3000))))


def _ask(target: Target, path: str) -> bytes:
    return request("GET", path, target.tokens["reader"])


@attack("reader")
async def exports(target: Target) -> None:
    """The whole log, again and again, as an export reads it."""

    async def export(_: int) -> None:
        wire, after_seq = await target.open(), 0
        while True:
            answer = await wire.ask(_ask(target, f"/v1/clouds/target/events?limit=1000&after_seq={after_seq}"))
            target.tally(answer)
            if answer.status != 200:
                await asyncio.sleep(0.01)
                continue
            events = json.loads(answer.body)["events"]
            after_seq = events[-1]["seq"] if len(events) == 1000 else 0

    await target.each(8, export)


@attack("reader")
async def pages(target: Target) -> None:
    """The operator's pages, as fast as they are drawn."""
    cookie = f"Cookie: tenure_token={target.tokens['reader']}"
    below = ("", "/promise", "/quotes", "/curves", "/epochs", "/decisions", "/instances/past-1")
    drawn = cycle(
        [request("GET", f"/ui{path}", None, None, cookie) for path in ("", *[f"/clouds/target{end}" for end in below])]
    )
    await target.hammer(16, lambda: next(drawn))


@attack("reader")
async def event_streams(target: Target) -> None:
    """More event streams than a token may have, from the log's begin, some of which are not read; and new ones."""
    begin = request("GET", "/v1/clouds/target/events/stream?after_seq=0", target.tokens["reader"])
    await _streams(target, 60, begin)


@attack("reader")
async def page_streams(target: Target) -> None:
    """More streams of pages than a token may have, some of which are not read; and new ones."""
    cookie = f"Cookie: tenure_token={target.tokens['reader']}"
    await _streams(target, 200, request("GET", "/ui/clouds/target/live", None, None, cookie))


async def _streams(target: Target, count: int, begin: bytes) -> None:
    async def follow(number: int) -> None:
        wire = await target.open(room=1 << 16)
        try:
            await wire.send(begin)
            if number % 4 == 0:
                await asyncio.sleep(5)
                return
            target.counts[f"{await _status(wire)} stream"] += 1
            end = time.monotonic() + random.uniform(0.2, 2)
            while time.monotonic() < end and await asyncio.wait_for(wire.reader.read(1 << 16), 2):
                pass
        except TimeoutError:
            pass
        finally:
            wire.close()

    await target.each(count, follow)


async def _status(wire: Wire) -> str:
    return (await wire.reader.readuntil(b"\r\n"))[9:12].decode()


@attack("revoked", least_s=8)
async def streams_of_the_revoked(target: Target) -> None:
    """Streams of events and of pages go on after their token was revoked."""
    admin, wire = target.tokens["admin"], await target.open()
    body = {"name": f"revoked-{random.getrandbits(40)}", "role": "reader", "cloud": "target"}
    made = json.loads((await wire.ask(request("POST", "/v1/tokens", admin, body))).body)
    cookie = f"Cookie: tenure_token={made['token']}"
    streams = [
        request("GET", "/v1/clouds/target/events/stream?after_seq=0", made["token"]),
        request("GET", "/ui/clouds/target/live", None, None, cookie),
        request("GET", "/ui/live", None, None, cookie),
    ]
    following = [asyncio.create_task(_until_it_ends(target, streams[number % 3])) for number in range(30)]
    await asyncio.sleep(1)
    target.tally(await wire.ask(request("DELETE", f"/v1/tokens/{made['id']}", admin)))
    revoked = time.monotonic()
    ended, going_on = await asyncio.wait(following, timeout=_REVOKED_S)
    target.counts["ended"] += len(ended)
    if going_on:
        target.wrong.append(f"{len(going_on)} streams went on {time.monotonic() - revoked:.1f} s after the revocation")


async def _until_it_ends(target: Target, begin: bytes) -> None:
    wire = await target.open()
    try:
        await wire.send(begin)
        if (status := await _status(wire)) != "200":
            target.wrong.append(f"a stream was refused: {status}")
        await wire.reader.readuntil(b"\r\n0\r\n\r\n")  # the end of the answer; the connection may stay
    except Closed:
        pass
    finally:
        wire.close()
