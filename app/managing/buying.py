"""The cluster's instances at Tenure clouds, and its machines at venues.

An instance's id is the name of its node, with a dot after the cluster. So a token whose name begins with the
cluster's may buy them in a cloud whose ids belong to owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from app.clusters.rules.bids import EndedBy
from app.clusters.rules.deciding import SeenInstance
from app.clusters.rules.wanted import LONGEST_S, ClusterWanted, PoolWanted
from app.domain.times import SECOND_US, at_least_text, length_text
from app.managing.bidding import EXPECTED_LOSS, VenueMarket, VenueOffer
from tenure_client import ClientError, Conflict, NotFound, TenureClient
from tenure_client.forms.instances import HandoverAnswer, InstanceAnswer, StartAnswer

_SINCE = datetime(2026, 1, 1, tzinfo=UTC)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Purchase(NamedTuple):
    """An answer to a wish to buy. facts: what is told of a purchase."""

    is_bought: bool
    why: str = ""
    facts: Mapping[str, float | str | None] = MappingProxyType({})


class RefusedNode(NamedTuple):
    """A node that was asked for and refused later, and why."""

    node: str
    pool: str
    why: str


class Buyer:
    """Buys, extends and gives back the instances of a cluster."""

    def __init__(self, wanted: ClusterWanted, client: TenureClient) -> None:
        self._wanted, self._client = wanted, client
        self.market = VenueMarket(wanted, client)
        self._clouds = sorted({pool.cloud for pool in wanted.pools if not pool.is_bid})
        self._sizes: dict[tuple[str, str], tuple[int, int]] = {}
        self._number = 0
        self._cloud_of: dict[str, str] = {}

    def instances(self) -> dict[str, SeenInstance]:
        """Return the instances that run, and those under notice, by node. Raise ClientError if a cloud is silent."""
        found: dict[str, SeenInstance] = {}
        now, cloud_of = _now(), dict[str, str]()
        for cloud in self._clouds:
            for one in self._client.instances(cloud, status="running"):
                if (node := self._node_of(one.id)) is not None:
                    found[node], cloud_of[node] = _seen(one, now), cloud
            for handover in self._client.handovers(cloud):
                if (node := self._node_of(handover.id)) is not None:
                    found[node], cloud_of[node] = _noticed(handover, now), cloud
        self._cloud_of = cloud_of
        return found | self.market.instances()

    def _node_of(self, instance: str) -> str | None:
        head, _, rest = instance.partition(".")
        return f"{head}-{rest}" if head == self._wanted.name and rest.count("-") == 1 else None

    def new_node(self, pool: PoolWanted) -> str:
        """Return a name that no node had before: its number is the time, in hundredths of a second.

        A purchase takes longer than that, so a manager that is started again does not come to a number that was taken.
        """
        self._number = max(self._number + 1, int((_now() - _SINCE).total_seconds() * 100))
        number, digits = self._number, ""
        while number:
            number, digit = divmod(number, len(_DIGITS))
            digits = _DIGITS[digit] + digits
        return f"{self._wanted.name}-{pool.name}-{digits}"

    def start(self, node: str, pool: PoolWanted, lifetime_s: float | None = None) -> Purchase:
        """Ask a cloud or venue for a machine, for a job that may need it so long.

        Only where the pool says a shortest lease is the job's own time asked for: the cloud promises the longest
        lifetime that it can between the two.
        """
        if pool.is_bid:
            return _bidden(self.market.rent(node, pool, lifetime_s), pool)
        is_spot = pool.market == "spot"
        answer = self._client.start(
            pool.cloud,
            self.instance_id(node),
            pool.market,
            pool.flavor,
            lifetime_s=self.wanted_s(pool, lifetime_s) if is_spot else None,
            min_lifetime_s=pool.min_lease_s if is_spot else None,
            eviction_probability=pool.eviction_probability,
        )
        return Purchase(answer.accepted, "" if answer.accepted else _refusal(answer))

    def instance_id(self, node: str) -> str:
        """Return the id of a node's instance."""
        return node.replace("-", ".", 1)

    def refused(self) -> list[RefusedNode]:
        """Return the nodes that were refused after they had been asked for: clouds answer at once, so none."""
        return []

    def wanted_s(self, pool: PoolWanted, lifetime_s: float | None) -> int:
        """Return the lifetime to ask for, for a job that may need a node so long."""
        of_job_s = 0.0 if lifetime_s is None or pool.min_lease_s is None else lifetime_s
        return min(max(pool.lifetime_s, ceil(of_job_s)), LONGEST_S)

    def stop(self, node: str) -> None:
        """Give an instance back that the last look has seen. Its pool need not be in the file any more."""
        if (cloud := self._cloud_of.get(node)) is not None:
            self._client.stop(cloud, self.instance_id(node))
        elif self.market.bid_of(node) is not None:
            self.market.end(node, EndedBy.CLUSTER)

    def confirm(self, node: str) -> None:
        """Tell the cloud that an evicted instance is gone; where the token may not, its deadline does."""
        if (cloud := self._cloud_of.get(node)) is not None:
            self._client.confirm_handover(cloud, self.instance_id(node))
        elif self.market.bid_of(node) is not None:
            self.market.end(node, EndedBy.PROVIDER)

    def extend(self, node: str, pool: PoolWanted) -> bool:
        """Ask for as much lifetime again; return False if that is refused."""
        try:
            now_s = self._client.instance(pool.cloud, self.instance_id(node)).lifetime_s or 0
            return self._client.extend(pool.cloud, self.instance_id(node), now_s + pool.lifetime_s).accepted
        except (Conflict, NotFound):
            return False

    def grace_s(self, pool: PoolWanted) -> float:
        """Return how long before an eviction a pool's cloud or venue tells of it."""
        return float(pool.notice_s) if pool.is_bid else self._client.cloud(pool.cloud).policy.grace_s

    def eviction_probability(self, pool: PoolWanted) -> float:
        """Return the probability that is promised to a pool's spot starts, its own or its cloud's.

        Of a venue, which promises nothing, it is what the bid is meant for.
        """
        own = EXPECTED_LOSS if pool.is_bid and pool.eviction_probability is None else pool.eviction_probability
        return own if own is not None else self._client.cloud(pool.cloud).policy.eviction_probability

    def next_checkpoint_s(
        self, node: str, pool: PoolWanted, pause_s: float, at_risk_s: float, loss_every_s: float | None = None
    ) -> float | None:
        """Return when the next checkpoint of a job on a node is due; None: the cloud or venue has no advice."""
        try:
            if pool.is_bid:
                return self.market.next_checkpoint_s(node, pool, pause_s, at_risk_s, loss_every_s)
            return self._client.checkpoint_advice(
                pool.cloud,
                self.instance_id(node),
                pause_s,
                at_risk_s=round(at_risk_s, 3),
                loss_every_s=loss_every_s,
            ).next_at_s
        except (Conflict, NotFound):
            return None

    def size(self, pool: PoolWanted) -> tuple[int, int]:
        """Return the cores and the memory in MiB of a pool's flavor; at least one core and 64 MiB."""
        if pool.is_bid:
            return pool.cores, pool.memory_mib
        key = pool.cloud, pool.flavor
        if key not in self._sizes:
            flavor = self._client.flavor(*key)
            self._sizes[key] = max(flavor.cores, 1), max(flavor.memory_mib, 64)
        return self._sizes[key]

    def offers(self) -> Iterator[tuple[PoolWanted, str, bool | None]]:
        """Yield for each pool what its cloud says of a start now, and if it would be accepted.

        None: there is room, and the quote is too short. Only the decision tells, for it may go beyond the quote.
        """
        for pool in self._wanted.pools:
            try:
                yield pool, *self._offer(pool)
            except ClientError as error:
                yield pool, str(error), False

    def _offer(self, pool: PoolWanted) -> tuple[str, bool | None]:
        if pool.is_bid:
            return self._offer_at_venue(pool)
        slots = self._client.flavor(pool.cloud, pool.flavor).available_slots
        if not slots:
            return "no room at present", False
        if pool.market != "spot" or self._client.cloud(pool.cloud).policy.guarantee == "none":
            return f"{slots} slots", True
        (quote,) = self._client.quotes(
            pool.cloud, flavor=pool.flavor, eviction_probability=pool.eviction_probability, lifetime_s=pool.lifetime_s
        ).quotes
        longest_s, least_s = quote.lifetime_s or 0, pool.min_lease_s or pool.lifetime_s
        longest, asked = at_least_text(int(longest_s * SECOND_US)), length_text(least_s * SECOND_US)
        says = f"{slots} slots; guaranteed at {quote.eviction_probability:g} for {longest}"
        if longest_s > least_s:
            return says, True
        return f"{says}, and asked for {asked}; a start may be accepted beyond its quote", None

    def _offer_at_venue(self, pool: PoolWanted) -> tuple[str, bool]:
        offer = self.market.offer(pool)
        if offer.bid is None or offer.why_not:
            return offer.why_not, False
        due_s = self.market.first_checkpoint_s(pool, offer.bid)
        when = (
            "no checkpoint is worth its pause"
            if due_s is None
            else f"a checkpoint of a minute pays after {length_text(round(due_s) * SECOND_US)}"
        )
        return f"the price is {offer.price:g} an hour and the bid {offer.bid:g}; {when}", True


def _bidden(offer: VenueOffer, pool: PoolWanted) -> Purchase:
    if offer.why_not:
        return Purchase(is_bought=False, why=offer.why_not)
    return Purchase(is_bought=True, facts={"bid": offer.bid, "price": offer.price, "notice_s": pool.notice_s})


def _refusal(answer: StartAnswer) -> str:
    """Return why a start was refused, and what would have been accepted."""
    other = answer.acceptable
    if other is None:
        return str(answer.reason)
    ways = [f"a lifetime of {at_least_text(int(other.lifetime_s) * SECOND_US)}"] if other.lifetime_s else []
    if other.eviction_probability is not None:
        ways.append(f"an eviction probability of {other.eviction_probability:g}")
    return f"{answer.reason}; acceptable: {' or '.join(ways) or 'nothing'}"


def _now() -> datetime:
    return datetime.now(UTC)


def _seen(one: InstanceAnswer, now: datetime) -> SeenInstance:
    age_s = (now - one.at).total_seconds()
    return SeenInstance(age_s, None if one.lifetime_s is None else one.lifetime_s - age_s)


def _noticed(handover: HandoverAnswer, now: datetime) -> SeenInstance:
    return SeenInstance(0.0, None, (handover.deadline - now).total_seconds())
