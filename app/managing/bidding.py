"""The market of a venue, played on one host.

With a real provider the provider keeps the machines under a bid, and takes one when the price rises above its bid. Here
the machines are this host's own, so this module plays the provider's part: it keeps a book with a file for each
machine, and announces the end of those whose bid is below a price that the service knows of. The book is to a venue
what a log is to a cloud: a machine stands in it before it is made, and goes from it when it is given back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from app.clusters.rules.bids import BID_ENDED, EndedBy
from app.clusters.rules.deciding import SeenInstance, pool_of
from app.clusters.rules.wanted import LONGEST_S, ClusterWanted, PoolWanted
from app.managing.events import Events
from app.managing.files import put
from tenure_client import TenureClient
from tenure_client.forms.venues import PoolAnswer

PRICES_EVERY_S = 5.0
MOST_AGE_S = 25 * 3600.0
"""Providers repeat each price daily, so an older one says that nobody collects prices any more."""
EXPECTED_LOSS = 0.05
"""The share of machines that a quoted bid may lose in their lifetime, where the file does not say another."""
_CHECK_PAUSE_S = 60.0
_LOOK_BACK_S = MOST_AGE_S


class VenueOffer(NamedTuple):
    """A venue's answer to a purchase now: the price and the bid an hour, None if not known, and why it refuses."""

    price: float | None
    bid: float | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Rented:
    """A machine in the book, in Unix time. ends_s: when it is taken, as announced; to_s: when it was over, by whom."""

    bid: float
    from_s: float
    ends_s: float | None = None
    to_s: float | None = None
    ended_by: str = ""


