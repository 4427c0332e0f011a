"""A run: the stage, the load and the plan together for a time, then the final logs, and everything written down."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from faults.calls import HEADERS, TIMEOUT, Caller
from faults.follow import Follower
from faults.inflict import Inflicter
from faults.load import CLOUDS, QUIET, Client, Controller, Operator, Reader, Wanderer, set_up
from faults.plan import SERVERS, Fault, Inflicted, draw
from faults.record import Attempt, Follow, Record
from faults.stage import Stage

_PROGRESS_S = 5.0
_SETTLE_S = 20.0
_PAGE = 1000
_ROAMING = 2
_FOLLOWERS = 2

Log = list[dict[str, Any]]


@dataclass
class Outcome:
    """The result of a run: all attempts, the faults, the events sent to followers, and each cloud's final log."""

    begun: float
    ended: float
    attempts: list[Attempt]
    follows: list[Follow]
    inflicted: list[Inflicted] = field(default_factory=list)
    logs: dict[str, Log] = field(default_factory=dict)


def run(directory: Path, seconds: float, seed: int, defect: str | None = None) -> Outcome:
    """Run the plan of the seed for so many seconds; artefacts go to the directory, no process is left."""
    stage = Stage(directory, defect)
    try:
        say("starting PostgreSQL, the proxy, three API processes and a worker")
        stage.open()
        return asyncio.run(_drive(stage, directory, seconds, seed))
    finally:
        stage.close()


def say(line: str) -> None:
    """A line of progress."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _drive(stage: Stage, directory: Path, seconds: float, seed: int) -> Outcome:
    record, rng, plan = Record(directory / "operations.jsonl"), random.Random(seed), draw(seed, seconds)
    (directory / "plan.json").write_text(json.dumps([asdict(fault) for fault in plan], indent=1))
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=50)
    async with AsyncExitStack() as opened:
        http = await opened.enter_async_context(httpx2.AsyncClient(timeout=TIMEOUT, limits=limits))
        opened.callback(record.close)
        caller = Caller(stage.urls, record, http, rng)
        await _create_clouds(caller, http)
        begun = time.monotonic()
        followers = _followers(caller, http, record)
        following = [asyncio.create_task(follower.run()) for follower in followers]
        opened.push_async_callback(_cancel, following)
        clients = [asyncio.create_task(client.run()) for client in await _clients(caller, rng)]
        opened.push_async_callback(_cancel, clients)
        inflicter = Inflicter(stage)
        await _under_faults(inflicter, plan, begun, seconds, record)
        ended = time.monotonic()
        caller.stopping = True
        assert await asyncio.to_thread(stage.wait_until_up), f"a process did not come up again: see {directory}"
        await asyncio.wait(clients, timeout=_SETTLE_S)
        _raise_faults_of_our_own(clients)
        logs = await _final_logs(http, stage.urls, followers)
        (directory / "logs.json").write_text(json.dumps(logs))
        return Outcome(begun, ended, record.attempts, record.follows, inflicter.done, logs)


async def _create_clouds(caller: Caller, http: httpx2.AsyncClient) -> None:
    for name, policy in CLOUDS.items():
        url = f"{caller.urls[SERVERS[0]]}/v1/clouds"
        created = await http.post(url, json={"name": name, "policy": policy}, headers=HEADERS)
        assert created.status_code == 201, created.text


async def _clients(caller: Caller, rng: random.Random) -> list[Client]:
    """For each cloud a controller at each process, some that roam, an operator and a reader; for the quiet one one."""
    clients: list[Client] = []
    for cloud in CLOUDS:
        shared = await set_up(caller, cloud)
        if cloud == QUIET:
            clients.append(Wanderer(caller, shared, random.Random(rng.random())))
            continue
        homes = (*SERVERS, *[None] * _ROAMING)
        clients += [Controller(caller, shared, random.Random(rng.random()), home) for home in homes]
        clients += [kind(caller, shared, random.Random(rng.random())) for kind in (Operator, Reader)]
    return clients


def _followers(caller: Caller, http: httpx2.AsyncClient, record: Record) -> list[Follower]:
    record.follows = [Follow(cloud) for cloud in CLOUDS for _ in range(_FOLLOWERS)]
    return [Follower(caller, http, follow) for follow in record.follows]


async def _under_faults(inflicter: Inflicter, plan: list[Fault], begun: float, seconds: float, record: Record) -> None:
    inflicting = asyncio.create_task(inflicter.run(plan, begun))
    try:
        while (left := begun + seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _PROGRESS_S))
            say(_progress(inflicter, record, time.monotonic() - begun, seconds))
            if inflicting.done():
                inflicting.result()
    finally:
        await _cancel([inflicting])
        await asyncio.to_thread(inflicter.heal_all)


def _progress(inflicter: Inflicter, record: Record, passed: float, seconds: float) -> str:
    unknown = sum(attempt.is_unknown for attempt in record.attempts)
    fault = inflicter.current
    now = f"{fault.kind} {fault.target}" if fault else "-"
    return (
        f"{passed:5.0f} / {seconds:.0f} s   {len(record.attempts)} operations, {unknown} with unknown outcome   "
        f"{len(inflicter.done)} faults   now: {now}"
    )


async def _read_log(http: httpx2.AsyncClient, urls: dict[str, str], cloud: str) -> Log:
    """The whole log, pages in turn from all processes."""
    log: Log = []
    while True:
        url = list(urls.values())[len(log) // _PAGE % len(urls)]
        after_seq = log[-1]["seq"] if log else 0
        query = {"after_seq": after_seq, "limit": _PAGE}
        page = await http.get(f"{url}/v1/clouds/{cloud}/events", params=query, headers=HEADERS, timeout=60)
        assert page.status_code == 200, page.text
        events = page.json()["events"]
        log += events
        if len(events) < _PAGE:
            return log


async def _final_logs(http: httpx2.AsyncClient, urls: dict[str, str], followers: Sequence[Follower]) -> dict[str, Log]:
    """Return the logs as the followers have them. The worker may still report what became overdue."""
    give_up_at = time.monotonic() + _SETTLE_S
    while True:
        logs = {cloud: await _read_log(http, urls, cloud) for cloud in CLOUDS}
        await _until_caught_up(followers, logs)
        if all(one.last_seq == len(logs[one.cloud]) for one in followers) or time.monotonic() > give_up_at:
            return logs


async def _until_caught_up(followers: Iterable[Follower], logs: dict[str, Log]) -> None:
    give_up_at = time.monotonic() + _SETTLE_S
    for one in followers:
        while one.last_seq < len(logs[one.cloud]) and time.monotonic() < give_up_at:  # noqa: ASYNC110 - it must not know
            await asyncio.sleep(0.1)


def _raise_faults_of_our_own(clients: Iterable[asyncio.Task[None]]) -> None:
    for client in clients:
        if client.done() and not client.cancelled():
            client.result()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
