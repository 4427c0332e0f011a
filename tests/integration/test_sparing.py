"""Moves that notices of risk propose: told once, in log, webhook, explanation, page and audit, and they spare."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx2
import pytest
from api_service import TOKEN, Service, running_service
from receivers import Receiver, data_of
from risky_cloud import WAVES, at, explained, log_of_end, pass_time, risky_cloud, start, work, written

from app.domain.events.wire import of_wire
from app.processes.worker_wiring import WorkerParts, open_worker
from app.workbench.audit import audit

BEGIN = 600 * WAVES
_names = (f"spared-{number}" for number in count())


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, webhook_allow_private=True) as service:
        yield service


@pytest.fixture
def risky(service: Service) -> str:
    return risky_cloud(service, next(_names))


def risks_of(client: httpx2.Client, path: str) -> list[dict]:
    return [event for event in log_of_end(client, path) if event["kind"] == "eviction_risk"]


async def delivered(parts: WorkerParts, receiver: Receiver, how_many: int) -> None:
    """Let a worker deliver to webhooks until so many events have come."""
    running = asyncio.create_task(parts.deliveries.run())
    await asyncio.to_thread(receiver.wait_for, lambda: len(receiver.taken) >= how_many)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def assess(service: Service) -> None:
    work(service, lambda parts: parts.warnings.assess_risks())


def give_room(client: httpx2.Client, risky: str, seconds: float, *nodes: str) -> list[dict[str, str]]:
    """Give the cloud a flavor of two cores, and two nodes of one; return the moves that make room for the flavor."""
    client.post(f"{risky}/flavors", json={"name": "c2", "cores": 2, "at": at(seconds)}).raise_for_status()
    for node in nodes:
        client.post(f"{risky}/nodes", json={"name": node, "cores": 1, "at": at(seconds)}).raise_for_status()
    return [{"id": name, "node": "node-0", "to": to} for name, to in zip(("s3", "s2"), nodes, strict=True)]


def page_of(service: Service, risky: str) -> str:
    """Return the operator's page of the cloud."""
    with httpx2.Client(base_url=service.url, follow_redirects=True) as browser:
        then = f"/ui/{risky.removeprefix('/v1/')}"
        own = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        found = browser.post("/ui/sign-in", content=f"token={TOKEN}&next={then}", headers=own)
        assert found.status_code == 200, found.text
        return found.text


def told_with_moves(client: httpx2.Client, risky: str) -> list[dict]:
    return [one for one in risks_of(client, risky) if one["moves"]]


def test_a_notice_of_risk_proposes_moves(service, client, risky) -> None:
    """No instance can move at first; once there is room, notice and webhook tell the moves."""
    with Receiver() as receiver:
        hook = {"url": receiver.url, "kinds": ["eviction_risk"]}
        receiver.secret = client.post(f"{risky}/webhooks", json=hook).json()["secret"]
        assess(service)
        assert {(one["id"], *one["moves"]) for one in risks_of(client, risky)} == {("s0",), ("s1",), ("s2",), ("s3",)}
        moves = give_room(client, risky, BEGIN + 10, "node-1", "node-2")
        assert client.get(f"{risky}/proposals").json()["proposals"] == [
            {"flavor": "c2", "node": "node-0", "moves": moves}
        ]
        assess(service)
        told = told_with_moves(client, risky)
        assert [(one["id"], one["level"], one["moves"]) for one in told] == [
            (name, "raised", moves) for name in ("s3", "s2")
        ]
        written_before = client.get(risky).json()["seq"]
        assess(service)
        assert client.get(risky).json()["seq"] == written_before, "it is told once"
        work(service, lambda parts: delivered(parts, receiver, len(risks_of(client, risky))))
        assert [one for one in map(data_of, receiver.taken) if one["moves"]] == told
        assert receiver.wrong == []


def test_moves_that_were_proposed_are_carried_out(service, client, risky, tmp_path: Path) -> None:
    moves = give_room(client, risky, BEGIN + 10, "node-1", "node-2")
    assess(service)
    words = explained(client, risky, "s2")[1]
    assert "To spare it, s3 could be moved from node-0 to node-1, then s2 could be moved from node-0 to" in words
    assert page_of(service, risky).count("To spare it") == 2
    for move in moves:
        client.post(
            f"{risky}/instances/{move['id']}/move", json={"node": move["to"], "at": at(BEGIN + 15)}
        ).raise_for_status()
    assert "To spare it" not in page_of(service, risky), "it is done"
    started = start(client, risky, "next", "on_demand", "c2", BEGIN + 20)
    assert (started["node"], started["victims"]) == ("node-0", [])
    rows = written([of_wire(event) for event in whole_log(client, risky)], tmp_path)
    assert audit(rows, []).finding is None
    told = client.get(f"{risky}/instances/s3/explanation").json()["notices"]
    assert [one["moves"] for one in told] == [moves]
    at_first = next(i for i, row in enumerate(rows) if row.moves)
    assert [(one.instance_id, one.node, one.to) for one in rows[at_first].moves] == [
        (one["id"], one["node"], one["to"]) for one in moves
    ]


