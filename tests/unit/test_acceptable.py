"""A refusal proposes only what is accepted when it is sent, within the bounds of the cloud's policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from app.admission.acceptable import acceptable_instead, rounded_up
from app.admission.batch import Batch, decide_next
from app.admission.bounds import is_out_of_bounds
from app.admission.decide import decide_drill, decide_start, decide_stop
from app.admission.outcomes import Started
from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    StartDecision,
)
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Acceptable, Clock, Forecast, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud

RISK_PER_DAY = 0.05
P = 0.1
GUARANTEES = [Guarantee.PER_INSTANCE, Guarantee.POOLED, Guarantee.STRATIFIED]
POLICY = Policy(
    eviction_probability=P,
    clock=Clock.EXTERNAL,
    forecast=Forecast.REPLAY,
    warm_up_us=0,
    table_max_age_us=10**18,
    shortest_lifetime_us=HOUR_US,
    longest_lifetime_us=60 * DAY_US,
    highest_probability=0.4,
    owner_share=0.5,
)


class Rising:
    """A table that gives a lifetime an eviction probability in proportion to it."""

    epoch, epoch_us, seq = 1, 0, 1

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return round(probability / RISK_PER_DAY * DAY_US) + 1

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return min(RISK_PER_DAY * lifetime_us / DAY_US, 0.999)

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return None

    def seen_from(self, outlooks: object) -> Rising:
        return self


def made(policy: Policy) -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=policy))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(64)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    cloud.commit()
    return cloud


def decided(cloud: Cloud, request: StartRequest, at_us: int) -> StartDecision:
    event = decide_start(cloud, request, at_us, Rising())[-1]
    assert isinstance(event, InstanceStarted | InstanceRejected)
    return event


def refusals(cloud: Cloud, rng: Random) -> Iterator[tuple[StartRequest, InstanceRejected]]:
    """Yield each refusal of a random history, with the cloud as it was when it was decided."""
    for step in range(150):
        at_us = (step + 1) * HOUR_US
        kind, spot = rng.random(), [one for one in cloud.running.values() if one.market is Market.SPOT]
        if kind < 0.3 and spot:
            evict = kind < 0.12
            events = decide_drill(cloud, None, at_us) if evict else decide_stop(cloud, spot[0].instance_id, at_us)
        elif kind < 0.4:
            request = StartRequest(f"d{step}", Market.ON_DEMAND, "c1", None, at_us=at_us)
            events = decide_start(cloud, request, at_us, Rising())
        else:
            request = StartRequest(
                f"s{step}",
                Market.SPOT,
                "c1",
                rng.choice([HOUR_US, DAY_US, 3 * DAY_US, 9 * DAY_US, 40 * DAY_US]),
                rng.choice([None, P / 8, P, 2 * P]),
                at_us,
                rng.choice([None, "one", "other"]),
            )
            if is_out_of_bounds(cloud.policy, request):
                continue
            events = decide_start(cloud, request, at_us, Rising())
            if isinstance(events[-1], InstanceRejected):
                yield request, events[-1]
        for event in events:
            cloud.apply(event)
        cloud.commit()


def proposals(request: StartRequest, instead: Acceptable) -> Iterator[StartRequest]:
    if instead.lifetime_us is not None:
        yield replace(request, instance_id="shorter", lifetime_us=instead.lifetime_us)
    if instead.probability is not None:
        yield replace(request, instance_id="laxer", eviction_probability=instead.probability)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(5))
def test_all_that_is_proposed_is_accepted_when_it_is_sent(guarantee: Guarantee, seed: int) -> None:
    cloud, lifetimes, promises = made(replace(POLICY, guarantee=guarantee)), 0, 0
    for request, refused in refusals(cloud, Random(seed)):
        instead = acceptable_instead(refused)
        assert instead == refused.acceptable
        if instead is None:
            continue
        for other in proposals(request, instead):
            assert not is_out_of_bounds(cloud.policy, other)
            assert isinstance(decided(cloud, other, refused.at_us), InstanceStarted)
        lifetimes += instead.lifetime_us is not None
        promises += instead.probability is not None
        assert instead.probability is None or instead.probability > (request.eviction_probability or P)
    assert min(lifetimes, promises) > 1


@pytest.mark.parametrize("guarantee", [Guarantee.PER_INSTANCE, Guarantee.STRATIFIED])
@pytest.mark.parametrize(("highest", "proposed"), [(0.4, 0.36), (0.355, 0.353)])
def test_the_risk_is_proposed_where_it_is_enough(guarantee: Guarantee, highest: float, proposed: float) -> None:
    """It is rounded up to two digits, but where the policy allows no such promise."""
    request = StartRequest("s", Market.SPOT, "c1", round(7.06 * DAY_US), None)
    refused = decided(made(replace(POLICY, guarantee=guarantee, highest_probability=highest)), request, 1)
    assert isinstance(refused, InstanceRejected)
    assert refused.acceptable is not None
    assert refused.acceptable.probability == proposed


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.35, 0.35), (0.35000000000000003, 0.36), (0.0101, 0.011), (1e-4, 1e-4), (0.991, 1.0), (1.0000001e-7, 1.1e-7)],
)
def test_a_promise_is_rounded_up_to_two_digits(probability: float, expected: float) -> None:
    assert rounded_up(probability) == expected


def test_what_is_rounded_up_is_never_below() -> None:
    rng = Random(1)
    for _ in range(10_000):
        probability = rng.random() ** rng.randint(1, 20)
        assert probability <= rounded_up(probability) <= 1.1 * probability + 1e-300


@pytest.mark.parametrize("guarantee", [Guarantee.PER_INSTANCE, Guarantee.STRATIFIED])
def test_nothing_out_of_bounds_is_proposed(guarantee: Guarantee) -> None:
    """The risk of ten days is more than may be asked for; what a hundredth of a day allows is less than may be."""
    bounded = replace(POLICY, guarantee=guarantee, shortest_lifetime_us=DAY_US)
    refused = decided(made(bounded), StartRequest("s", Market.SPOT, "c1", 10 * DAY_US, RISK_PER_DAY / 100), 1)
    assert isinstance(refused, InstanceRejected)
    assert refused.acceptable == acceptable_instead(refused) == Acceptable(None, None)


def test_a_refusal_of_an_older_log_tells_what_it_told() -> None:
    refused = decided(
        made(replace(POLICY, guarantee=Guarantee.STRATIFIED)), StartRequest("s", Market.SPOT, "c1", 7 * DAY_US, P), 1
    )
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.BUDGET_EXHAUSTED
    older = acceptable_instead(replace(refused, acceptable=None))
    assert older is not None
    assert older.probability == 2 * Rising().probability("c1", 1, 7 * DAY_US)  # type: ignore[operator]


def test_an_older_format_records_a_refusal_without_them() -> None:
    for log_format, is_told in ((4, False), (5, True)):
        cloud, batch = made(replace(POLICY, guarantee=Guarantee.STRATIFIED)), Batch({}, log_format=log_format)
        decide_next(batch, cloud, StartRequest("s", Market.SPOT, "c1", 7 * DAY_US, P, 1), 1, Rising())
        (outcome,) = batch.outcomes
        assert isinstance(outcome, Started)
        assert isinstance(outcome.decision, InstanceRejected)
        assert (outcome.decision.acceptable is not None) == is_told
