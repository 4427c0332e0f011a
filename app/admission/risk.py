"""The probability that a running spot instance is evicted in the rest of its declared lifetime. Pure.

A quantile table gives this for an instance that starts now. A running one is treated like an instance that starts now
and sees these slots: the free ones, its own, and those of instances that would be evicted before it (younger and
overrunning ones). Instances of one flavor that do not fit on one node together are counted as if they did, so the
estimate is no promise; the promise was made at the start. Of a group it is that of the last of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.admission.decide import MOST_NOTICES
from app.admission.quote import Quotes
from app.admission.sparing import can_begin, is_worth_telling
from app.domain.events import EvictionRisk
from app.domain.values import Market, MovePlan, Policy, Resources, RiskLevel, ToldRisk
from app.engine.cloud import Cloud, Running

_NOTHING = (0,) * len(Resources._fields)


@dataclass(frozen=True, slots=True)
class Exposed:
    """A running spot instance within its declared lifetime, with the rest of that lifetime and the slots it sees."""

    instance_id: str
    flavor: str
    remaining_us: int
    slots: int


def exposed_instances(cloud: Cloud, now_us: int) -> Callable[[], Iterator[Exposed]]:
    """Return a function that yields all such instances as they are now, in order of eviction, on any thread.

    They may be hundreds of thousands.
    """
    running, flavors = [*cloud.running.values()], [*cloud.flavors]
    demands = {flavor: cloud.flavors[flavor].resources for flavor in flavors}
    slots_now = cloud.slots_now(flavors)

    def found() -> Iterator[Exposed]:
        available, before = dict(zip(flavors, slots_now(), strict=True)), list(_NOTHING)
        for one in _in_order_of_eviction(running, now_us):
            demand = demands[one.flavor]
            if now_us < one.deadline_us:
                slots = available[one.flavor] + 1 + _how_many(before, demand)
                yield Exposed(one.instance_id, one.flavor, one.deadline_us - now_us, slots)
            before = [some + one.count * more for some, more in zip(before, demand, strict=True)]

    return found


@dataclass(frozen=True, slots=True)
class Crossed:
    """An instance whose risk crossed the threshold: in which direction, the new risk, its bound and its windows.

    `moves` would spare it. With moves it may also be one that was above before.
    """

    exposed: Exposed
    level: RiskLevel
    probability: float
    bound: float | None = None
    windows: float | None = None
    moves: MovePlan = ()


@dataclass(frozen=True, slots=True)
class Assessed:
    """The ground of an assessment: the policy's threshold, and the epoch of the table."""

    threshold: float
    epoch: int


def assess_risk(
    exposed: Iterable[Exposed],
    at_risk: frozenset[str],
    policy: Policy,
    quotes: Quotes,
    moves: Mapping[str, MovePlan],
) -> list[Crossed]:
    """Return instances whose risk crossed the policy's threshold since the last notice; none without a threshold.

    They are the first of these that are exposed, MOST_NOTICES at most; the next assessment finds the others. Instances
    of flavors that the table does not know are left out. Those that would be spared by `moves` are among them as long
    as they are above.
    """
    changed: list[Crossed] = []
    threshold = 1.0 if policy.risk_threshold is None else policy.risk_threshold
    for one in exposed:
        probability = quotes.probability(one.flavor, one.slots, one.remaining_us)
        if probability is None:
            continue
        is_above = probability > threshold
        plan = moves.get(one.instance_id, ()) if is_above else ()
        if plan or is_above != (one.instance_id in at_risk):
            level = RiskLevel.RAISED if is_above else RiskLevel.CLEARED
            bound = quotes.bound(one.flavor, one.slots, one.remaining_us, policy.confidence)
            windows = quotes.windows(one.flavor, one.slots, one.remaining_us)
            changed.append(Crossed(one, level, probability, bound, windows, plan))
            if len(changed) == MOST_NOTICES:
                break
    return changed


def decide_risk(
    cloud: Cloud,
    changed: Sequence[Crossed],
    assessed: Assessed,
    told: Mapping[str, ToldRisk],
    at_us: int,
) -> list[EvictionRisk]:
    """Return the risk notices, for those that still run and have not been notified meanwhile.

    `told`: what was last told of those that are at risk, as far as it is known.
    """
    return [
        EvictionRisk(
            at_us=at_us,
            instance_id=one.exposed.instance_id,
            level=one.level,
            probability=one.probability,
            threshold=assessed.threshold,
            epoch=assessed.epoch,
            slots=one.exposed.slots,
            probability_bound=one.bound,
            windows=one.windows,
            moves=moves,
        )
        for one, moves in ((one, one.moves if can_begin(cloud, one.moves) else ()) for one in changed)
        if _is_news(cloud, one, moves, told, at_us)
    ]


def told_before(cloud: Cloud, changed: Iterable[Crossed]) -> list[str]:
    """Return those that are above the threshold as they were at their last notice."""
    names = (one.exposed.instance_id for one in changed if one.level is RiskLevel.RAISED)
    return [name for name in names if name in cloud.at_risk]


def _is_news(cloud: Cloud, one: Crossed, moves: MovePlan, told: Mapping[str, ToldRisk], at_us: int) -> bool:
    """Return True if the instance still runs, and has not been notified meanwhile or has moves to be told."""
    name = one.exposed.instance_id
    if name not in cloud.running:
        return False
    if (one.level is RiskLevel.RAISED) != (name in cloud.at_risk):
        return True
    return one.level is RiskLevel.RAISED and is_worth_telling(moves, told.get(name), at_us)


def _in_order_of_eviction(running: Iterable[Running], now_us: int) -> list[Running]:
    spot = [one for one in running if one.market is Market.SPOT]
    return sorted(spot, key=lambda one: (now_us <= one.deadline_us, -one.seq))


def _how_many(room: Sequence[int], demand: Resources) -> int:
    return min((have // need for have, need in zip(room, demand, strict=True) if need), default=0)