class VenueMarket:
    """The venues of a cluster."""

    def __init__(self, wanted: ClusterWanted, client: TenureClient) -> None:
        self._wanted, self._client = wanted, client
        self._folder = Path(wanted.shared) / "slurm/bids"
        self._asked_s: dict[str, float] = {}
        self._since: dict[str, datetime] = {}

    # --- what is there ------------------------------------------------------------------------------------------------

    def instances(self) -> dict[str, SeenInstance]:
        """Return the machines that run, and those whose end is announced, by node."""
        now_s = time.time()
        return {
            node: SeenInstance(now_s - one.from_s, None, None if one.ends_s is None else one.ends_s - now_s)
            for node, one in self._book()
            if one.to_s is None
        }

    def bid_of(self, node: str) -> Rented | None:
        """Return a machine of the book; None if it is not there."""
        return self._read(self._folder / f"{node}.json")

    def _book(self) -> Iterator[tuple[str, Rented]]:
        for path in sorted(self._folder.glob(f"{self._wanted.name}-*.json")):
            if (one := self._read(path)) is not None:
                yield path.stem, one

    def _read(self, path: Path) -> Rented | None:
        try:
            return Rented(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None

    def _write(self, node: str, one: Rented) -> None:
        """Write an entry so that it is there as a whole, also after a crash of the host."""
        self._folder.mkdir(parents=True, exist_ok=True)
        put(self._folder / f"{node}.json", json.dumps(asdict(one)), is_durable=True)

    # --- buying and giving back ---------------------------------------------------------------------------------------

    def offer(self, pool: PoolWanted, lifetime_s: float | None = None) -> VenueOffer:
        """Ask the service what a pool costs, and for its bid. Raise ClientError if it does not know or answer."""
        known = self._known(pool)
        if known is None:
            return VenueOffer(None, None, f"venue {pool.cloud} has no {pool.flavor} {pool.product!r} in {pool.zone}")
        if known.price is None or known.price_at is None or _age_s(known.price_at) > MOST_AGE_S:
            return VenueOffer(
                known.price, None, "no price of the last 25 hours is known; follow the venue, or import some"
            )
        bid, why_not = self._bid(pool, known, lifetime_s)
        if bid is not None and known.price > bid:
            return VenueOffer(known.price, bid, _too_low(known.price, bid))
        return VenueOffer(known.price, bid, why_not)

    def _bid(self, pool: PoolWanted, known: PoolAnswer, lifetime_s: float | None) -> tuple[float | None, str]:
        if not isinstance(pool.bid, str):
            return float(pool.bid), ""
        if pool.bid == "quote":
            return self._quoted(pool, lifetime_s)
        told = pool.on_demand_price_per_hour
        on_demand = known.on_demand_price if told is None else told
        return (
            on_demand,
            "" if on_demand is not None else "its price on demand is not known; acceptable: an amount as bid",
        )

    def _quoted(self, pool: PoolWanted, lifetime_s: float | None) -> tuple[float | None, str]:
        wanted_s = min(max(pool.lifetime_s, ceil(lifetime_s or 0.0)), LONGEST_S)
        chance = pool.eviction_probability
        probability = 1.0 - (EXPECTED_LOSS if chance is None else chance)
        asked = self._client.venue_quotes(
            pool.cloud, wanted_s, probability=probability, instance_type=pool.flavor, zone=pool.zone, limit=100
        )
        for quote in asked.quotes:
            if quote.product == pool.product:
                why_not = f"no bid for {wanted_s} s at {probability:g}: {quote.why_not}; acceptable: an amount as bid"
                return quote.bid, why_not if quote.bid is None else ""
        return None, "the venue quotes no such pool"

    def _known(self, pool: PoolWanted) -> PoolAnswer | None:
        found = self._client.pools(pool.cloud, instance_type=pool.flavor, zone=pool.zone)
        return next((one for one in found if one.product == pool.product), None)

    def rent(self, node: str, pool: PoolWanted, lifetime_s: float | None) -> VenueOffer:
        """Buy a machine if the price is at most the bid; return what the venue said."""
        offer = self.offer(pool, lifetime_s)
        if offer.bid is not None and not offer.why_not:
            self._write(node, Rented(offer.bid, round(time.time(), 6)))
        return offer

    def end(self, node: str, by: EndedBy) -> None:
        """Write down that a machine is over; `settle` tells of it. Done twice it is done once."""
        one = self.bid_of(node)
        if one is not None and one.to_s is None:
            self._write(node, replace(one, to_s=round(time.time(), 6), ended_by=by))

    def settle(self, events: Events) -> None:
        """Tell of the machines that are over, and forget them. One that is told twice is the same to the service."""
        for node, one in [*self._book()]:
            if one.to_s is not None:
                events.write(BID_ENDED, node=node, from_s=one.from_s, to_s=one.to_s, by=one.ended_by)
                (self._folder / f"{node}.json").unlink(missing_ok=True)

    # --- the provider's rule ------------------------------------------------------------------------------------------

    def follow_prices(self, events: Events) -> None:
        """Announce the end of each machine whose bid a price has been above. Raise ClientError without an answer."""
        running: dict[str, dict[str, Rented]] = {}
        for node, one in self._book():
            if one.to_s is None and one.ends_s is None:
                running.setdefault(pool_of(node), {})[node] = one
        for name, nodes in running.items():
            pool = self._wanted.pool(name)
            if pool is not None and time.monotonic() - self._asked_s.get(name, -PRICES_EVERY_S) >= PRICES_EVERY_S:
                self._announce(pool, nodes, events)
                self._asked_s[name] = time.monotonic()

    def _announce(self, pool: PoolWanted, nodes: Mapping[str, Rented], events: Events) -> None:
        oldest = datetime.fromtimestamp(min(one.from_s for one in nodes.values()), UTC)
        since = max(oldest, self._since.get(pool.name, oldest))
        now_s = time.time()
        prices = [*self._client.venue_prices(pool.cloud, pool.flavor, str(pool.zone), since, product=pool.product)]
        for node, one in nodes.items():
            above = [price for price in prices if price.price > one.bid and price.at.timestamp() > one.from_s]
            if above:
                self._write(node, replace(one, ends_s=now_s + pool.notice_s))
                why = f"the price rose to {above[0].price:g}, above the bid of {one.bid:g}"
                events.write("node_outbid", node=node, price=above[0].price, bid=one.bid, why=why)
        self._since[pool.name] = datetime.fromtimestamp(now_s - _LOOK_BACK_S, UTC)

    def next_checkpoint_s(
        self, node: str, pool: PoolWanted, pause_s: float, at_risk_s: float, loss_every_s: float | None
    ) -> float | None:
        """Return when the next checkpoint of a job on a machine is due, by the venue's hazard under its bid."""
        one = self.bid_of(node)
        if one is None:
            return None
        lengths = {"notice_s": float(pool.notice_s), "age_s": time.time() - one.from_s, "at_risk_s": at_risk_s}
        return self._advised_s(
            pool, one.bid, pause_s, lengths | ({"loss_every_s": loss_every_s} if loss_every_s else {})
        )

    def first_checkpoint_s(self, pool: PoolWanted, bid: float) -> float | None:
        """Return when the first checkpoint of a minute would be due on a machine bought now, without any notice."""
        return self._advised_s(pool, bid, _CHECK_PAUSE_S, {"notice_s": 0.0, "at_risk_s": 0.0})

    def _advised_s(self, pool: PoolWanted, bid: float, pause_s: float, lengths: Mapping[str, float]) -> float | None:
        given: dict[str, Any] = {name: round(length_s, 3) for name, length_s in lengths.items()}
        ask = self._client.venue_checkpoint_advice
        where = pool.cloud, pool.flavor, str(pool.zone)
        return ask(*where, bid, pool.lifetime_s, pause_s, product=pool.product, **given).next_at_s


def _too_low(price: float, bid: float) -> str:
    return f"the price is {price:g} an hour and the bid {bid:g}; acceptable: a bid of {price:g}"


def _age_s(at: datetime) -> float:
    return (datetime.now(UTC) - at).total_seconds()
