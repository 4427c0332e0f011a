"""Venues in the service: prices imported whole or not at all, the same for any order, and quotes over pools."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from api_service import Service
from test_api_errors import check

from app.domain import errors
from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, from_datetime, from_rfc3339, rfc3339
from app.platform.database.database import Database
from app.platform.database.lockids import VENUE_LOCK
from app.processes.import_wiring import open_venue_imports
from app.venues.imports import ImportedPrices
from app.venues.rules.history import PoolName, PriceSteps, SilentStretch
from app.venues.rules.observed import ObservedPools, Sighting, SightingKind, runs_of
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv
from app.venues.rules.quotes import pool_quote
from app.venues.rules.rates import ProviderRate, RateKind, RevokedBy
from app.venues.rules.types import MachineType
from app.venues.store import prices
from app.workbench.venues.opening import read_gap_file
from tenure_client import Conflict, MachineSeen, NotFound, TenureClient, json_of

BEGIN_US = from_rfc3339("2015-05-01T00:00:00Z")
END_US = BEGIN_US + 10 * DAY_US
END_AT = datetime.fromisoformat(rfc3339(END_US))
TYPES = {"c3.xlarge": MachineType(14.0, 7.5, 0.21)}


def lines(zones: str = "ab", days: int = 10, seed: int = 0) -> list[str]:
    """Return the lines of pools whose prices move every quarter of an hour, and one that never moves."""
    draw, found = np.random.default_rng(seed), []
    for zone in zones:
        for at_us in range(BEGIN_US, BEGIN_US + days * DAY_US + 1, HOUR_US // 4):
            price = 0.05 if zone == "c" else round(0.03 * float(np.exp(draw.normal(0, 0.3))), 4)
            found.append(f"aws,us-east-1,us-east-1{zone},c3.xlarge,Linux/UNIX,{rfc3339(at_us)},{price},USD")
    return found


def rows_of(text: Iterable[str]) -> PriceRows:
    rows = PriceRows(END_US)
    read_csv([",".join(CSV_COLUMNS), *text], rows)
    return rows


def put(
    service: Service,
    name: str,
    text: Iterable[str],
    gaps: Iterable[SilentStretch] = (),
    revoked_by: RevokedBy | None = None,
) -> ImportedPrices:
    async def work() -> ImportedPrices:
        async with open_venue_imports(service.settings) as imports:
            return await imports.run(name, rows_of(text), TYPES, [*gaps], revoked_by)

    return asyncio.run(work())


def sql(service: Service, statement: str) -> list[tuple[Any, ...]]:
    async def work() -> list[tuple[Any, ...]]:
        database = Database(str(service.settings.database_url))
        try:
            return [tuple(row) for row in await database.execute(statement)]
        finally:
            await database.close()

    return asyncio.run(work())


def stored(service: Service, name: str) -> list[tuple[Any, ...]]:
    columns = "zone, instance_type, day, price_day.at_us, price_day.micro"
    source = "venue JOIN pool ON venue_id = venue.id JOIN price_day ON pool_id = pool.id"
    return sql(service, f"SELECT {columns} FROM {source} WHERE venue.name = '{name}' ORDER BY 1, 2, 3")


def quotes(client: httpx2.Client, name: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/v1/venues/{name}/quotes", params={"lifetime_s": 7200, "at": rfc3339(END_US), **query})
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_import_is_the_same_for_every_order_and_every_cut_and_changes_nothing_twice(service: Service) -> None:
    text = lines()
    done = put(service, "whole", text)
    assert (done.new, done.venue.price_count, done.venue.pool_count) == (len(text), len(text), 2)
    again = put(service, "whole", text)
    assert (again.new, again.venue.price_count) == (0, len(text))
    mixed = [*text, *text[:50]]
    random.Random(1).shuffle(mixed)
    put(service, "parts", mixed[:300])
    put(service, "parts", mixed[200:])
    assert stored(service, "parts") == stored(service, "whole")
    whole, parts = (quotes(service.client, name) for name in ("whole", "parts"))
    assert whole["quotes"] == parts["quotes"]


def test_of_equal_times_the_highest_price_stays(service: Service) -> None:
    line = "aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX,2015-05-02T00:00:00Z,{},USD"
    for price in (0.3, 0.5, 0.4):
        done = put(service, "ties", [line.format(price)])
    assert done.venue.price_count == 1
    assert stored(service, "ties")[0][4] == [500_000]


def test_another_currency_is_refused_and_changes_nothing(service: Service) -> None:
    put(service, "dollars", lines("a", 2))
    before = stored(service, "dollars")
    with pytest.raises(InputError, match=r"preemptible\.currency\.mixed"):
        put(service, "dollars", [line.replace("USD", "EUR") for line in lines("b", 2)])
    assert stored(service, "dollars") == before
    assert sql(service, "SELECT pool_count FROM venue WHERE name = 'dollars'") == [(1,)]


def test_an_import_that_breaks_in_the_middle_leaves_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    put(service, "broken", lines("a", 2))
    before = stored(service, "broken")
    monkeypatch.setattr("app.venues.store.prices._AT_ONCE", 50)
    monkeypatch.setattr("app.venues.store.prices._GAPS", "SELECT 1 / 0")
    with pytest.raises(Exception, match="division by zero"):
        put(service, "broken", lines("b", 2))
    assert stored(service, "broken") == before
    assert sql(service, "SELECT pool_count, version FROM venue WHERE name = 'broken'") == [(1, 1)]


def test_quotes_are_those_of_the_rule_and_as_of_the_newest_price(service: Service) -> None:
    put(service, "quoted", lines("abc"))
    found = quotes(service.client, "quoted", probability=0.9)
    assert (found["design_effect"], found["currency"]) == (8, "USD")
    assert {one["source"] for one in found["quotes"]} == {"price_crossing"}
    assert found["as_of"] == "2015-05-11T00:00:00+00:00" or found["as_of"] == "2015-05-11T00:00:00Z"
    venue = rows_of(lines("abc")).venue()
    for one in found["quotes"]:
        name = PoolName(*(one[word] for word in PoolName._fields))
        expected = pool_quote(venue.pools[name], END_US, 60 * DAY_US, 2 * HOUR_US, 0.9, 8)
        for word in ("price", "bid", "survival", "at_least", "windows", "cost"):
            assert one[word] == pytest.approx(getattr(expected, word), abs=1e-9)
        assert one["on_demand_cost"] == pytest.approx(0.42)
        assert one["at_least"] < one["survival"] <= 1.0
    costs = [one["cost"] for one in found["quotes"]]
    assert costs == sorted(costs)
    calm = next(one for one in found["quotes"] if one["zone"] == "us-east-1c")
    assert (calm["bid"], calm["survival"]) == (0.05, 1.0)
    assert calm["at_least"] < 1.0
    only = quotes(service.client, "quoted", zone="us-east-1a", limit=1)
    assert [one["zone"] for one in only["quotes"]] == ["us-east-1a"]
    assert only["pool_count"] == 1


def test_what_comes_later_changes_no_quote_of_before(service: Service) -> None:
    put(service, "later", lines("ab", 5))
    early = rfc3339(BEGIN_US + 5 * DAY_US)
    before = quotes(service.client, "later", at=early)
    put(service, "later", lines("ab", 10, seed=0)[-100:])
    after = quotes(service.client, "later", at=early)
    assert after["quotes"] == before["quotes"]


def test_a_gap_that_is_told_censors(service: Service) -> None:
    gap = SilentStretch(BEGIN_US + 3 * DAY_US + 60_000_000, BEGIN_US + 5 * DAY_US)
    text = [line for line in lines("ab") if not gap.from_us < from_rfc3339(line.split(",")[5]) < gap.to_us - HOUR_US]
    put(service, "told", text, [gap])
    put(service, "silent", text)
    assert quotes(service.client, "told")["quotes"] == quotes(service.client, "silent")["quotes"]
    late = SilentStretch(END_US - 2 * HOUR_US + 60_000_000, END_US - HOUR_US)
    kept = [line for line in lines("ab") if not late.from_us < from_rfc3339(line.split(",")[5]) < late.to_us]
    put(service, "hour", kept, [late])
    put(service, "without", kept)
    told, plain = (quotes(service.client, name)["quotes"] for name in ("hour", "without"))
    assert [one["windows"] for one in told] != [one["windows"] for one in plain]


def test_56_hours_without_prices_censor_what_runs_into_them_and_are_stale_inside(service: Service) -> None:
    gap = SilentStretch(BEGIN_US + 3 * DAY_US, BEGIN_US + 3 * DAY_US + 56 * HOUR_US)
    put(service, "steady", lines("a"))
    known = [one for one in lines("a") if not gap.from_us < from_rfc3339(one.split(",")[5]) < gap.to_us]
    put(service, "broken-off", known)
    whole, gapped = (quotes(service.client, name)["quotes"][0] for name in ("steady", "broken-off"))
    [steps] = rows_of(known).venue().pools.values()
    expected = pool_quote(steps, END_US, 60 * DAY_US, 2 * HOUR_US, 0.95, 8)
    assert (gapped["survival"], gapped["windows"]) == (expected.survival, expected.windows)
    assert whole["windows"] - gapped["windows"] >= 56 // 2 - 1, "no window reaches into what nobody knows"
    path, inside = "/v1/venues/broken-off/quotes", rfc3339(gap.from_us + 30 * HOUR_US)
    check(service.client.get(path, params={"lifetime_s": 7200, "at": inside}), errors.PricesStale)


def test_old_short_and_missing_prices_are_said(service: Service) -> None:
    put(service, "young", lines("a", 10) + lines("b", 1)[:20])
    client = service.client
    path = "/v1/venues/young/quotes"
    long_ago = "2015-04-01T00:00:00Z"
    check(client.get(path, params={"lifetime_s": 3600}), errors.PricesStale)
    assert "`--at`" in client.get(path, params={"lifetime_s": 3600}).text
    check(client.get(path, params={"lifetime_s": 3600, "at": long_ago}), errors.HistoryTooShort)
    for query, code in (({"lifetime_s": 3600, "probability": 1}, "invalid"), ({"at": long_ago}, "missing")):
        answer = client.get(path, params=query)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, f"preemptible.field.{code}")
    found = {one["zone"]: one for one in quotes(client, "young")["quotes"]}
    assert found["us-east-1b"]["why_not"] == "price_unknown"
    early = rfc3339(BEGIN_US + 6 * HOUR_US)
    assert {one["why_not"] for one in quotes(client, "young", at=early)["quotes"]} == {"history_too_short"}
    check(client.get("/v1/venues/nowhere"), errors.VenueNotFound)
    assert client.get(path, params={"lifetime_s": 0}).status_code == 400
    assert all(one["bid"] is None for one in quotes(client, "young", lifetime_s=3600 * 24 * 365)["quotes"])


def test_venues_and_pools_come_in_pages(service: Service) -> None:
    for name in ("page-1", "page-2", "page-3"):
        put(service, name, lines("ab", 1))
    with TenureClient(service.url, str(service.client.headers["X-Auth-Token"])) as client:
        names = [venue.name for venue in client.venues(limit=2)]
        assert names == sorted(names)
        assert {"page-1", "page-2", "page-3"} <= set(names)
        pools = [*client.pools("page-1", limit=1)]
        assert [(pool.zone, pool.on_demand_price) for pool in pools] == [("us-east-1a", 0.21), ("us-east-1b", 0.21)]
        assert [pool.zone for pool in client.pools("page-1", zone="us-east-1b")] == ["us-east-1b"]
        assert client.venue("page-1").pool_count == 2
        with pytest.raises(NotFound):
            client.venue("nowhere")
        with pytest.raises(Conflict):
            client.venue_quotes("page-1", 3600)


def test_members_may_not_read_venues_and_tokens_of_one_cloud_neither(service: Service) -> None:
    put(service, "roles", lines("a", 1))
    service.client.post("/v1/clouds", json={"name": "of-roles"})
    for role, cloud, status in (("reader", None, 200), ("reader", "of-roles", 403), ("member", "of-roles", 403)):
        body = {"name": f"venues-{role}-{cloud}", "role": role} | ({"cloud": cloud} if cloud else {})
        token = service.client.post("/v1/tokens", json=body).json()["token"]
        for path in ("/v1/venues", "/v1/venues/roles", "/v1/venues/roles/pools"):
            answer = httpx2.get(f"{service.url}{path}", headers={"X-Auth-Token": token})
            assert answer.status_code == status, path
        page = httpx2.get(f"{service.url}/ui/venues", headers={"Cookie": f"tenure_token={token}"})
        assert page.status_code == status


def survival(client: httpx2.Client, name: str, pool: int, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/v1/venues/{name}/pools/{pool}/survival", params={"at": rfc3339(END_US), **query})
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_survival_of_a_pool_agrees_with_its_quote_and_carries_its_evidence(service: Service) -> None:
    put(service, "curves", lines("ab"))
    pool = service.client.get("/v1/venues/curves/pools").json()["pools"][0]
    [quoted] = quotes(service.client, "curves", zone=pool["zone"], probability=0.9)["quotes"]
    found = survival(service.client, "curves", pool["id"], bid=f"{quoted['bid']:.6f},0.9", lifetime_s=7200)
    assert (found["confidence"], found["design_effect"], found["window_s"]) == (0.95, 8, 60 * 86400)
    assert found["pool"] == pool
    first, high = found["curves"]
    [point] = first["points"]
    assert (first["source"], point["lifetime_s"]) == ("price_crossing", 7200)
    assert [point[word] for word in ("survival", "at_least", "windows")] == [
        quoted[word] for word in ("survival", "at_least", "windows")
    ]
    assert (high["bid"], high["points"][0]["survival"]) == (0.9, 1.0)
    assert high["points"][0]["at_least"] < 1.0
    assert {one["probability"]: one["points"][0]["bid"] for one in found["least_bids"]}[0.9] == quoted["bid"]
    whole = survival(service.client, "curves", pool["id"])
    assert [curve["bid"] for curve in whole["curves"]] == sorted({quoted["price"], 2 * quoted["price"], 0.21})
    assert len(whole["curves"][0]["points"]) == 17
    with TenureClient(service.url, str(service.client.headers["X-Auth-Token"])) as client:
        told = client.pool_survival("curves", pool["id"], bids=[quoted["bid"], 0.9], lifetime_s=7200, at=END_AT)
    assert json_of(told) == found


def test_pools_that_are_not_there_and_wrong_bids_are_refused(service: Service) -> None:
    put(service, "refusing", lines("a"))
    put(service, "foreign", lines("b"))
    client = service.client
    own, foreign = (client.get(f"/v1/venues/{one}/pools").json()["pools"][0]["id"] for one in ("refusing", "foreign"))
    path = f"/v1/venues/refusing/pools/{own}/survival"
    for pool in (foreign, 0, 999_999_999, "x", "-1", "1.0", "9" * 40, "\u0661"):
        check(client.get(f"/v1/venues/refusing/pools/{pool}/survival"), errors.PoolNotFound)
    check(client.get(f"/v1/venues/nowhere/pools/{own}/survival"), errors.VenueNotFound)
    check(client.get(path), errors.PricesStale)
    check(client.get(path, params={"at": "2014-01-01T00:00:00Z"}), errors.HistoryTooShort)
    for query in ({"bid": "x"}, {"bid": "-1"}, {"bid": "1,2,3,4,5"}, {"bid": "1e9"}, {"bid": "nan"}, {"lifetime_s": 0}):
        assert client.get(path, params=query).status_code == 400, query
    early = survival(client, "refusing", own, at=rfc3339(BEGIN_US + 6 * HOUR_US))
    assert (early["why_not"], early["curves"]) == ("history_too_short", [])


def test_survival_where_capacity_ends_machines_is_what_was_observed(service: Service) -> None:
    put(service, "scarce", lines("a", 2), revoked_by=RevokedBy.CAPACITY)
    [pool] = service.client.get("/v1/venues/scarce/pools").json()["pools"]
    none = survival(service.client, "scarce", pool["id"])
    assert (none["why_not"], none["curves"], none["least_bids"]) == ("no_evidence", [], [])
    words = {word: pool[word] for word in PoolName._fields}
    seen = [
        words | {"id": f"i{at}", "at": rfc3339(BEGIN_US + (at + age) * HOUR_US), "kind": kind}
        for at in range(12)
        for age, kind in ((0, "started"), (at + 1, "revoked"))
    ]
    assert service.client.post("/v1/venues/scarce/observations", json={"observations": seen}).is_success
    found = survival(service.client, "scarce", pool["id"])
    [curve] = found["curves"]
    assert (curve["bid"], curve["source"], found["price"]) == (None, "observed", pool["price"])
    shares = [point["survival"] for point in curve["points"]]
    assert shares == sorted(shares, reverse=True)
    quoted = service.client.get(
        "/v1/venues/scarce/quotes", params={"lifetime_s": 7200, "at": rfc3339(END_US), "probability": 0.5}
    ).json()["quotes"]
    at_two = next(point for point in curve["points"] if point["lifetime_s"] == 7200)
    assert (at_two["survival"], at_two["windows"]) == (quoted[0]["survival"], quoted[0]["windows"])


def test_the_page_of_a_pool_draws_it_and_tells_what_was_written_wrong(service: Service) -> None:
    put(service, "drawn", lines("ab"))
    pool = service.client.get("/v1/venues/drawn/pools").json()["pools"][0]
    headers = {"Cookie": f"tenure_token={service.client.headers['X-Auth-Token']}"}
    path = f"{service.url}/ui/venues/drawn/pools/{pool['id']}"
    page = httpx2.get(path, headers=headers).text
    assert page.count("data-chart=") == 3
    assert f"/ui/venues/drawn/pools/{pool['id']}" in httpx2.get(f"{service.url}/ui/venues/drawn", headers=headers).text
    assert "bid 0.07" in httpx2.get(path, headers=headers, params={"bids": "0.07, 0.5"}).text
    for wrong in ("x", "1;2;3;4;5", "-3", "1e400"):
        assert 'role="alert"' in httpx2.get(path, headers=headers, params={"bids": wrong}).text, wrong
    assert httpx2.get(f"{service.url}/ui/venues/drawn/pools/999999", headers=headers).status_code == 404


def test_pages_show_venues_and_their_bids(service: Service) -> None:
    put(service, "paged", lines("ab"))
    headers = {"Cookie": f"tenure_token={service.client.headers['X-Auth-Token']}"}
    every = httpx2.get(f"{service.url}/ui/venues", headers=headers)
    assert "/ui/venues/paged" in every.text
    page = httpx2.get(f"{service.url}/ui/venues/paged?for=2h&share=90", headers=headers)
    bid = quotes(service.client, "paged", probability=0.9)["quotes"][0]["bid"]
    assert f"{bid:.4g}" in page.text
    assert "per cent" in httpx2.get(f"{service.url}/ui/venues/paged?for=x", headers=headers).text
    assert httpx2.get(f"{service.url}/ui/venues/nowhere", headers=headers).status_code == 404


def test_a_constant_price_is_never_certain() -> None:
    steps = PriceSteps(np.array([0, DAY_US]), np.array([0.1, 0.1]), 40 * DAY_US)
    found = pool_quote(steps, 40 * DAY_US, 60 * DAY_US, HOUR_US, 0.95, 8)
    assert (found.bid, found.survival) == (0.1, 1.0)
    assert found.at_least is not None
    assert 0.5 < found.at_least < 1.0
    assert found.cost == pytest.approx(0.1)


def test_gaps_are_read_or_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("from,to\n2015-05-03T00:00:00Z,2015-05-04T00:00:00Z\n\n2015-05-01T00:00:00Z,2015-05-02T00:00:00Z\n")
    assert [gap.from_us for gap in read_gap_file(path, END_US)] == [BEGIN_US, BEGIN_US + 2 * DAY_US]
    for broken, why in (
        ("to,from\n", "line 1"),
        ("from,to\nx,y\n", "line 2"),
        ("from,to\n2015-05-03T00:00:00Z,2015-05-03T00:00:00Z\n", "line 2: a gap ends after"),
        ("from,to\n2015-05-03T00:00:00,2015-05-04T00:00:00Z\n", "line 2"),
    ):
        path.write_text(broken)
        with pytest.raises(InputError, match=why):
            read_gap_file(path, END_US)


def test_a_removed_venue_takes_all_of_its_own_with_it(service: Service) -> None:
    put(service, "gone", lines("ab", 2))
    put(service, "stays", lines("a", 2))
    with TenureClient(service.url, str(service.client.headers["X-Auth-Token"])) as client:
        client.remove_venue("gone")
        with pytest.raises(NotFound):
            client.remove_venue("gone")
    assert stored(service, "gone") == []
    assert len(stored(service, "stays")) == 3
    assert sql(service, "SELECT count(*) FROM pool WHERE venue_id NOT IN (SELECT id FROM venue)") == [(0,)]
    put(service, "gone", lines("a", 1))
    assert sql(service, "SELECT price_count FROM venue WHERE name = 'gone'") == [(97,)]


def test_nothing_is_removed_while_prices_are_written(service: Service) -> None:
    put(service, "busy", lines("a", 1))

    async def work() -> None:
        database = Database(str(service.settings.database_url))
        async with database.transaction() as session:
            lock = dict(zip("ab", VENUE_LOCK, strict=True))
            await session.execute("SELECT pg_advisory_xact_lock(%(a)s, %(b)s)", lock)
            check(await asyncio.to_thread(service.client.delete, "/v1/venues/busy"), errors.VenueBusy)
        await database.close()

    asyncio.run(work())
    assert len(stored(service, "busy")) > 0
    assert service.client.delete("/v1/venues/busy").status_code == 204


def test_rates_come_without_prices_and_the_newest_stays(service: Service) -> None:
    def rates(at_us: int, share: float) -> PriceRows:
        name = PoolName("aws", "us-east-1", "us-east-1", "c3.xlarge", "Linux/UNIX")
        return PriceRows(END_US, rates={name: ProviderRate(at_us, RateKind.OF_A_MONTH, share)})

    async def work() -> None:
        async with open_venue_imports(service.settings) as imports:
            for at_us, share in ((5, 0.1), (9, 0.2), (7, 0.3)):
                done = await imports.run("rated", rates(at_us, share), {}, [], RevokedBy.CAPACITY)
            assert (done.venue.price_count, done.venue.last_us) == (0, None)

    asyncio.run(work())
    assert sql(service, "SELECT region, zone, at_us, share FROM provider_rate") == [("us-east-1", "us-east-1", 9, 0.2)]
    venue = service.client.get("/v1/venues/rated").json()
    assert (venue["revoked_by"], venue["price_count"], venue["last_price_at"]) == ("capacity", 0, None)


def sighting(kind: str, hour: float, name: str = "i-1", zone: str = "us-east-1a") -> MachineSeen:
    at = datetime.fromisoformat(rfc3339(BEGIN_US + round(hour * HOUR_US)))
    return MachineSeen("aws", "us-east-1", zone, "c3.xlarge", "Linux/UNIX", name, at, kind)


def test_observations_are_taken_once_and_quotes_come_from_them(service: Service) -> None:
    put(service, "seen", lines("a", 10), revoked_by=RevokedBy.CAPACITY)
    lived = [sighting(kind, hour, f"i-{n}") for n in range(40) for kind, hour in (("started", n), ("ended", n + 20))]
    lost = [sighting(kind, hour, f"l-{n}") for n in range(10) for kind, hour in (("started", n), ("revoked", n + 1))]
    with TenureClient(service.url, str(service.client.headers["X-Auth-Token"])) as client:
        first = client.venue_quotes("seen", 7200, probability=0.5, at=END_AT).quotes[0]
        assert (first.why_not, first.source, first.bid, first.survival) == ("no_evidence", None, None, None)
        everything = [*lived, *lost]
        assert client.observe("seen", everything).new == 100
        assert client.observe("seen", [*everything[::-1], sighting("probe_up", 3, "p", "us-east-1f")]).new == 1
        answer = client.venue_quotes("seen", 7200, probability=0.5, at=END_AT)
        expected = ObservedPools(runs_of(sightings(everything), END_US), {})
        by_zone = {one.zone: one for one in answer.quotes}
        for zone in ("us-east-1a", "us-east-1f"):
            one = by_zone[zone]
            found = expected.survival(
                PoolName("aws", "us-east-1", zone, "c3.xlarge", "Linux/UNIX"), 2 * HOUR_US, 8, 0.95
            )
            assert found is not None
            assert (one.survival, one.at_least) == (pytest.approx(found.share), pytest.approx(found.at_least))
            assert (one.windows, one.source, one.why_not) == (found.windows, "observed", None)
        assert by_zone["us-east-1a"].bid == 0.21
        assert by_zone["us-east-1a"].cost == pytest.approx(2 * (by_zone["us-east-1a"].price or 0))
        assert (by_zone["us-east-1f"].price, by_zone["us-east-1f"].windows) == (None, 0)
        early = client.venue_quotes("seen", 7200, probability=0.5, at=datetime.fromisoformat(rfc3339(BEGIN_US)))
        assert {one.why_not for one in early.quotes} == {"no_evidence"}
        unlikely = client.venue_quotes("seen", 7200, probability=0.99, at=END_AT).quotes[0]
        assert (unlikely.why_not, unlikely.bid) == ("probability_not_reached", None)
        assert unlikely.survival is not None
        assert [pool.price for pool in client.pools("seen", zone="us-east-1f")] == [None]
        with pytest.raises(NotFound):
            client.observe("nowhere", lived[:1])
    page = httpx2.get(
        f"{service.url}/ui/venues/seen", headers={"Cookie": f"tenure_token={service.client.headers['X-Auth-Token']}"}
    )
    assert "lack of capacity" in page.text


def test_observations_that_cannot_be_are_refused_as_a_whole(service: Service) -> None:
    put(service, "unseen", lines("a", 1))
    before = sql(service, "SELECT count(*) FROM pool_observation")
    path = "/v1/venues/unseen/observations"
    good = {"id": "x", "provider": "aws", "region": "r", "zone": "z", "instance_type": "t", "product": "p"}
    times = {"at": "2999-01-01T00:00:00Z"}, {"at": "2008-12-31T23:59:59Z"}
    for changed in (*times, {"kind": "died"}, {"zone": " "}, {"zone": "z "}, {"id": ""}, {"more": 1}):
        body = {"at": "2026-01-01T00:00:00Z", "kind": "started", **good, **changed}
        answer = service.client.post(path, json={"observations": [{**good, "at": body["at"], "kind": "ended"}, body]})
        assert answer.status_code == 400, changed
    assert service.client.post(path, json={"observations": []}).status_code == 400
    assert sql(service, "SELECT count(*) FROM pool_observation") == before


@pytest.mark.parametrize("path", ["pools", f"quotes?lifetime_s=7200&at={rfc3339(BEGIN_US + 2 * DAY_US)}"])
@pytest.mark.parametrize("is_remade", [False, True])
def test_a_venue_that_is_removed_while_it_is_read_is_not_told_as_empty(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, is_remade: bool
) -> None:
    """An answer is of one venue: of none, or of the one that took its name."""
    put(service, "brief", lines("ab", 2))
    put(service, "after", lines("abc", 2))
    pools_of, removed = prices.VenuePriceStore.pools, list[str]()

    async def pools(store: prices.VenuePriceStore, *asked: Any, **more: Any) -> list[Any]:
        if not removed:
            removed.append("brief")
            assert await store.remove("brief")
            if is_remade:
                await store._database.execute("UPDATE venue SET name = 'brief' WHERE name = 'after'")
        return await pools_of(store, *asked, **more)

    monkeypatch.setattr(prices.VenuePriceStore, "pools", pools)
    answer = service.client.get(f"/v1/venues/brief/{path}")
    if is_remade:
        assert answer.is_success
        told = answer.json()
        assert len(told.get("pools", told.get("quotes"))) == 3
        assert service.client.delete("/v1/venues/brief").status_code == 204
    else:
        check(answer, errors.VenueNotFound)
        assert service.client.delete("/v1/venues/after").status_code == 204


def test_a_venue_has_so_many_pools(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise whoever reports observations could make a quote as dear as they like."""
    put(service, "bounded", lines("ab", 1))
    monkeypatch.setattr(prices, "MOST_POOLS", 2)
    path = "/v1/venues/bounded/observations"
    seen = {"id": "x", "at": rfc3339(BEGIN_US), "kind": "started", "provider": "aws", "region": "us-east-1"}
    known = seen | {"zone": "us-east-1a", "instance_type": "c3.xlarge", "product": "Linux/UNIX"}
    assert service.client.post(path, json={"observations": [known]}).json()["new"] == 1
    new = [known | {"zone": "us-east-1z"}, known | {"at": rfc3339(BEGIN_US + HOUR_US)}]
    check(service.client.post(path, json={"observations": new}), errors.TooManyPools)
    with pytest.raises(InputError, match="more than 2 pools"):
        put(service, "bounded", lines("c", 1))
    assert service.client.get("/v1/venues/bounded").json()["pool_count"] == 2
    assert sql(service, "SELECT count(*) FROM pool_observation WHERE instance = 'x'") == [(1,)]


