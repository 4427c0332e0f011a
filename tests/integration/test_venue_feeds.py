"""Prices that are followed with the real boto3, against a server that speaks its wire and goes wrong in every way."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
from api_service import Service
from spot_stub import Answer, Price, SpotStub, page, refusal, spot_stub

from app.domain.times import DAY_US, HOUR_US, SECOND_US, rfc3339
from app.platform.database.database import Database
from app.platform.outbound import aws
from app.platform.outbound.aws import FeedFailed, SpotPriceSource
from app.platform.telemetry.metrics import PROCESS
from app.processes.venue_wiring import open_venue_following
from app.venues.following import FeedWatch
from app.venues.imports import ImportedPrices
from app.venues.store.feeds import FeedStore

pytest.importorskip("boto3")
SECRET = "s3cr3t-of-the-feed"  # gitleaks:allow
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAFEED", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpotStub]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with spot_stub() as found:
        yield found


def prices(hours: int, zone: str = "us-east-1a") -> list[Price]:
    """A price each hour up to now, the newest first."""
    now_us = int(time.time()) * SECOND_US
    return [(zone, "c3.xlarge", rfc3339(now_us - at * HOUR_US), f"0.{at + 10}") for at in range(hours)]


def poll(service: Service, stub: SpotStub, name: str, **changed: Any) -> ImportedPrices:
    source = SpotPriceSource("us-east-1", changed.get("url", stub.url), ["Linux/UNIX"])

    async def work() -> ImportedPrices:
        async with open_venue_following(service.settings) as following:
            return await following.poll(name, source, 7 * DAY_US)

    return asyncio.run(work())


def shown(service: Service, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get(f"/v1/venues/{name}").json()
    return found


def test_what_a_provider_tells_is_imported_and_asked_from_an_hour_before_the_newest(
    service: Service, stub: SpotStub
) -> None:
    first, second = prices(5), prices(5, "us-east-1b")
    pages = {None: page(first, "more"), "more": page([], "last"), "last": page(second)}
    stub.answer = lambda token: pages[token]
    done = poll(service, stub, "followed")
    assert [one["Action"] for one in stub.asked] == ["DescribeSpotPriceHistory"] * 3
    assert (stub.asked[0]["ProductDescription.1"], stub.asked[0].get("NextToken")) == ("Linux/UNIX", None)
    assert done.new in {10, 12}  # the price at the last full hour, unless one was told at that very moment
    venue = shown(service, "followed")
    assert (venue["pool_count"], venue["revoked_by"], venue["feed"]["failures"]) == (2, "capacity", 0)
    assert (venue["feed"]["provider"], venue["feed"]["region"], venue["feed"]["error"]) == ("aws", "us-east-1", None)
    assert venue["feed"]["succeeded_at"] is not None
    assert poll(service, stub, "followed").new == 0
    newest_us = max(int(time.time()) * SECOND_US - HOUR_US - 60 * SECOND_US, 0)
    assert stub.asked[3]["StartTime"] > rfc3339(newest_us)[:16]
    page_of = httpx2.get(
        f"{service.url}/ui/venues/followed",
        headers={"Cookie": f"tenure_token={service.client.headers['X-Auth-Token']}"},
    )
    assert "Follows aws us-east-1" in page_of.text


def test_prices_that_are_refused_are_told_and_the_others_taken(service: Service, stub: SpotStub) -> None:
    good, (zone, kind, at, _) = prices(3), prices(1, "us-east-1b")[0]
    stub.answer = lambda _: page([*good, (zone, kind, at, "NaN")])
    done = poll(service, stub, "partly")
    assert (done.refused_count, [one.code for one in done.refused]) == (1, ["preemptible.price.invalid"])
    assert shown(service, "partly")["pool_count"] == 1


def failures_of_a_provider() -> list[tuple[Callable[[str | None], Answer], str]]:
    """Return what a provider may answer, and what is said of it."""
    numbers, bad = count(), prices(1)[0]
    return [
        (lambda _: refusal("RequestLimitExceeded", 503), "refuses: RequestLimitExceeded"),
        (lambda _: refusal("RequestExpired", 400, SECRET), "refuses: RequestExpired"),
        (lambda _: refusal("AuthFailure", 401, SECRET), "refuses: AuthFailure"),
        (lambda _: page([]), "told no price of us-east-1"),
        (lambda _: page([(bad[0], bad[1], bad[2], "cheap")]), "told no price of us-east-1"),
        (lambda _: page(prices(1), f"t{next(numbers)}"), "tells of no last page: left after 21 pages"),
        (lambda _: page(prices(1), "same"), "PaginationError"),
        (lambda _: (200, "<html>proxy</html><"), "could not be asked"),
        (lambda _: (500, ""), "refuses: 500"),
    ]


def test_what_goes_wrong_is_said_within_a_poll_and_keeps_the_prices(
    service: Service, stub: SpotStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answer = lambda _: page(prices(3))
    poll(service, stub, "failing")
    before = shown(service, "failing")
    monkeypatch.setattr(aws, "_ATTEMPTS", 2)
    monkeypatch.setattr(aws, "MOST_PAGES", 20)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    cases = failures_of_a_provider()
    for failures, (answer, why) in enumerate(cases, 1):
        stub.answer = answer
        with pytest.raises(FeedFailed, match=why) as error:
            poll(service, stub, "failing")
        assert SECRET not in str(error.value)
        found = shown(service, "failing")
        assert (found["feed"]["failures"], found["feed"]["error"]) == (failures, str(error.value))
        assert found["feed"]["succeeded_at"] == before["feed"]["succeeded_at"]
        assert {**found, "feed": 0} == {**before, "feed": 0}
    with pytest.raises(FeedFailed, match="cannot be reached"):
        poll(service, stub, "failing", url=f"http://127.0.0.1:{port}")
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(FeedFailed, match="no credentials"):
        poll(service, stub, "failing")
    ages(service)
    labels = {"venue": "failing"}
    assert PROCESS.get_sample_value("tenure_venue_feed_failures", labels) == len(cases) + 2
    assert 0 <= (PROCESS.get_sample_value("tenure_venue_feed_age_seconds", labels) or -1) < 600


def ages(service: Service) -> None:
    """Do what the worker does each half minute."""

    async def work() -> None:
        database = Database(str(service.settings.database_url))
        await FeedWatch(FeedStore(database)).watch_feeds()
        await database.close()

    asyncio.run(work())


def test_the_command_asks_once_and_tells_no_secret(service: Service, stub: SpotStub) -> None:
    def follow(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["venue", "follow", "commanded", "--region", "us-east-1", "--endpoint-url", stub.url, "--once", *more]
        environment = {**os.environ, **KEYS, "TENURE_DATABASE_URL": str(service.settings.database_url)}
        command = [sys.executable, "-m", "app.cli", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    stub.answer = lambda _: page(prices(4))
    done = follow()
    assert (done.returncode, "new prices" in done.stdout) == (0, True), done.stderr
    stub.answer = lambda _: refusal("AuthFailure", 401, SECRET)
    failed = follow()
    assert (failed.returncode, "AuthFailure" in failed.stderr) == (3, True)
    assert SECRET not in done.stdout + done.stderr + failed.stdout + failed.stderr
    assert follow("--every", "1s").returncode == 2


def test_a_new_venue_comes_with_its_first_prices(service: Service, stub: SpotStub) -> None:
    """A follower that is killed in its first poll leaves nothing behind."""
    seen = []

    def answer(_: str | None) -> Answer:
        seen.append(service.client.get("/v1/venues/newborn").status_code)
        return page(prices(3))

    stub.answer = answer
    poll(service, stub, "newborn")
    assert seen == [404]
    assert shown(service, "newborn")["revoked_by"] == "capacity"
