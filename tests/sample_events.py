"""A log with each kind of event, with all of its fields and with as few as it can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.domain.budgets import AdmittedBy, Book, Budget, BudgetUnit
from app.domain.events import (
    CloudCreated,
    Event,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    ExtensionRejected,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    PolicyChanged,
    PromiseEnding,
    QuotaRemoved,
    QuotaSet,
)
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import (
    Acceptable,
    Basis,
    Clock,
    EvictionPolicy,
    EvictionReason,
    Floor,
    Guarantee,
    Market,
    Policy,
    ProposedMove,
    QuotaKind,
    QuotaUse,
    Rejection,
    Resources,
    RiskLevel,
)
from app.domain.wanted import Wanted

OD, SPOT = Market.ON_DEMAND, Market.SPOT
FINE_US = 1_500_001
"""Not a whole number of seconds."""
POLICY = Policy(
    guarantee=Guarantee.POOLED,
    eviction_probability=0.05,
    eviction_policy=EvictionPolicy.YJF_GLOBAL,
    clock=Clock.EXTERNAL,
    warm_up_us=HOUR_US,
    recompute_every_us=2 * HOUR_US,
    table_max_age_us=FINE_US,
    history_window_us=7 * DAY_US,
    horizon_us=3 * DAY_US,
    sample_count=1000,
    seed=7,
    confidence=0.9,
    grace_us=60 * SECOND_US,
    risk_threshold=0.25,
)
BUDGET = Budget(earned=3.5, evicted=1, committed=0.25, charge=0.5, risk=0.125, affordable_us=2 * HOUR_US)
BOOK = Book(FINE_US, DAY_US, earned=0.05, evicted=0, committed=0.0125, risky=1, admitted_by=AdmittedBy.WITHIN)
BASIS = Basis(
    slots=7,
    epoch=3,
    probability=0.05,
    quoted_lifetime_us=FINE_US,
    estimated_probability=0.0125,
    budget=BUDGET,
    probability_bound=0.0625,
)


def at(hours: int) -> int:
    return hours * HOUR_US + hours


def started(hours: int, instance_id: str, **more: Any) -> InstanceStarted:
    given = {"market": SPOT, "flavor": "c1", "node": "n"} | more
    return InstanceStarted(at_us=at(hours), instance_id=instance_id, **given)


def ending(hours: int, instance_id: str) -> dict[str, Any]:
    return {"at_us": at(hours), "instance_id": instance_id}


WHY: dict[str, Any] = {"reason": EvictionReason.ON_DEMAND_START, "cause_seq": 18}
LOG: list[Event] = [
    CloudCreated(at_us=at(0), policy=Policy()),
    PolicyChanged(at_us=at(1), policy=POLICY),
    NodeAdded(at_us=at(1), node="n", capacity=Resources(64, 4096, 100)),
    NodeAdded(at_us=at(1), node="m", capacity=Resources(1)),
    FlavorAdded(at_us=at(1), flavor="c1", demand=Resources(1, 512, 10)),
    NodeDrained(at_us=at(2), node="m"),
    NodeOpened(at_us=at(3), node="m"),
    NodeRemoved(at_us=at(4), node="m"),
    started(5, "least", market=OD),
    started(5, "full", lifetime_us=FINE_US, probability=0.05, basis=BASIS),
    started(5, "s", lifetime_us=HOUR_US, basis=Basis(slots=4)),
    InstanceRejected(**ending(6, "no"), market=OD, flavor="c1", reason=Rejection.NO_CAPACITY),
    InstanceRejected(
        **ending(6, "dear"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        probability=0.05,
        basis=BASIS,
    ),
    EvictionRisk(**ending(7, "s"), level=RiskLevel.RAISED, probability=0.5, threshold=0.25, epoch=3, slots=4),
    EvictionRisk(**ending(7, "s"), level=RiskLevel.CLEARED, probability=0.125, threshold=0.25, epoch=3, slots=9),
    EvictionScheduled(**ending(8, "s"), **WHY, deadline_us=at(8) + 60 * SECOND_US),
    InstanceEvicted(**ending(8, "s"), **WHY),
    started(8, "peak", market=OD, victims=("s",), deadline_us=at(8) + 60 * SECOND_US, ready_us=at(8) + 60 * SECOND_US),
    EvictionOverdue(**ending(9, "s"), deadline_us=at(8) + 60 * SECOND_US),
    EvictionConfirmed(**ending(10, "s")),
    InstanceEvicted(**ending(11, "full"), reason=EvictionReason.DRILL, cause_seq=21),
    InstanceStopped(**ending(12, "least")),
    PolicyChanged(at_us=at(13), policy=replace(POLICY, guarantee=Guarantee.STRATIFIED, strata_us=(FINE_US, DAY_US))),
    started(13, "booked", lifetime_us=HOUR_US, basis=replace(BASIS, budget=None, book=BOOK)),
    InstanceRejected(
        **ending(14, "risky"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        basis=replace(
            BASIS,
            budget=None,
            book=Book(DAY_US, None, earned=0.05, evicted=1, committed=0.0, risky=0, affordable_us=HOUR_US),
        ),
    ),
    started(14, "long", lifetime_us=2 * HOUR_US, probability=0.05, basis=BASIS),
    ExtensionRejected(
        **ending(15, "long"),
        lifetime_us=DAY_US,
        former_lifetime_us=2 * HOUR_US,
        deadline_us=at(14) + 2 * HOUR_US,
        reason=Rejection.BUDGET_EXHAUSTED,
        basis=BASIS,
    ),
    InstanceExtended(
        **ending(15, "long"),
        lifetime_us=3 * HOUR_US,
        former_lifetime_us=2 * HOUR_US,
        deadline_us=at(14) + 3 * HOUR_US,
        basis=Basis(slots=4),
    ),
    PolicyChanged(
        at_us=at(16),
        policy=replace(
            POLICY,
            shortest_lifetime_us=FINE_US,
            longest_lifetime_us=DAY_US,
            least_probability=0.001,
            highest_probability=0.5,
            owner_cores=2,
            owner_share=0.5,
            overrunning_cores=1,
            displaces_overrunning=True,
            overrun_share=0.125,
            gives_back=True,
        ),
    ),
    started(
        17,
        "wants",
        lifetime_us=3 * HOUR_US,
        basis=BASIS,
        wanted=Wanted(None, HOUR_US),
        limited_by=Rejection.BUDGET_EXHAUSTED,
    ),
    InstanceRejected(
        **ending(17, "much"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.NO_CAPACITY,
        lifetime_us=HOUR_US,
        basis=BASIS,
        wanted=Wanted(DAY_US, HOUR_US),
    ),
    InstanceExtended(
        **ending(18, "wants"),
        lifetime_us=6 * HOUR_US,
        former_lifetime_us=3 * HOUR_US,
        deadline_us=at(17) + 6 * HOUR_US,
        basis=BASIS,
        total_risk=0.0375,
        is_automatic=True,
        limited_by=Rejection.SLA_UNATTAINABLE,
    ),
    PromiseEnding(
        **ending(22, "wants"),
        lifetime_us=6 * HOUR_US,
        deadline_us=at(17) + 6 * HOUR_US,
        reason=Rejection.BUDGET_EXHAUSTED,
    ),
    started(23, "group", lifetime_us=HOUR_US, basis=Basis(slots=2), nodes=("n", "n", "n")),
    InstanceRejected(
        **ending(23, "crowd"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.NO_CAPACITY,
        lifetime_us=DAY_US,
        basis=Basis(slots=0),
        count=256,
    ),
    PolicyChanged(at_us=at(23), policy=replace(POLICY, min_windows=30)),
    InstanceRejected(
        **ending(24, "unseen"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.TOO_FEW_WINDOWS,
        lifetime_us=DAY_US,
        basis=replace(BASIS, budget=None, windows=7.5, floor=Floor(30, at(100), 6 * HOUR_US)),
    ),
    InstanceRejected(
        **ending(24, "shorter"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        basis=BASIS,
        acceptable=Acceptable(6 * HOUR_US, 0.0625),
    ),
    InstanceRejected(
        **ending(24, "neither"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        basis=BASIS,
        acceptable=Acceptable(None, None),
    ),
    EvictionRisk(
        **ending(24, "booked"),
        level=RiskLevel.RAISED,
        probability=0.5,
        threshold=0.25,
        epoch=3,
        slots=4,
        probability_bound=0.75,
        windows=12.5,
    ),
    QuotaSet(at_us=at(25), owner="own", cores=2, share=0.25, overrun_share=0.5),
    QuotaSet(at_us=at(25), owner="free"),
    QuotaRemoved(at_us=at(25), owner="free"),
    InstanceRejected(
        **ending(25, "full-quota"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.QUOTA_EXCEEDED,
        lifetime_us=DAY_US,
        basis=replace(BASIS, budget=None, quota=QuotaUse(QuotaKind.CORES, 2, 1, 2)),
        owner="own",
    ),
    InstanceEvicted(**ending(25, "long"), reason=EvictionReason.SPOT_START, cause_seq=46),
    started(25, "displacing", lifetime_us=HOUR_US, basis=Basis(slots=1), victims=("long",), owner="own"),
    NodeAdded(at_us=at(26), node="o", capacity=Resources(4, 4096, 100)),
    InstanceMoved(**ending(26, "displacing"), node="o", former_node="n"),
    PolicyChanged(at_us=at(27), policy=replace(POLICY, guarantee=Guarantee.STRATIFIED, budget=BudgetUnit.CORE_HOURS)),
    InstanceRejected(
        **ending(27, "heavy"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        basis=replace(
            BASIS,
            budget=None,
            book=replace(
                BOOK,
                admitted_by=None,
                affordable_us=HOUR_US,
                core_hours=24.0,
                mean_core_hours=1.5,
                evicted_core_hours=0.5,
                risky_core_hours=0.25,
            ),
        ),
        acceptable=Acceptable(HOUR_US, None),
    ),
    PolicyChanged(at_us=at(28), policy=replace(POLICY, guarantee=Guarantee.POOLED, budget=BudgetUnit.CORE_HOURS)),
    InstanceRejected(
        **ending(28, "heavier"),
        market=SPOT,
        flavor="c1",
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=DAY_US,
        basis=replace(BASIS, budget=replace(BUDGET, core_hours=24.0, mean_core_hours=1.5, evicted_core_hours=0.5)),
        acceptable=Acceptable(2 * HOUR_US, None),
    ),
    EvictionRisk(
        **ending(29, "booked"),
        level=RiskLevel.RAISED,
        probability=0.5,
        threshold=0.25,
        epoch=3,
        slots=4,
        moves=(ProposedMove("young", "n", "m"), ProposedMove("booked", "n", "m")),
    ),
]
"""In an order that a log could have."""
