"""A cluster as its file describes it, as far as the service needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.clusters.rules.bids import BID
from app.clusters.rules.costs import PoolPrice, price_micro


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A pool: where its nodes are bought, how many there may be, and what an hour of one costs.

    Of the market `bid` cloud names a venue, and flavor with zone and product a pool of it, whose
    prices count. on_demand_price_per_hour: of the same machine on demand; None where nobody said.
    """

    name: str
    cloud: str
    flavor: str
    market: str
    max_nodes: int
    price_per_hour: float = 0.0
    on_demand_price_per_hour: float | None = None
    zone: str | None = None
    product: str | None = None

    @property
    def is_bid(self) -> bool:
        """True if its nodes are bought at a venue."""
        return self.market == BID

    @property
    def is_priced(self) -> bool:
        """True if somebody said what a node costs: the file, or a venue."""
        return self.is_bid or self.price_per_hour > 0

    @property
    def on_demand_price(self) -> float | None:
        """The price of an hour on demand: of a pool that is on demand its own."""
        is_own = self.on_demand_price_per_hour is None and self.market == "on_demand"
        return self.price_per_hour if is_own else self.on_demand_price_per_hour

    @property
    def price(self) -> PoolPrice:
        """The prices as whole millionths."""
        on_demand = self.on_demand_price
        return PoolPrice(
            self.name, price_micro(self.price_per_hour), None if on_demand is None else price_micro(on_demand)
        )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The description: how many nodes there may be in all, and the pools in the order in which they are asked."""

    max_nodes: int
    pools: tuple[PoolSpec, ...]

    @property
    def most_nodes(self) -> int:
        """The most nodes that there may be: the limits of the pools count, too."""
        return min(self.max_nodes, sum(pool.max_nodes for pool in self.pools))

    @property
    def priced(self) -> set[str]:
        """The pools, by name, of whose nodes the price is known."""
        return {pool.name for pool in self.pools if pool.is_priced}

    @property
    def clouds(self) -> list[str]:
        """The clouds where nodes are bought, by name."""
        return sorted({pool.cloud for pool in self.pools if not pool.is_bid})

    @property
    def venues(self) -> list[str]:
        """The venues where nodes are bought, by name."""
        return sorted({pool.cloud for pool in self.pools if pool.is_bid})


def spec_json(spec: ClusterSpec) -> dict[str, Any]:
    """Return a description as JSON values."""
    return asdict(spec)


def spec_of(stored: Mapping[str, Any]) -> ClusterSpec:
    """Return the description that was stored."""
    pools: Iterable[Mapping[str, Any]] = stored["pools"]
    return ClusterSpec(stored["max_nodes"], tuple(PoolSpec(**pool) for pool in pools))
