"""Pools at venues in the service: prices of one pool, advice under a bid, and bills by the provider's rule."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
import pytest
from api_service import Service
from test_api_errors import check
from test_clusters import metrics, put, tell

from app.clusters.rules.bidding import hazards_under_bid
from app.domain import errors
from app.domain.times import DAY_US, HOUR_US, SECOND_US, from_rfc3339, rfc3339, to_datetime
from app.venues.rules.history import steps_of
from tenure_client import Conflict, NotFound, TenureClient

NOW_US = time.time_ns() // 1000 // SECOND_US * SECOND_US
POOL = {
    "name": "bids", "cloud": "market", "market": "bid", "flavor": "c3.xlarge", "zone": "us-east-1a", "max_nodes": 4,
}  # fmt: skip
ASKED = {"type": "c3.xlarge", "zone": "us-east-1a"}


def lines(prices: Sequence[tuple[int, float]], zone: str = "us-east-1a") -> list[str]:
    words = f"aws,us-east-1,{zone},c3.xlarge,Linux/UNIX"
    return [f"{words},{rfc3339(at_us)},{price},USD" for at_us, price in prices]


def daily(days: int, price: float) -> list[tuple[int, float]]:
    return [(NOW_US - day * DAY_US, price) for day in range(days, 0, -1)]


PRICES = [*daily(30, 0.05), (NOW_US - 10 * DAY_US - HOUR_US, 0.5), (NOW_US - 10 * DAY_US, 0.05)]
STEPS = [(NOW_US - 5 * HOUR_US, 0.04), (NOW_US - 4 * HOUR_US, 0.08), (NOW_US - 90 * 60 * SECOND_US, 0.03)]


@pytest.fixture(scope="module")
def market(service: Service) -> httpx2.Client:
    service.import_prices("market", lines([*PRICES, *STEPS]))
    hazard_per_hour()  # compiled here, in its own time
    return service.client


def hazard_per_hour() -> float:
    """The oracle: the table of the replays, on the same prices."""
    rows = np.array(sorted([*PRICES, *STEPS]))
    steps = steps_of(rows[:, 0].astype(np.int64), (rows[:, 1] * 1e6).round().astype(np.int64), (), NOW_US)
    return float(hazards_under_bid(steps, 0.1, np.array([600.0 * SECOND_US])).rates[0] * HOUR_US)


def event(kind: str, at_us: int, **facts: Any) -> dict[str, Any]:
    return {"key": f"{kind}-{at_us}-{facts['node']}", "at": rfc3339(at_us), "kind": kind, "facts": facts}


def test_the_prices_of_a_pool_begin_with_the_one_that_holds_and_come_in_pages(
    service: Service, market: httpx2.Client
) -> None:
    asked = {**ASKED, "from": rfc3339(NOW_US - 4 * HOUR_US - SECOND_US)}
    answer = market.get("/v1/venues/market/prices", params=asked).json()
    assert [(from_rfc3339(one["at"]), one["price"]) for one in answer["prices"]] == STEPS
    assert (answer["price"], answer["product"], answer["links"]) == (0.03, "Linux/UNIX", [])
    with TenureClient(service.url, market.headers["X-Auth-Token"]) as client:
        since = to_datetime(NOW_US - 29 * DAY_US)
        found = [one.price for one in client.venue_prices("market", "c3.xlarge", "us-east-1a", since, limit=7)]
    told = dict(sorted([*PRICES, *STEPS]))
    assert found == [price for at_us, price in told.items() if at_us >= NOW_US - 29 * DAY_US]


def test_a_pool_that_is_not_there_is_told_with_those_that_are(service: Service, market: httpx2.Client) -> None:
    answer = market.get("/v1/venues/market/prices", params={**ASKED, "product": "Windows", "from": rfc3339(NOW_US)})
    check(answer, errors.PoolNotFound)
    assert "there it has 'Linux/UNIX'" in answer.text
    with TenureClient(service.url, market.headers["X-Auth-Token"]) as client, pytest.raises(NotFound):
        client.venue_checkpoint_advice("market", "c3.xlarge", "us-east-1z", 0.1, 3600, 30)


def test_advice_under_a_bid_is_that_of_the_pools_own_past(service: Service, market: httpx2.Client) -> None:
    asked = {**ASKED, "bid": 0.1, "lifetime_s": 86400, "pause_s": 60, "notice_s": 0, "at_risk_s": 0}
    answer = market.get("/v1/venues/market/checkpoint-advice", params=asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["policy"], found["source"], found["price"], found["bid"]) == ("hazard", "price_crossing", 0.03, 0.1)
    rates = [point["hazard_per_hour"] for point in found["survival"]]
    # within the bid for ten days and at .03 of .1, with one loss in thirty days; the oracle is the replay's own table
    assert rates[0] == pytest.approx(hazard_per_hour(), rel=0.05)
    assert found["next_at_s"] == pytest.approx((2 * 60 * 3600 / rates[0]) ** 0.5, rel=0.2)
    in_notice = market.get("/v1/venues/market/checkpoint-advice", params=asked | {"notice_s": 120}).json()
    assert (in_notice["policy"], in_notice["next_at_s"]) == ("notice", None)
    with TenureClient(service.url, market.headers["X-Auth-Token"]) as client, pytest.raises(Conflict, match="above"):
        client.venue_checkpoint_advice("market", "c3.xlarge", "us-east-1a", 0.01, 3600, 30)


def test_machines_are_billed_by_the_started_hour_and_the_one_that_the_provider_ends_is_free(
    market: httpx2.Client,
) -> None:
    put(market, "bidding", [POOL | {"on_demand_price_per_hour": 0.21}])
    lost, given, runs = (f"bidding-bids-{number}" for number in (1, 2, 3))
    begin_us = NOW_US - 5 * HOUR_US
    tell(
        market,
        "bidding",
        *(event("node_bought", begin_us, node=node, bid=0.1, price=0.04, why="job 1") for node in (lost, given, runs)),
        event("bid_ended", NOW_US, node=lost, by="provider", from_s=begin_us / 1e6, to_s=begin_us / 1e6 + 5400),
        event("bid_ended", NOW_US, node=given, by="cluster", from_s=begin_us / 1e6, to_s=begin_us / 1e6 + 5400),
    )
    answer = market.get("/v1/clusters/bidding/cost").json()
    (row,) = answer["pools"]
    running = 0.04 + 3 * 0.08 + 0.03  # hours from 5, 4, 3 and 2 before now at .04, .08, .08, .08; the fifth at .03
    assert row["cost"] == pytest.approx(0.04 + (0.04 + 0.08) + running, abs=1e-9)
    assert row["on_demand_cost"] == pytest.approx((2 + 2 + 5) * 0.21, abs=1e-9)
    assert row["instance_count"] == 3
    assert metrics(market, "bidding")["tenure_cluster_cost_total", "bids"] == row["cost"]
    page = market.get("/ui/clusters/bidding", headers={"Cookie": f"tenure_token={market.headers['X-Auth-Token']}"})
    assert f"{row['cost']:.2f}" in page.text


def test_a_description_names_a_venue_that_is_there_and_its_zone(market: httpx2.Client) -> None:
    nowhere = market.put("/v1/clusters/odd", json={"pools": [POOL | {"cloud": "nowhere"}]})
    check(nowhere, errors.VenueNotFound)
    without = {name: value for name, value in POOL.items() if name != "zone"}
    for pool in (without, POOL | {"market": "spot"}, without | {"market": "spot", "product": "Linux/UNIX"}):
        answer = market.put("/v1/clusters/odd", json={"pools": [pool]})
        assert answer.status_code == 400, answer.text
        assert "zone must be told of the market bid" in answer.text
    assert market.get("/v1/clusters/odd").status_code == 404
    shown = put(market, "shown", [POOL])["pools"][0]
    assert (shown["market"], shown["zone"], shown["product"]) == ("bid", "us-east-1a", None)
