"""Metrics as text: the library's own text, made in turns with other work and once for all who ask within a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, openmetrics
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request

from app.platform.http import scrapes
from app.platform.http.dear import DearQueues, read_in_turn
from app.platform.http.scrapes import Exposition
from app.platform.telemetry.exposing import content_type_for
from app.platform.telemetry.metrics import PROCESS, CloudMeter

pytestmark = pytest.mark.anyio
PLAIN, OPEN = content_type_for(""), content_type_for("application/openmetrics-text")


def crowded(count: int) -> CollectorRegistry:
    """Metrics of so many clouds, and one without any; some names and texts need escaping."""
    registry = CollectorRegistry()
    appends = Counter("appends_total", "Batches,\nby `cloud` \\ outcome.", ["cloud", "outcome"], registry=registry)
    lengths = Histogram("lengths_seconds", "Times.", ["cloud"], registry=registry)
    Gauge("nothing", "No sample.", ["cloud"], registry=registry)
    for number in range(count):
        appends.labels(f'c"{number}\n# ', "done").inc(number)
        lengths.labels(f"c{number}").observe(number)
    return registry


class Asked:
    """A collector, and the number of its collections."""

    def __init__(self, metrics: Collector) -> None:
        self.count, self._metrics = 0, metrics

    async def collect(self) -> Collector:
        self.count += 1
        await asyncio.sleep(0)
        return self._metrics


async def test_the_text_is_the_librarys_own() -> None:
    metrics = crowded(250)
    asked, exposition = Asked(metrics), Exposition()
    assert await exposition.text(asked.collect, PLAIN) == generate_latest(metrics)
    assert await exposition.text(asked.collect, OPEN) == openmetrics.exposition.generate_latest(metrics)
    assert await Exposition().text(Asked(CollectorRegistry()).collect, OPEN) == b"# EOF\n"


async def test_all_who_ask_within_a_second_share_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(s=100.0)
    monkeypatch.setattr(scrapes, "monotonic", lambda: clock.s)
    asked, exposition = Asked(crowded(50)), Exposition()
    wishes = ["", OPEN, *(f"application/openmetrics-text; version=1.{number}.0" for number in range(20))]
    texts = await asyncio.gather(*(exposition.text(asked.collect, content_type_for(wish)) for wish in wishes * 3))
    assert (asked.count, len({id(text) for text in texts})) == (1, 2)
    clock.s += scrapes.KEPT_S * 0.9
    await exposition.text(asked.collect, PLAIN)
    assert asked.count == 1
    clock.s += scrapes.KEPT_S * 0.2
    await exposition.text(asked.collect, PLAIN)
    assert asked.count == 2


async def test_an_error_is_told_and_not_kept() -> None:
    async def fail() -> Collector:
        raise LookupError

    asked, exposition = Asked(crowded(1)), Exposition()
    with pytest.raises(LookupError):
        await exposition.text(fail, PLAIN)
    assert await exposition.text(asked.collect, PLAIN)


@pytest.fixture
async def passes() -> AsyncIterator[list[float]]:
    """The length of each pass of the event loop, in this thread's own time, from the test's beginning."""
    found = list[float]()

    async def look() -> None:
        last = thread_time()
        while True:
            await asyncio.sleep(0)
            found.append(thread_time() - last)
            last = thread_time()

    looking = asyncio.create_task(look())
    yield found
    looking.cancel()


async def test_a_long_text_keeps_nobody_waiting(passes: list[float]) -> None:
    await asyncio.sleep(0)
    text = await Exposition().text(Asked(crowded(1000)).collect, PLAIN)
    assert len(text) > 800_000
    assert len(passes) > 20
    assert sorted(passes)[-3] < 0.05  # the registry is made in one, and Python may collect garbage in another


def test_a_cloud_without_traffic_has_few_series() -> None:
    def told() -> Iterator[Any]:
        return (one for metric in PROCESS.collect() for one in metric.samples)

    meter = CloudMeter("silent-exposed", lambda: 0)
    ours = [(one.name, one.labels.get("outcome")) for one in told() if one.labels.get("cloud") == "silent-exposed"]
    assert sorted(ours, key=str) == [("tenure_log_appends_total", "unavailable"), ("tenure_queue_operations", None)]
    assert not [one.name for one in told() if one.name.endswith("_created")]
    meter.close()


async def test_callers_without_a_token_wait_for_those_of_their_own_address() -> None:
    lines, served = DearQueues(), list[str]()

    async def receive() -> dict[str, Any]:
        return await asyncio.Event().wait() or {}

    async def ask(address: str) -> None:
        app = SimpleNamespace(state=SimpleNamespace(dear=lines))
        scope = {"type": "http", "method": "GET", "app": app, "state": {}, "path_params": {}, "client": (address, 1)}
        async with read_in_turn(Request(scope, receive)):
            served.append(address)
            await asyncio.Event().wait()

    asked = [asyncio.create_task(ask(address)) for address in [*["192.0.2.1"] * 60, "192.0.2.2"]]
    await asyncio.sleep(0.05)
    assert sorted(served) == ["192.0.2.1", "192.0.2.1", "192.0.2.2"]
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
