"""The eviction budget: its arithmetic against a plain account of the same log, and what the rule promises."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import seeds

from app.admission.budget import affords, read_budget
from app.admission.decide import decide_start, decide_stop
from app.domain.budgets import Budget
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
)
from app.domain.requests import StartRequest
from app.domain.times import HOUR_US
from app.domain.values import Clock, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud, Running
from app.scheduling.store.snapshots import decode_cloud, encode_cloud

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
CLASSES = (0.05, 0.2)


class Quotes:
    """A table that gives every lifetime the same eviction probability."""

    epoch = 1
    epoch_us = 0

    def __init__(self, estimate: float) -> None:
        self.estimate = estimate

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return 10**15 if self.estimate <= probability else 0

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return self.estimate

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return self.estimate


def make_cloud(node_count: int = 3) -> Cloud:
    cloud = Cloud()
    policy = Policy(guarantee=Guarantee.POOLED, clock=Clock.EXTERNAL, warm_up_us=0, table_max_age_us=10**18)
    cloud.apply(CloudCreated(at_us=0, policy=policy))
    for index in range(node_count):
        cloud.apply(NodeAdded(at_us=0, node=f"n{index}", capacity=Resources(8)))
    for cores in (1, 2, 4):
        cloud.apply(FlavorAdded(at_us=0, flavor=f"c{cores}", demand=Resources(cores)))
    cloud.commit()
    return cloud


def spot(cloud: Cloud, name: str, at_us: int, lifetime_us: int, probability: float = 0.05, flavor: str = "c1") -> None:
    node = cloud.fitting_node(flavor)
    assert node is not None
    cloud.apply(
        InstanceStarted(
            at_us=at_us,
            instance_id=name,
            market=SPOT,
            flavor=flavor,
            node=node,
            lifetime_us=lifetime_us,
            probability=probability,
        )
    )


def plain_budget(cloud: Cloud, request: StartRequest, probability: float, at_us: int, peak: int) -> tuple[float, float]:
    """Charges of what runs and of the request, written out for one resource."""
    room = sum(node.capacity.cores for node in cloud.nodes.values()) - peak
    taken, committed = 0, 0.0
    for running in sorted(cloud.running.values(), key=lambda running: running.seq):
        if running.market is ON_DEMAND or at_us > running.deadline_us:
            continue
        taken += cloud.flavors[running.flavor].resources.cores
        left_us = running.deadline_us - at_us
        if running.probability == probability:
            committed += 1.0 if taken > room else taken / room * (left_us / (at_us + left_us) if left_us else 0.0)
    taken += cloud.flavors[request.flavor].resources.cores
    lifetime_us = request.lifetime_us or 0
    return committed, 1.0 if taken > room else taken / room * lifetime_us / (at_us + lifetime_us)


@pytest.mark.parametrize("seed", seeds(30))
def test_a_random_history_is_accounted_as_by_hand(seed: int) -> None:
    """Every decision's budget and its verdict; a rollback leaves no trace, and a snapshot keeps all."""
    rng = random.Random(seed)
    quotes = Quotes(rng.choice([0.0, 0.02, 0.5]))
    cloud, account = make_cloud(), Account(quotes.estimate)
    for step in range(200):
        at_us = (step + 1) * HOUR_US // 4
        if cloud.running and rng.random() < 0.4:
            events = decide_stop(cloud, rng.choice(sorted(cloud.running)), at_us)
        else:
            request = start_request(rng, f"i{step}", at_us)
            events = decide_start(cloud, request, at_us, quotes)
            if request.market is SPOT:
                account.check(cloud, request, events[-1])
        account.take(cloud, events)
        digest = cloud.digest()
        apply_all(cloud, events)
        cloud.rollback()
        assert cloud.digest() == digest
        apply_all(cloud, events)
        cloud.commit()
    assert decode_cloud(encode_cloud(cloud)).digest() == cloud.digest()


def read(cloud: Cloud, request: StartRequest, estimate: float, at_us: int) -> Budget:
    probability, quotes = request.eviction_probability or 0.0, Quotes(estimate)
    return read_budget(cloud, request, probability, estimate, cloud.available_slots(request.flavor), quotes, at_us)


def start_of(lifetime_us: int, probability: float) -> StartRequest:
    return StartRequest("s", SPOT, "c1", lifetime_us, probability)


def apply_all(cloud: Cloud, events: Sequence[Event]) -> None:
    for event in events:
        cloud.apply(event)


class Account:
    """Counts of each class and the highest on-demand load, kept beside the cloud."""

    def __init__(self, estimate: float) -> None:
        self.peak = self.load = self.affordable = 0
        self.estimate = estimate
        self.counts = {probability: [0, 0] for probability in CLASSES}

    def check(self, cloud: Cloud, request: StartRequest, decision: Event) -> None:
        probability, budget = request.eviction_probability or 0.0, decision.basis.budget
        expected = plain_budget(cloud, request, probability, request.at_us or 0, self.peak)
        assert (budget.committed, budget.charge) == pytest.approx(expected)
        assert budget.earned == probability * (self.counts[probability][0] + 1)
        assert budget.evicted == self.counts[probability][1]
        if isinstance(decision, InstanceStarted):
            assert affords(budget, probability)
        else:
            fits = cloud.fitting_node(request.flavor) is not None
            assert decision.reason is (Rejection.BUDGET_EXHAUSTED if fits else Rejection.NO_CAPACITY)
            self.check_affordable(cloud, request, budget)

    def check_affordable(self, cloud: Cloud, request: StartRequest, budget: Budget) -> None:
        """Check that the affordable lifetime is affordable, and that a thousandth more is not."""
        if budget.affordable_us is None:
            return
        for factor, expected in ((1.0, budget.affordable_us > 0), (1.001, False)):
            lifetime_us = int(budget.affordable_us * factor) + (factor > 1) * 10
            other = replace(request, lifetime_us=lifetime_us)
            found = read(cloud, other, self.estimate, request.at_us or 0)
            assert affords(found, request.eviction_probability or 0.0) is expected or lifetime_us == 0
            self.affordable += 1

    def take(self, cloud: Cloud, events: Sequence[Event]) -> None:
        """Count events that the cloud has not folded yet."""
        for event in events:
            if isinstance(event, InstanceEvicted):
                victim = cloud.running[event.instance_id]
                self.counts[victim.probability][1] += event.at_us <= victim.deadline_us
            elif isinstance(event, InstanceStopped):
                self.load -= on_demand_cores(cloud, cloud.running[event.instance_id])
            elif isinstance(event, InstanceStarted) and event.market is SPOT:
                self.counts[event.probability][0] += 1
            elif isinstance(event, InstanceStarted):
                self.load += on_demand_cores(cloud, event)
        self.peak = max(self.peak, self.load)


