"""Logs with great events: what is read of them at once is bounded in bytes, and they are read whole all the same."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count

import httpx2
import pytest
from api_service import Service, running_service
from followed_pages import pages_of
from sample_events import LOG

from app.domain.events import Event, FlavorAdded, InstanceRejected, InstanceStarted, NodeAdded, Recorded
from app.domain.values import Market, Rejection, Resources
from app.following.feed import Feed, StreamLimits
from app.forecasts.reliability import read_reliability
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import NO_EVENT, EventLog
from app.scheduling.store.pages import LISTED_BYTES

pytestmark = pytest.mark.anyio

GREAT = 40
_random = random.Random(7)
NAMES = tuple("n" + _random.randbytes(119).hex() for _ in range(999))
"""Names of nodes that make an event 240 KB large, as logs of earlier versions may hold them."""
SUPPLY: list[Event] = [
    NodeAdded(at_us=LOG[0].at_us, node="n1", capacity=Resources(9)),
    FlavorAdded(at_us=LOG[0].at_us, flavor="f", demand=Resources(1)),
]
_names = count(1)


def great(number: int, names: tuple[str, ...] = NAMES) -> InstanceRejected:
    return InstanceRejected(
        at_us=LOG[-1].at_us + number,
        instance_id=f"great-{number}",
        market=Market.ON_DEMAND,
        flavor="f",
        reason=Rejection.NO_CAPACITY,
        allowed=names,
    )


def admitted(number: int) -> Event:
    return InstanceStarted(
        at_us=LOG[-1].at_us + number,
        instance_id=f"spot-{number}",
        market=Market.SPOT,
        flavor="f",
        node="n1",
        lifetime_us=9,
        allowed=NAMES,
    )


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


async def grown(log: EventLog, database: Database, events: list[Event]) -> int:
    """A cloud with these events behind its first one."""
    cloud_id = await Clouds(database).create(f"great-{next(_names)}", Recorded(1, LOG[0]))
    for seq, event in enumerate(events, 2):
        await log.append(cloud_id, [Recorded(seq, event)])
    return cloud_id


def size_of(part: list[Recorded]) -> int:
    return sum(len(json.dumps(getattr(item.event, "allowed", ()))) for item in part)


@pytest.mark.parametrize("names", [NAMES, tuple(f"n{number:x<239}" for number in range(999))], ids=["random", "alike"])
async def test_what_is_read_at_once_is_bounded_and_nothing_is_left_out(
    log: EventLog, database: Database, names: tuple[str, ...]
) -> None:
    cloud_id = await grown(log, database, [great(number, names) for number in range(GREAT)])
    found, mark, parts = list[Recorded](), NO_EVENT, 0
    while mark.seq < GREAT + 1:
        part, mark = await log.after(cloud_id, mark, 1000, 1 << 20)
        assert part
        assert part.is_cut == (mark.seq < GREAT + 1)
        assert size_of(part) < 8 << 20
        found, parts = found + part, parts + 1
    assert mark == await log.last_mark(cloud_id)
    assert [item.seq for item in found] == [*range(1, GREAT + 2)]
    assert parts > 1
    one = await log.tail(cloud_id, 1, 1000, 1)
    assert (one, one.is_cut) == ([Recorded(2, great(0, names))], True)
    last = await log.tail(cloud_id, GREAT, 1000, 1)
    assert (len(last), last.is_cut) == (1, False)
    part, mark = await log.after(cloud_id, await log.mark_at(cloud_id, 5), 1000, 1)
    assert ([item.seq for item in part], part.is_cut, mark) == ([6], True, await log.mark_at(cloud_id, 6))


async def test_every_way_to_read_pages_is_bounded(log: EventLog, database: Database) -> None:
    cloud_id = await grown(log, database, [great(number) for number in range(GREAT)])
    parts = [
        await log.tail(cloud_id, 0, 10_000, LISTED_BYTES),
        await log.of_kinds(cloud_id, 0, 10_000, ["instance_rejected"], 10_000, LISTED_BYTES),
        await log.started_page(cloud_id, 0, 10_000),
        await log.newest(cloud_id, ["instance_rejected"], None, 0, 10_000),
    ]
    assert all(part.is_cut and 1 < len(part) < GREAT for part in parts)
    assert [item.seq for item in parts[3]] == [*range(GREAT + 1, GREAT + 1 - len(parts[3]), -1)]
    known = await log.starts(cloud_id, [f"great-{number}" for number in range(GREAT)])
    assert len(known) == GREAT
    assert not any(item.event.allowed for item in known.values())  # type: ignore[union-attr] # they are starts


async def test_the_record_of_promises_counts_great_starts_once(
    log: EventLog, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud_id = await grown(log, database, [*SUPPLY, *(admitted(number) for number in range(9))])
    whole = await read_reliability(log, cloud_id, 0, 1)
    monkeypatch.setattr("app.scheduling.store.log.FOLDED_BYTES", 1)
    assert len(await log.admitted_spot(cloud_id, 0, 100)) == 1
    assert await read_reliability(log, cloud_id, 0, 1) == whole


async def test_followers_get_great_events_a_few_at_a_time_and_few_are_kept(log: EventLog, database: Database) -> None:
    cloud_id = await grown(log, database, [great(number) for number in range(GREAT)])
    feed = Feed(log, LogHeads(database, log), lambda item: bytes(size_of([item])), StreamLimits(9, 9, 1, 60))
    for _ in range(2):  # the second one is behind what is kept
        seq = 0
        async for page in feed.follow(cloud_id, 0):
            assert sum(len(one.content) for one in page) < 4 * size_of([Recorded(1, great(1))])
            assert [one.seq for one in page] == [*range(seq + 1, seq + 1 + len(page))]
            seq += len(page)
            if seq == GREAT + 1:
                break
    kept = feed._recent[cloud_id]
    assert 0 < sum(len(item.content) for item in kept._items) == kept._bytes <= 1 << 22
    feed.close()


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, token_requests_per_s=100_000) as service:
        service.client.post("/v1/clouds", json={"name": "old", "policy": {"guarantee": "none"}}).raise_for_status()
        service.client.post("/v1/clouds/old/nodes", json={"name": "n1", "cores": 1}).raise_for_status()
        service.client.post("/v1/clouds/old/flavors", json={"name": "f", "cores": 1}).raise_for_status()
        asyncio.run(grow_old(database_url, service.last_seq("old")))
        yield service


async def grow_old(url: str, seq: int) -> None:
    database = Database(url)
    await check_agreement(database)
    cloud_id = await Clouds(database).find("old")
    assert cloud_id is not None
    (last,) = await EventLog(database).tail(cloud_id, seq - 1, 1)
    for number in range(GREAT):
        event = replace(great(number), at_us=last.event.at_us)
        await EventLog(database).append(cloud_id, [Recorded(seq + 1 + number, event)])
    await database.close()


@pytest.mark.parametrize("kind", ["events", "instances", "decisions"])
def test_lists_of_an_old_log_tell_everything_in_short_pages(service: Service, kind: str) -> None:
    pages = pages_of(service.client, f"/v1/clouds/old/{kind}", kind)
    told = [one.get("instance") or one.get("id") or "" for _, items in pages for one in items]
    assert [name for name in told if name.startswith("great-")] == sorted(
        (f"great-{number}" for number in range(GREAT)), key=lambda name: int(name[6:]), reverse=kind == "decisions"
    )
    assert max(size for size, _ in pages) < 2 << 20
    assert len(pages) > 1


def test_a_process_reads_an_old_log_and_a_worker_makes_its_table(service: Service, database_url: str) -> None:
    service.client.patch("/v1/clouds/old", json={"policy": {"guarantee": "per_instance"}}).raise_for_status()
    service.client.post("/v1/clouds/old/tables").raise_for_status()
    service.compute_tables()
    assert service.client.get("/v1/clouds/old/tables").json()["tables"]
    service.roll_up()
    with running_service(database_url) as another:
        assert another.client.get("/v1/clouds/old").json()["seq"] == service.last_seq("old")


def test_what_the_log_keeps_of_a_start_are_nodes_that_there_are(service: Service) -> None:
    body = {"id": "many", "market": "on_demand", "flavor": "f", "nodes": NAMES}
    for _ in range(2):  # a repeated one has the same answer
        answer = service.client.post("/v1/clouds/old/instances", json=body)
        assert (answer.status_code, answer.json()["status"]) == (201, "rejected")
    found = service.client.get("/v1/clouds/old/events", params={"after_seq": answer.json()["seq"] - 1, "limit": 1})
    assert found.json()["events"][0]["allowed"] == [NAMES[0]]
    assert len(found.content) < 1000


def test_great_starts_wait_unread_behind_others_of_the_token_and_small_ones_do_not(service: Service) -> None:
    url = httpx2.URL(f"{service.url}/v1/clouds/old/instances")
    token = service.client.post("/v1/tokens", json={"name": "slow", "role": "member", "cloud": "old"}).json()["token"]
    head = f"POST {url.path} HTTP/1.1\r\nHost: t\r\nX-Auth-Token: {token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 20000\r\n\r\n"

    def status_of(name: str, nodes: tuple[str, ...]) -> int:
        body = {"id": name, "market": "on_demand", "flavor": "f", "nodes": nodes}
        return httpx2.post(url, json=body, headers={"X-Auth-Token": token}, timeout=2).status_code

    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((url.host, url.port))) for _ in range(8)]
        for connection in slow:
            connection.sendall(head.encode())
        time.sleep(0.3)
        assert status_of("small", NAMES[:9]) == 201
        with pytest.raises(httpx2.ReadTimeout):
            status_of("large", NAMES)
        slow[0].close()
        assert status_of("large", NAMES) == 201