def sightings(told: Iterable[MachineSeen]) -> list[Sighting]:
    return [
        Sighting(
            PoolName(one.provider, one.region, one.zone, one.instance_type, one.product),
            one.id,
            from_datetime(one.at),
            SightingKind(one.kind),
        )
        for one in told
    ]


def test_a_file_of_observations_is_sent_whole_or_refused_by_line(service: Service, tmp_path: Path) -> None:
    put(service, "filed", lines("a", 1))

    def observe(*text: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "seen.jsonl"
        file.write_text("\n".join(text))
        environment = {"TENURE_URL": service.url, "TENURE_TOKEN": str(service.client.headers["X-Auth-Token"])}
        command = [sys.executable, "-m", "app.cli", "venue", "observe", "filed", str(file), "--json"]
        return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)

    good = json.dumps(json_of(sighting("started", 1)) | {"at": "2015-05-01T01:00:00Z"})
    for bad in ("{", "[]", good.replace("started", "died"), good.replace("Z", ""), good.replace('"id"', '"ib"')):
        refused = observe(good, "", bad)
        assert (refused.returncode, "line 3" in refused.stderr) == (2, True), refused.stderr
    assert sql(service, "SELECT count(*) FROM pool_observation WHERE instance = 'filed'") == [(0,)]
    assert json.loads(observe(good, good.replace("i-1", "i-2")).stdout) == {"venue": "filed", "read": 2, "new": 2}


def test_a_provider_that_was_told_by_another_name_hides_no_prices(service: Service) -> None:
    """Zone, type and product name a pool; an observation may bring another one of the same words before the prices."""
    put(service, "spelled", lines("b"))
    wrong = json.dumps(json_of(sighting("started", 1)) | {"provider": "amazon", "at": "2015-05-01T01:00:00Z"})
    body = f'{{"observations": [{wrong}]}}'
    headers = {"Content-Type": "application/json"}
    told = service.client.post("/v1/venues/spelled/observations", content=body, headers=headers)
    assert told.json()["new"] == 1
    put(service, "spelled", lines("a"))
    words = {"type": "c3.xlarge", "zone": "us-east-1a"}
    found = service.client.get("/v1/venues/spelled/prices", params=words | {"from": rfc3339(BEGIN_US)}).json()
    assert len(found["prices"]) > 10
    environment = {"TENURE_URL": service.url, "TENURE_TOKEN": str(service.client.headers["X-Auth-Token"])}
    command = [sys.executable, "-m", "app.cli", "venue", "survival", "spelled", "--at", rfc3339(END_US), "--zone"]
    for zone, code in (("us-east-1a", 0), ("us-east-1c", 2)):
        done = subprocess.run(
            [*command, zone], env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