def test_the_audit_finds_moves_of_whom_cannot_move(service, client, risky, tmp_path: Path) -> None:
    give_room(client, risky, BEGIN + 10, "node-1", "node-2")
    assess(service)
    rows = written([of_wire(event) for event in whole_log(client, risky)], tmp_path)
    at_first = next(i for i, row in enumerate(rows) if row.moves)
    assert audit(rows, []).finding is None
    for wrong in ({"instance_id": "again"}, {"node": "node-2"}, {"to": "gone"}):
        moves_told = (replace(rows[at_first].moves[0], **wrong),)
        spoilt = [*rows[:at_first], rows[at_first]._replace(moves=moves_told), *rows[at_first + 1 :]]
        assert audit(spoilt, []).finding.seq == rows[at_first].seq, wrong
    again = rows[at_first]._replace(seq=len(rows) + 1, at_us=rows[-1].at_us)
    assert audit([*rows, again], []).finding is None
    for row in (again._replace(moves=None), again._replace(reason="cleared", risk=0.0)):
        assert audit([*rows, row], []).finding.seq == row.seq


def test_other_moves_are_told_after_ten_minutes(service, client, risky) -> None:
    """Plans change with every start, so what is told of them is bounded in time."""
    assess(service)
    give_room(client, risky, BEGIN + 10, "node-1", "node-2")
    assess(service)
    told = told_with_moves(client, risky)
    for node in ("node-1", "node-2"):
        client.post(f"{risky}/nodes/{node}/drain", json={"at": at(BEGIN + 20)}).raise_for_status()
    for node in ("node-3", "node-4"):
        client.post(f"{risky}/nodes", json={"name": node, "cores": 1, "at": at(BEGIN + 20)}).raise_for_status()
    assess(service)
    assert told_with_moves(client, risky) == told
    pass_time(client, risky, BEGIN + 610)
    assess(service)
    later = told_with_moves(client, risky)[len(told) :]
    assert [(one["id"], [move["to"] for move in one["moves"]]) for one in later] == [
        (name, ["node-3", "node-4"]) for name in ("s3", "s2")
    ]


def test_two_workers_propose_moves_once(service, client, risky) -> None:
    assess(service)
    give_room(client, risky, BEGIN + 10, "node-1", "node-2")

    async def both() -> None:
        async with open_worker(service.settings) as one, open_worker(service.settings) as other:
            await asyncio.gather(one.warnings.assess_risks(), other.warnings.assess_risks())

    asyncio.run(both())
    assert [one["id"] for one in told_with_moves(client, risky)] == ["s3", "s2"]


def test_a_risk_that_begins_is_told_with_its_moves(service, client, risky) -> None:
    moves = give_room(client, risky, BEGIN + 10, "node-1", "node-2")
    assess(service)
    assert {one["id"]: one["moves"] for one in risks_of(client, risky)} == {"s3": moves, "s2": moves}


def test_nothing_is_proposed_to_whom_cannot_move(service, client, risky) -> None:
    """A group stands together, so where it would be evicted, no move spares anybody."""
    for name in ("s3", "s2"):
        client.delete(f"{risky}/instances/{name}", params={"at": at(BEGIN + 5)}).raise_for_status()
    group = {"id": "g", "market": "spot", "flavor": "c1", "lifetime_s": 3600, "count": 2, "at": at(BEGIN + 6)}
    assert client.post(f"{risky}/instances", json=group).json()["status"] == "accepted"
    give_room(client, risky, BEGIN + 10, "node-1", "node-2")
    assess(service)
    assert "g" in {one["id"] for one in risks_of(client, risky)}
    assert told_with_moves(client, risky) == []


def whole_log(client: httpx2.Client, path: str) -> list[dict]:
    found: list[dict] = []
    while more := client.get(f"{path}/events?after_seq={len(found)}&limit=1000").json()["events"]:
        found += more
    return found