def on_demand_cores(cloud: Cloud, instance: Running | InstanceStarted) -> int:
    return cloud.flavors[instance.flavor].resources.cores if instance.market is ON_DEMAND else 0


def start_request(rng: random.Random, name: str, at_us: int) -> StartRequest:
    flavor = rng.choice(["c1", "c2", "c4"])
    if rng.random() < 0.4:
        return StartRequest(name, ON_DEMAND, flavor, None, at_us=at_us)
    lifetime_us = rng.choice([0, 1, HOUR_US, 20 * HOUR_US])
    return StartRequest(name, SPOT, flavor, lifetime_us, rng.choice(CLASSES), at_us=at_us)


def test_a_load_as_high_as_ever_seen_leaves_the_promise_kept() -> None:
    """Exposed instances are admitted only while all of them could be evicted at once."""
    cloud = make_cloud()
    cloud.apply(InstanceStarted(at_us=0, instance_id="od", market=ON_DEMAND, flavor="c4", node="n0"))
    for number in range(5):
        cloud.apply(
            InstanceStarted(
                at_us=0, instance_id=f"od{number}", market=ON_DEMAND, flavor="c4", node=f"n{(number + 1) // 2}"
            )
        )
    for name in ("od", "od0", "od1", "od2", "od3", "od4"):
        for event in decide_stop(cloud, name, 1):
            cloud.apply(event)
    quotes = Quotes(1.0)
    for number in range(100):
        spot(cloud, f"earned{number}", 2, 0)
        cloud.apply(decide_stop(cloud, f"earned{number}", 2)[0])
    admitted = 0
    for number in range(20):
        request = StartRequest(f"s{number}", SPOT, "c1", 10 * HOUR_US, 0.05, at_us=HOUR_US)
        decision = decide_start(cloud, request, HOUR_US, quotes)[0]
        cloud.apply(decision)
        admitted += isinstance(decision, InstanceStarted)
    assert admitted == 4, "0.8 * 0.05 * 101 to 105 admissions pay for four"
    assert cloud.classes[0.05].admitted == 104


def test_overruns_and_closed_nodes_are_charged_nothing() -> None:
    cloud = make_cloud(2)
    spot(cloud, "over", 0, HOUR_US)
    assert cloud.exposure("c1", 0.05, HOUR_US)[0] == 0
    spot(cloud, "runs", HOUR_US, HOUR_US)
    cloud.apply(NodeDrained(at_us=HOUR_US + 1, node="n0"))
    assert cloud.exposure("c1", 0.05, 3 * HOUR_US // 2) == (0.0, 1 / 8)


def test_no_open_node_has_no_room() -> None:
    cloud = make_cloud(1)
    cloud.apply(NodeDrained(at_us=0, node="n0"))
    assert cloud.exposure("c1", 0.05, HOUR_US) == (0.0, np.inf)
    assert read(cloud, start_of(HOUR_US, 0.05), 0.0, HOUR_US).charge == 1.0


def test_classes_have_budgets_of_their_own() -> None:
    cloud = make_cloud()
    spot(cloud, "a", 0, HOUR_US, 0.05)
    spot(cloud, "b", 0, HOUR_US, 0.2)
    assert read(cloud, start_of(0, 0.05), 0.0, 0).earned == pytest.approx(0.1)
    assert read(cloud, start_of(0, 0.01), 0.0, 0).committed == 0


BUDGET = Budget(earned=10.0, evicted=2, committed=3.0, charge=1.0, risk=0.9)


@pytest.mark.parametrize(
    ("budget", "afforded"),
    [
        (BUDGET, True),
        (replace(BUDGET, committed=5.01), False),
        (replace(BUDGET, committed=5.01, charge=0.9), True),
        (replace(BUDGET, committed=7.2, charge=0.9), False),
        (replace(BUDGET, committed=70.0, risk=0.1), True),
        (replace(BUDGET, evicted=11, risk=0.1), False),
        (replace(BUDGET, evicted=11, risk=0.05), True),
    ],
)
def test_what_a_budget_affords(budget: Budget, afforded: bool) -> None:
    assert affords(budget, 0.1) is afforded


@given(
    st.floats(0, 100), st.integers(0, 100), st.floats(0, 100), st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.5)
)
@settings(max_examples=500, derandomize=True, deadline=None)
def test_more_earned_and_less_risk_never_hurt(
    earned: float, evicted: int, committed: float, charge: float, risk: float, probability: float
) -> None:
    budget = Budget(earned, evicted, committed, charge, risk)
    if affords(budget, probability):
        assert affords(replace(budget, earned=earned + 1), probability)
        assert affords(replace(budget, risk=risk / 2), probability)
        assert affords(replace(budget, charge=charge / 2), probability)
