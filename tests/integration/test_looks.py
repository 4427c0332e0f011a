"""Looks on the server's clock: workers extend what wants more, one of them each time, and tell in time when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import httpx2
import pytest
from api_service import Service

from app.domain.times import HOUR_US
from app.engine.cloud import MINUTE_US
from app.notices import looks
from app.notices.looks import Looks
from app.processes.worker_wiring import open_worker

_names = (f"looked-{number}" for number in count())
COUNT = 40


@pytest.fixture
def cloud(client: httpx2.Client) -> str:
    """A cloud that promises nothing, two hours ahead and five in all, with instances that want as much as they get."""
    name = next(_names)
    policy = {"guarantee": "none", "horizon_s": 7200, "longest_lifetime_s": 5 * 3600}
    client.post("/v1/clouds", json={"name": name, "policy": policy}).raise_for_status()
    path = f"/v1/clouds/{name}"
    client.post(f"{path}/nodes", json={"name": "node", "cores": COUNT}).raise_for_status()
    client.post(f"{path}/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    for number in range(COUNT):
        body = {"id": f"s{number}", "market": "spot", "flavor": "c1", "lifetime": "longest"}
        answer = client.post(f"{path}/instances", json=body).json()
        assert (answer["status"], answer["lifetime_s"], answer["limited_by"]) == ("accepted", 7200, None)
    return path


def events(client: httpx2.Client, path: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in client.get(f"{path}/events?limit=1000").json()["events"] if one["kind"] == kind]


def by_workers(service: Service, how_many: int, work: Callable[[list[Looks], list[int]], Awaitable[None]]) -> None:
    """Run the work with the looks of some workers, whose clock is so far ahead as the first number of a list says."""

    async def run() -> None:
        ahead_us = [0]
        async with AsyncExitStack() as stack:
            workers = [await stack.enter_async_context(open_worker(service.settings)) for _ in range(how_many)]
            found = [one.looks for one in workers]
            for one in found:
                now_us = one._now_us
                one._now_us = lambda now_us=now_us: now_us() + ahead_us[0]
            await work(found, ahead_us)

    asyncio.run(run())


def test_one_of_several_workers_extends_each_instance(service: Service, client: httpx2.Client, cloud: str) -> None:
    async def work(found: list[Looks], ahead_us: list[int]) -> None:
        await asyncio.gather(*(one.extend_wanted() for one in found))
        assert events(client, cloud, "instance_extended") == [], "nothing is due"
        ahead_us[0] = HOUR_US + MINUTE_US
        await asyncio.gather(*(one.extend_wanted() for one in found))

    by_workers(service, 3, work)
    longer = events(client, cloud, "instance_extended")
    assert sorted(one["id"] for one in longer) == sorted(f"s{number}" for number in range(COUNT))
    assert all(one["is_automatic"] and one["former_lifetime_s"] == 7200 for one in longer)
    assert all(2.9 * 3600 < one["lifetime_s"] < 3.1 * 3600 for one in longer)


def test_a_worker_that_knows_nothing_repeats_nothing(service: Service, client: httpx2.Client, cloud: str) -> None:
    """After a look that nothing came of, after extensions, and after the notices: a new worker adds no event."""

    async def look(found: list[Looks], ahead_us: list[int]) -> None:
        for ahead in (1.1, 2.2, 3.3, 4.2, 4.75, 4.9):
            ahead_us[0] = int(ahead * HOUR_US)
            await found[0].extend_wanted()
            seq = client.get(cloud).json()["seq"]
            await found[1].extend_wanted()
            assert client.get(cloud).json()["seq"] == seq
            found[1]._looked_us.clear()
            await found[1].extend_wanted()
            assert client.get(cloud).json()["seq"] == seq, f"{ahead} h ahead"

    by_workers(service, 2, look)
    told = events(client, cloud, "promise_ending")
    assert sorted(one["id"] for one in told) == sorted(f"s{number}" for number in range(COUNT)), "each is told once"
    assert {(one["lifetime_s"], one["reason"], one["afterwards"]) for one in told} == {
        (5 * 3600, None, "displaced_first")
    }
    assert all(client.get(f"{cloud}/instances/{one['id']}").json()["lifetime_s"] == 5 * 3600 for one in told[:3])


def test_a_round_is_bounded_and_what_is_left_comes_in_the_next(
    service: Service, client: httpx2.Client, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "AT_ONCE", 8)
    monkeypatch.setattr(looks, "ROUND_S", 1e-9)
    ticks = count()
    monkeypatch.setattr(looks, "monotonic", lambda: float(next(ticks)) * 0.6e-9)
    written = []

    async def look(found: list[Looks], ahead_us: list[int]) -> None:
        ahead_us[0] = HOUR_US + MINUTE_US
        while len(events(client, cloud, "instance_extended")) < COUNT:
            before = len(events(client, cloud, "instance_extended"))
            await found[0].extend_wanted()
            written.append(len(events(client, cloud, "instance_extended")) - before)

    by_workers(service, 1, look)
    assert written == [8] * (COUNT // 8)
