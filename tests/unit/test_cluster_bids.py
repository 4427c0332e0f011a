"""Machines of venues under bids: the cluster file, the book on one host, the price rule, bills against a plain twin."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clusters.rules.bidding import PriceAbove, hazards_observed, hazards_under_bid
from app.clusters.rules.bids import BID_ENDED, EndedBy, HourPrices, ToldBid, bill_of
from app.clusters.rules.costs import PoolPrice, cost_of
from app.clusters.rules.deciding import Deed, NodeState, SeenInstance, SeenNode, View, mended
from app.clusters.rules.hazards import learned_hazard
from app.clusters.rules.told import ClusterPast, ToldEvent
from app.clusters.rules.wanted import ClusterWanted, PoolWanted, cluster_of_toml
from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.managing.bidding import VenueMarket
from app.managing.buying import Buyer
from app.managing.events import Events
from app.managing.reporting import _described
from app.venues.rules.history import PriceSteps

FILE = """\
name = "lab"
shared = "{shared}"
[[pools]]
name = "bids"
cloud = "aws"
market = "bid"
flavor = "m3.medium"
zone = "us-east-1a"
max_nodes = 4
{more}
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder with a short name, as the shared folder of a cluster needs one."""
    with tempfile.TemporaryDirectory(prefix="bids") as folder:
        yield Path(folder)


def wanted(shared: Path | str = "/srv/lab", more: str = "") -> ClusterWanted:
    return cluster_of_toml(FILE.format(shared=shared, more=more))


@dataclass
class FakeVenue:
    """A service that knows one pool; `prices` by age in seconds, the newest last."""

    prices: list[tuple[float, float]]
    on_demand: float | None = 0.067
    quoted: float | None = 0.02
    product: str = "Linux/UNIX"
    asked: list[dict[str, Any]] = field(default_factory=list)

    def pools(self, venue: str, *, instance_type: str, zone: str) -> Iterator[Any]:
        assert (venue, instance_type, zone) == ("aws", "m3.medium", "us-east-1a")
        age_s, price = self.prices[-1]
        at = datetime.now(UTC) - timedelta(seconds=age_s)
        yield SimpleNamespace(product=self.product, price=price, price_at=at, on_demand_price=self.on_demand)

    def venue_prices(self, *_: object, **__: object) -> Iterator[Any]:
        for age_s, price in self.prices:
            yield SimpleNamespace(at=datetime.now(UTC) - timedelta(seconds=age_s), price=price)

    def venue_quotes(self, venue: str, lifetime_s: int, **asked: Any) -> Any:
        self.asked.append({"lifetime_s": lifetime_s, **asked})
        why_not = None if self.quoted is not None else "history_too_short"
        return SimpleNamespace(quotes=[SimpleNamespace(product=self.product, bid=self.quoted, why_not=why_not)])

    def venue_checkpoint_advice(self, *where: object, **terms: Any) -> Any:
        self.asked.append({"where": where, **terms})
        return SimpleNamespace(next_at_s=12.5)


def buyer(shared: Path, venue: FakeVenue, more: str = "") -> tuple[Buyer, PoolWanted]:
    cluster = wanted(shared, more)
    return Buyer(cluster, venue), cluster.pools[0]  # type: ignore[arg-type]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_pool_at_a_venue_bids_its_price_on_demand_by_default() -> None:
    (pool,) = wanted().pools
    assert (pool.bid, pool.product, pool.notice_s, pool.cores, pool.memory_mib) == (
        "on_demand",
        "Linux/UNIX",
        120,
        1,
        1024,
    )
    assert _described(pool).keys() >= {"zone", "product", "market"}
    assert not _described(PoolWanted(name="own", cloud="c", flavor="f")).keys() & {"zone", "product", "bid"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("bid = 0", "bid is neither"),
        ('bid = "much"', "bid is neither"),
        ("bid = true", "is no number or text"),
        ("notice_s = 5", "notice_s"),
        ("cores = 0", "make no node"),
        ("price_per_hour = 1", "venue's prices"),
        ("min_lease_s = 60", "min_lease_s is for spot"),
        ('product = "|"', "no zone or product"),
        ("eviction_probability = 1.0", "eviction_probability"),
    ],
)
def test_what_cannot_be_meant_of_a_bid_is_refused(more: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        wanted(more=more)


def test_only_pools_at_venues_have_bids_and_they_need_a_zone() -> None:
    with pytest.raises(InputError, match="bid is for market = bid"):
        cluster_of_toml(FILE.format(shared="/s", more="bid = 1").replace('market = "bid"\n', "").replace("zone", "#"))
    with pytest.raises(InputError, match="needs a zone"):
        cluster_of_toml(FILE.format(shared="/s", more="").replace("zone", "#"))


# --- buying and losing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "venue", "bid", "why"),
    [
        ("", FakeVenue([(60, 0.01)]), 0.067, ""),
        ("", FakeVenue([(60, 0.067)]), 0.067, ""),
        ("", FakeVenue([(60, 0.07)]), None, "the price is 0.07 an hour and the bid 0.067; acceptable: a bid of 0.07"),
        ("bid = 0.005", FakeVenue([(60, 0.01)]), None, "acceptable: a bid of 0.01"),
        ("bid = 0.5", FakeVenue([(60, 0.01)]), 0.5, ""),
        ("", FakeVenue([(60, 0.01)], on_demand=None), None, "acceptable: an amount as bid"),
        ("on_demand_price_per_hour = 0.09", FakeVenue([(60, 0.01)], on_demand=None), 0.09, ""),
        ('bid = "quote"', FakeVenue([(60, 0.01)]), 0.02, ""),
        ('bid = "quote"', FakeVenue([(60, 0.01)], quoted=None), None, "history_too_short; acceptable"),
        ("", FakeVenue([(26 * 3600, 0.01)]), None, "no price of the last 25 hours"),
        ("", FakeVenue([(60, 0.01)], product="Windows"), None, "has no m3.medium 'Linux/UNIX' in us-east-1a"),
    ],
)
def test_a_machine_is_bought_if_the_price_is_at_most_the_bid(
    shared: Path, more: str, venue: FakeVenue, bid: float | None, why: str
) -> None:
    shop, pool = buyer(shared, venue, more)
    node = shop.new_node(pool)
    purchase = shop.start(node, pool)
    assert purchase.is_bought is (bid is not None)
    assert why in purchase.why
    assert [*shop.instances()] == ([node] if bid is not None else [])
    if bid is not None:
        assert purchase.facts == {"bid": bid, "price": venue.prices[-1][1], "notice_s": 120}


def test_a_quote_is_asked_for_the_jobs_time_at_the_files_reliability(shared: Path) -> None:
    venue = FakeVenue([(60, 0.01)])
    shop, pool = buyer(shared, venue, 'bid = "quote"\neviction_probability = 0.1\nlifetime_s = 600')
    shop.start("lab-bids-1", pool, 7200.5)
    shop.start("lab-bids-2", pool, None)
    assert [(one["lifetime_s"], one["probability"]) for one in venue.asked] == [(7201, 0.9), (600, 0.9)]


def test_a_price_above_the_bid_announces_the_end_once_and_it_stays_announced(shared: Path) -> None:
    venue = FakeVenue([(60, 0.01)])
    shop, pool = buyer(shared, venue, "notice_s = 30\nbid = 0.05")
    events = Events(shared / "events.jsonl")
    shop.start("lab-bids-1", pool)
    shop.market.follow_prices(events)
    assert shop.instances()["lab-bids-1"].notice_s is None
    venue.prices += [(-0.5, 0.06), (-1.0, 0.01)]  # it rose, and has fallen again since
    again = Buyer(wanted(shared, "notice_s = 30\nbid = 0.05"), venue)  # type: ignore[arg-type]
    again.market.follow_prices(events)
    (seen,) = again.instances().values()
    assert seen.notice_s == pytest.approx(30.0, abs=5.0)
    assert seen.left_s is None
    again.market.follow_prices(events)
    (told,) = events.newest()
    assert (told["kind"], told["node"], told["price"], told["bid"]) == ("node_outbid", "lab-bids-1", 0.06, 0.05)


def test_a_price_of_before_the_purchase_ends_nothing(shared: Path) -> None:
    venue = FakeVenue([(600, 0.9), (60, 0.01)])
    shop, pool = buyer(shared, venue)
    shop.start("lab-bids-1", pool)
    shop.market.follow_prices(Events(shared / "events.jsonl"))
    assert shop.instances()["lab-bids-1"].notice_s is None


def test_what_is_over_is_told_with_its_times_and_forgotten(shared: Path) -> None:
    shop, pool = buyer(shared, FakeVenue([(60, 0.01)]))
    events = Events(shared / "events.jsonl")
    shop.start("lab-bids-1", pool)
    shop.start("lab-bids-2", pool)
    began_s = time.time()
    shop.stop("lab-bids-1")
    shop.confirm("lab-bids-1")
    shop.confirm("lab-bids-2")
    shop.stop("lab-bids-3")
    assert shop.instances() == {}
    shop.market.settle(events)
    shop.market.settle(events)
    one, other = events.newest()
    assert [(told["kind"], told["node"], told["by"]) for told in (one, other)] == [
        (BID_ENDED, "lab-bids-1", "cluster"),
        (BID_ENDED, "lab-bids-2", "provider"),
    ]
    assert one["from_s"] <= began_s <= one["to_s"] <= time.time()
    assert [*(shared / "slurm/bids").iterdir()] == []


def test_a_half_written_entry_is_none(shared: Path) -> None:
    shop, pool = buyer(shared, FakeVenue([(60, 0.01)]))
    shop.start("lab-bids-1", pool)
    (shared / "slurm/bids/lab-bids-2.new").write_text('{"bid":')
    assert [*shop.instances()] == ["lab-bids-1"]


def test_a_machine_under_a_bid_has_the_venues_notice_size_and_advice(shared: Path) -> None:
    venue = FakeVenue([(60, 0.01)])
    shop, pool = buyer(shared, venue, "cores = 2\nmemory_mib = 2048\nbid = 0.5")
    shop.start("lab-bids-1", pool)
    assert shop.size(pool) == (2, 2048)
    assert shop.grace_s(pool) == 120.0
    assert shop.eviction_probability(pool) == 0.05
    assert shop.next_checkpoint_s("lab-bids-1", pool, 30.0, 60.0, 1e6) == 12.5
    assert shop.next_checkpoint_s("lab-bids-9", pool, 30.0, 60.0) is None
    (asked,) = venue.asked
    assert asked["where"] == ("aws", "m3.medium", "us-east-1a", 0.5, 3600, 30.0)
    assert (asked["notice_s"], asked["at_risk_s"], asked["loss_every_s"]) == (120, 60.0, 1e6)
    ((_, says, is_sold),) = shop.offers()
    assert is_sold
    assert says == "the price is 0.01 an hour and the bid 0.5; a checkpoint of a minute pays after 12 s"


def test_a_machine_that_is_outbid_is_drained_and_goes_before_the_deadline() -> None:
    def deeds(notice_s: float) -> list[Deed]:
        seen = SeenInstance(50.0, None, notice_s)
        view = View({"lab-bids-1": seen}, frozenset({"lab-bids-1"}), {"lab-bids-1": SeenNode(NodeState.BUSY)}, [])
        return [action.deed for action in mended(wanted(), view)]

    assert deeds(60.0) == [Deed.DRAIN]
    assert deeds(2.0) == [Deed.DROP, Deed.DESTROY, Deed.CONFIRM]


# --- bills ------------------------------------------------------------------------------------------------------------

MINUTE_US = HOUR_US // 60
LENGTHS = st.integers(0, 5 * 60).map(lambda minutes: minutes * MINUTE_US)


def twin_bill(bid: ToldBid, prices: list[tuple[int, int]], now_us: int, *, is_by_hour: bool) -> int:
    """Walk minute by minute; millionths times minutes, over 60."""

    def price(at_us: int) -> int:
        held = [micro for since_us, micro in prices if since_us <= at_us]
        return held[-1] if held else prices[0][1]

    to_us = now_us if bid.to_us is None else bid.to_us
    if not is_by_hour:
        return sum(price(at) for at in range(bid.from_us, to_us, MINUTE_US))
    paid, at_us = 0, bid.from_us
    while True:
        ends_us = at_us + HOUR_US
        is_partial = to_us < ends_us
        if is_partial and (bid.ended_by is not EndedBy.CLUSTER or (to_us == at_us and at_us > bid.from_us)):
            return paid
        paid += price(at_us) * 60
        if is_partial:
            return paid
        at_us = ends_us


@given(
    begin=LENGTHS,
    length=LENGTHS,
    end=st.sampled_from([None, EndedBy.PROVIDER, EndedBy.CLUSTER]),
    changes=st.lists(st.tuples(LENGTHS, st.integers(1, 500)), min_size=1, max_size=6),
    is_by_hour=st.booleans(),
)
def test_a_bill_is_that_of_a_plain_twin(
    begin: int,
    length: int,
    end: EndedBy | None,
    changes: list[tuple[int, int]],
    is_by_hour: bool,
) -> None:
    prices = sorted(dict(changes).items())
    bid = ToldBid("n", "p", begin, to_us=None if end is None else begin + length, ended_by=end)
    rows = HourPrices([at_us for at_us, _ in prices], [micro for _, micro in prices])
    bill = bill_of([bid], rows, 1000, begin + length, is_by_hour=is_by_hour)
    assert bill.cost_micro == (2 * twin_bill(bid, prices, begin + length, is_by_hour=is_by_hour) + 60) // 120
    assert (bill.instance_count, bill.used_us) == (1, length)


def test_the_hour_that_the_provider_ends_is_free_and_the_cost_never_falls() -> None:
    rows, running = HourPrices([0], [100]), ToldBid("n", "p", 0)

    def bill(bid: ToldBid, now_us: int) -> tuple[int, int | None]:
        found = bill_of([bid], rows, 670, now_us, is_by_hour=True)
        return found.cost_micro, found.on_demand_micro

    assert bill(running, HOUR_US - 1) == (0, 0)
    assert bill(running, HOUR_US + 1) == (100, 670)
    over = HOUR_US + HOUR_US // 2
    assert bill(ToldBid("n", "p", 0, to_us=over, ended_by=EndedBy.PROVIDER), 9 * HOUR_US) == (100, 1340)
    assert bill(ToldBid("n", "p", 0, to_us=over, ended_by=EndedBy.CLUSTER), 9 * HOUR_US) == (200, 1340)


def test_bills_stand_among_the_costs_of_the_pools() -> None:
    prices = [PoolPrice("own", 1000, 1000), PoolPrice("bids", 0, None)]
    bill = bill_of([ToldBid("n", "bids", 0)], HourPrices([0], [50]), 670, 2 * HOUR_US, is_by_hour=True)
    cost = cost_of(prices, {"own": (1, HOUR_US)}, {"bids": bill})
    assert [(row.pool, row.cost_micro, row.on_demand_micro) for row in cost.pools] == [
        ("own", 1000, 1000),
        ("bids", 100, 1340),
    ]
    assert (cost.cost_micro, cost.on_demand_micro) == (1100, 2340)


def test_what_a_manager_tells_of_bids_is_counted_once() -> None:
    past = ClusterPast()
    told: list[tuple[str, dict[str, Any]]] = [
        ("node_bought", {"node": "lab-bids-1", "bid": 0.067, "notice_s": 120}),
        ("node_bought", {"node": "lab-bids-2", "bid": 0.067}),
        ("node_bought", {"node": "lab-own-1"}),
        (BID_ENDED, {"node": "lab-bids-1", "from_s": 1.0, "to_s": 61.5, "by": "provider"}),
        (BID_ENDED, {"node": "lab-bids-1", "from_s": 1.0, "to_s": 61.5, "by": "provider"}),
        ("node_bought", {"node": "lab-bids-1", "bid": 0.067}),
        (BID_ENDED, {"node": "lab-bids-3", "from_s": 2.0, "to_s": 1.0, "by": "someone"}),
        (BID_ENDED, {"node": "lab-bids-4", "from_s": "soon"}),
    ]
    past.add(ToldEvent(seq, SECOND_US, kind, facts) for seq, (kind, facts) in enumerate(told, 1))
    found = {bid.node: (bid.from_us, bid.to_us, bid.ended_by) for bid in past.bids}
    assert found == {
        "lab-bids-1": (SECOND_US, 61_500_000, EndedBy.PROVIDER),
        "lab-bids-2": (SECOND_US, None, None),
        "lab-bids-3": (2 * SECOND_US, 2 * SECOND_US, EndedBy.CLUSTER),
    }
    assert past.bids.running("lab-bids-2") is not None
    assert past.bids.running("lab-bids-1") is None


# --- the hazard -------------------------------------------------------------------------------------------------------


def steps_of(prices: list[tuple[int, float]], end_us: int) -> PriceSteps:
    at_us, price = zip(*prices, strict=True)
    return PriceSteps(np.array(at_us, np.int64), np.array(price), end_us)


def test_the_hazard_under_a_bid_is_that_of_the_cell_of_now_and_falls_with_time_within_the_bid() -> None:
    day = [(0, 0.01), (23 * HOUR_US, 0.09)]
    prices = [(at_us + number * DAY_US, price) for number in range(20) for at_us, price in day]
    steps = steps_of([*prices, (20 * DAY_US, 0.01)], 20 * DAY_US + HOUR_US // 2)
    moments = np.array([HOUR_US / 4, HOUR_US * 1.0, 12.0 * HOUR_US])
    found = hazards_under_bid(steps, 0.05, moments)
    learned = learned_hazard(steps, 0.05)
    cells = learned.by_cell[-1].reshape(5, 5)[0]  # the price is below a quarter of the bid
    assert found.rates.tolist() == pytest.approx([max(one, 0.0) for one in (cells[0], cells[0], cells[1])], rel=1e-9)
    assert found.survival[-1] == pytest.approx(float(np.exp(-(found.rates * np.diff(moments, prepend=0.0)).sum())))
    with pytest.raises(PriceAbove):
        hazards_under_bid(steps, 0.005, moments)


def test_without_any_loss_the_floor_remains() -> None:
    steps = steps_of([(0, 0.01)], 10 * DAY_US)
    moments = np.array([1.0 * DAY_US])
    floor = 1.0 / (float(learned_hazard(steps, 0.05).alive_us[-1]) + DAY_US)
    assert hazards_under_bid(steps, 0.05, moments).rates.tolist() == [floor]


def test_the_observed_hazard_is_conditional_on_the_age() -> None:
    def share(age_us: int) -> float:
        return 0.5 ** (age_us / HOUR_US)

    found = hazards_observed(share, 3 * HOUR_US, np.array([1.0 * HOUR_US, 2.0 * HOUR_US]))
    assert (found.rates * HOUR_US).tolist() == pytest.approx([np.log(2)] * 2)
    assert found.survival.tolist() == pytest.approx([0.5, 0.25])


def test_entries_are_json_that_people_can_read(shared: Path) -> None:
    shop, pool = buyer(shared, FakeVenue([(60, 0.01)]))
    shop.start("lab-bids-1", pool)
    entry = json.loads((shared / "slurm/bids/lab-bids-1.json").read_text())
    assert entry.keys() == {"bid", "from_s", "ends_s", "to_s", "ended_by"}
    assert VenueMarket(wanted(shared), FakeVenue([(60, 0.01)])).bid_of("lab-bids-1") is not None  # type: ignore[arg-type]
