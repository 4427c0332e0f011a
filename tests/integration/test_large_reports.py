"""Clusters of which much is told: pages end early, and what is read is bounded, whatever a manager tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from api_service import Service, running_service
from followed_pages import pages_of

from app.clusters.store.clusters import ClusterStore
from app.domain.times import rfc3339
from app.platform.database.database import Database, Parameters

BEGIN_US = 1_767_225_600_000_000
FACTS = {f"f{number}": "x" * 480 for number in range(16)}


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Service]:
    with running_service(database_url, token_requests_per_s=100_000) as service:
        yield service


def tell(client: httpx2.Client, name: str, events: list[dict[str, Any]], at_once: int) -> None:
    for begin in range(0, len(events), at_once):
        answer = client.post(f"/v1/clusters/{name}/events", json={"events": events[begin : begin + at_once]})
        assert answer.status_code == 200, answer.text


def event(number: int, kind: str, **facts: Any) -> dict[str, Any]:
    return {"key": f"{kind}-{number}", "at": rfc3339(BEGIN_US + number), "kind": kind, "facts": facts}


@pytest.fixture(scope="module")
def client(service: Service) -> httpx2.Client:
    """Two clusters: `wide` has events with many facts, and `marked` jobs with many marks."""
    client = service.client
    client.post("/v1/clouds", json={"name": "shop", "policy": {"guarantee": "none"}}).raise_for_status()
    client.post("/v1/clouds/shop/flavors", json={"name": "c1", "cores": 1}).raise_for_status()
    for name in ("wide", "marked"):
        pools = [{"name": "spot", "cloud": "shop", "flavor": "c1"}]
        client.put(f"/v1/clusters/{name}", json={"pools": pools, "max_nodes": 9}).raise_for_status()
    tell(client, "wide", [event(number, "odd", **FACTS) for number in range(300)], 60)
    saved = [
        event(number, "job_asked_to_save", job="1", why="x" * 480, **dict([*FACTS.items()][:8])) for number in range(9)
    ]
    tell(client, "wide", saved, 60)
    marks = [event(number, "job_asked_to_save", job=str(number % 6), why="hour") for number in range(1200)]
    tell(client, "marked", marks, 500)
    nodes = [event(number, "node_bought", node=f"marked-spot-{number}", why="job 1 waits") for number in range(9)]
    tell(client, "marked", nodes, 500)
    return client


def test_a_page_of_events_with_many_facts_ends_at_a_mebibyte(client: httpx2.Client) -> None:
    pages = pages_of(client, "/v1/clusters/wide/events", "events")
    assert max(size for size, _ in pages) < 1.1 * 2**20
    assert len(pages) == 3
    assert [one["seq"] for _, items in pages for one in items] == [*range(1, 311)]
    assert pages[0][1][1]["facts"] == FACTS


@pytest.mark.parametrize(
    ("path", "kind", "most"),
    [
        ("/v1/clusters/marked/jobs", "jobs", 20_000),
        ("/v1/clusters/marked/nodes", "nodes", 600),
        ("/v1/clusters/wide/checkpoints", "checkpoints", 1500),
        ("/v1/clusters", "clusters", 600),
    ],
)
def test_a_list_of_a_cluster_ends_early_and_the_next_page_goes_on(
    client: httpx2.Client, path: str, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, whole),) = pages_of(client, path, kind)
    monkeypatch.setattr("app.platform.http.long_lists.MOST_BYTES", most)
    pages = pages_of(client, path, kind)
    assert [item for _, items in pages for item in items] == whole
    assert len(pages) > 1
    assert all(size < most + 500 for size, items in pages if len(items) > 1)


class Counted(Database):
    """Counts the rows that it brings."""

    rows = 0

    async def execute(self, sql: str, parameters: Parameters | None = None) -> Any:
        found = await super().execute(sql, parameters)
        self.rows += len(found)
        return found


def test_a_page_reads_hardly_more_than_it_tells(client: httpx2.Client, database_url: str) -> None:
    async def work() -> None:
        database = Counted(database_url)
        store = ClusterStore(database)
        found = await store.get("wide")
        assert found is not None
        page = await store.events_page(found.id, 0, 1000)
        sizes = [len(one.event.facts) for one in page.items]
        assert (page.marker, database.rows - 1) == (str(page.items[-1].event.seq), len(sizes) + 1)
        assert 128 < len(sizes) < 300
        rest = await store.events_page(found.id, len(sizes), 1000)
        assert (rest.items[0].event.seq, rest.items[-1].event.seq) == (len(sizes) + 1, 310)
        exact = await store.events_page(found.id, 305, 5)
        assert (len(exact.items), exact.marker) == (5, None)
        pieces = [len(piece) async for piece in store.events(found.id, 0)]
        assert (sum(pieces), max(pieces) <= 150) == (310, True)
        await database.close()

    asyncio.run(work())
