"""Longer lifetimes: what is promised, what is refused and why, and what is answered to a repeat."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from oracles.engine import NaiveCluster, youth
from oracles.histories import RandomCloud
from oracles.replay import NaiveHistory

from app.admission.acceptable import acceptable_lifetime_us
from app.admission.batch import decide_batch
from app.admission.decide import decide_drill, decide_stop
from app.admission.extend import decide_extension, key_of
from app.admission.outcomes import Extended
from app.domain import errors
from app.domain.events import (
    CloudCreated,
    ExtensionRejected,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceStarted,
    NodeAdded,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import (
    Basis,
    Clock,
    EvictionPolicy,
    EvictionReason,
    Guarantee,
    Market,
    Policy,
    Rejection,
    Resources,
)
from app.engine.cloud import Cloud
from app.engine.exposure import charge, share
from app.scheduling.rules.extensions import in_words


@dataclass(frozen=True)
class SlotQuotes:
    """A table that quotes an hour for each slot."""

    epoch: int = 7
    epoch_us: int = DAY_US
    seq: int = 1

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return slots * HOUR_US

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return 0.25 if lifetime_us < slots * HOUR_US else 1.0

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return 0.5

    def seen_from(self, outlooks: object) -> SlotQuotes:
        return self


def make_cloud(guarantee: Guarantee = Guarantee.PER_INSTANCE, cores: int = 4, **policy: object) -> Cloud:
    cloud = Cloud()
    given = replace(Policy(clock=Clock.EXTERNAL, clock_step_us=None, guarantee=guarantee), **policy)
    cloud.apply(CloudCreated(at_us=0, policy=given))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(cores)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    cloud.commit()
    return cloud


def run(cloud: Cloud, name: str, at_us: int = DAY_US, lifetime_us: int = HOUR_US, p: float | None = 0.01) -> None:
    cloud.apply(
        InstanceStarted(
            at_us=at_us,
            instance_id=name,
            market=Market.SPOT,
            flavor="c1",
            node="n",
            lifetime_us=lifetime_us,
            basis=Basis(4, 7, p, 5 * HOUR_US, 0.005),
        )
    )
    cloud.commit()


def extend(cloud: Cloud, name: str, lifetime_us: int, at_us: int = DAY_US):
    (event,) = decide_extension(cloud, ExtendRequest(name, lifetime_us), at_us, SlotQuotes())
    return event


def test_the_rest_is_quoted_with_the_slots_of_all_that_go_before_it() -> None:
    """Three of four slots are taken; the oldest sees all four, the youngest its own and the free one."""
    cloud = make_cloud()
    for name in ("old", "middle", "young"):
        run(cloud, name)
    assert [cloud.seen_by(name, DAY_US)[0] for name in ("old", "middle", "young")] == [4, 3, 2]
    accepted = extend(cloud, "old", 4 * HOUR_US - 1)
    assert isinstance(accepted, InstanceExtended)
    assert (accepted.basis.slots, accepted.deadline_us) == (4, DAY_US + 4 * HOUR_US - 1)
    refused = extend(cloud, "young", 2 * HOUR_US)
    assert isinstance(refused, ExtensionRejected)
    assert (refused.reason, refused.deadline_us) == (Rejection.SLA_UNATTAINABLE, DAY_US + HOUR_US)
    assert acceptable_lifetime_us(refused) == 2 * HOUR_US - 1
    assert in_words(refused).endswith(
        "Would have been promised: 59.9 min more than it has, a lifetime of up to 1.99 h."
    )


def test_what_is_told_of_the_whole_risk_has_the_promise_beside_it() -> None:
    cloud = make_cloud(Guarantee.STRATIFIED)
    run(cloud, "one")
    told = in_words(extend(cloud, "one", 2 * HOUR_US))
    assert re.search(r"the risk of its whole life was \S+ % at a promise of \S+ %, and the book of its stratum", told)


def test_age_counts() -> None:
    """Only the rest is asked of the table, so an hour later an hour more is promised."""
    cloud = make_cloud()
    run(cloud, "one", lifetime_us=2 * HOUR_US)
    asked_us = 4 * HOUR_US + HOUR_US // 2
    assert isinstance(extend(cloud, "one", asked_us), ExtensionRejected)
    assert isinstance(extend(cloud, "one", asked_us, DAY_US + HOUR_US), InstanceExtended)


def test_what_overruns_gives_its_slots_to_the_others() -> None:
    cloud = make_cloud()
    run(cloud, "over", lifetime_us=1)
    run(cloud, "next")
    assert cloud.seen_by("next", DAY_US + 2)[0] == 4


@pytest.mark.parametrize("guarantee", [Guarantee.NONE, Guarantee.POOLED])
def test_without_a_promise_there_is_nothing_to_keep(guarantee: Guarantee) -> None:
    cloud = make_cloud(guarantee)
    run(cloud, "one", p=None)
    assert isinstance(extend(cloud, "one", 1000 * HOUR_US), InstanceExtended)


@pytest.mark.parametrize(
    ("name", "lifetime_us", "later_us", "error"),
    [
        ("gone", 2 * HOUR_US, 0, errors.ExtensionOfEnded),
        ("on-demand", 2 * HOUR_US, 0, errors.ExtensionOfOnDemand),
        ("spot", 3 * HOUR_US, HOUR_US + 1, errors.ExtensionTooLate),
        ("spot", HOUR_US, 0, errors.ExtensionNotLonger),
        ("spot", 0, 0, errors.ExtensionNotLonger),
        ("held", 2 * HOUR_US, 0, errors.ExtensionTooLate),
    ],
)
def test_what_cannot_be_extended(name: str, lifetime_us: int, later_us: int, error: type[Exception]) -> None:
    cloud = make_cloud()
    for one in ("spot", "gone"):
        run(cloud, one)
    cloud.apply(*decide_stop(cloud, "gone", DAY_US))
    start = InstanceStarted(at_us=DAY_US, instance_id="on-demand", market=Market.ON_DEMAND, flavor="c1", node="n")
    cloud.apply(start)
    room = replace(start, instance_id="held", market=Market.SPOT, lifetime_us=HOUR_US, goes_first=True)
    cloud.apply(room)
    with pytest.raises(error):
        extend(cloud, name, lifetime_us, DAY_US + later_us)


def test_an_instance_at_its_deadline_may_still_be_extended() -> None:
    cloud = make_cloud()
    run(cloud, "spot")
    assert isinstance(extend(cloud, "spot", 2 * HOUR_US, DAY_US + HOUR_US), InstanceExtended)


@pytest.mark.parametrize(
    ("policy", "quotes", "reason"),
    [
        ({"warm_up_us": 2 * DAY_US}, SlotQuotes(), Rejection.NO_HISTORY),
        ({}, None, Rejection.NO_HISTORY),
        ({}, SlotQuotes(epoch_us=0), Rejection.QUOTES_STALE),
    ],
)
def test_without_a_fresh_table_nothing_more_is_promised(policy: dict, quotes: SlotQuotes, reason: Rejection) -> None:
    cloud = make_cloud(**policy)
    run(cloud, "one")
    (event,) = decide_extension(cloud, ExtendRequest("one", 2 * HOUR_US), DAY_US, quotes)
    assert event.reason is reason


def test_the_class_pays_for_the_rise_of_the_charge() -> None:
    """Sixty instances at 0.05 earn three evictions; two are set aside, and what is left pays for a longer life."""
    cloud = make_cloud(Guarantee.POOLED, cores=100)
    for number in range(60):
        run(cloud, f"i{number}", p=0.05)
    seen_us, reached = DAY_US, 30 / 100
    event = extend(cloud, "i29", 100 * HOUR_US)
    budget = event.basis.budget
    assert budget is not None
    assert budget.earned == pytest.approx(3.0)
    assert budget.charge == pytest.approx(charge(reached, 100 * HOUR_US, seen_us) - charge(reached, HOUR_US, seen_us))
    assert isinstance(event, InstanceExtended)
    cloud.apply(event)
    assert cloud.charges(0.05, DAY_US) == pytest.approx(budget.committed + budget.charge)


def test_a_class_that_is_spent_promises_nothing_more() -> None:
    cloud = make_cloud(Guarantee.POOLED, cores=100)
    for number in range(60):
        run(cloud, f"i{number}", p=0.001)
    event = extend(cloud, "i59", 100 * HOUR_US)
    assert isinstance(event, ExtensionRejected)
    assert event.reason is Rejection.BUDGET_EXHAUSTED


def test_the_affordable_lifetime_is_the_longest_that_is_accepted() -> None:
    cloud = make_cloud(Guarantee.POOLED, cores=100)
    for number in range(60):
        run(cloud, f"i{number}", p=0.01)
    event = extend(cloud, "i59", 1000 * HOUR_US, DAY_US + HOUR_US // 2)
    longest_us = acceptable_lifetime_us(event)
    assert longest_us is not None
    assert isinstance(extend(cloud, "i59", longest_us, DAY_US + HOUR_US // 2), InstanceExtended)
    assert isinstance(extend(cloud, "i59", longest_us + 10 * SECOND_US, DAY_US + HOUR_US // 2), ExtensionRejected)


def test_a_refusal_changes_nothing() -> None:
    cloud = make_cloud()
    run(cloud, "one")
    facts = cloud.facts()
    refused = extend(cloud, "one", 100 * HOUR_US)
    assert isinstance(refused, ExtensionRejected)
    cloud.apply(refused)
    assert cloud.facts() == facts._replace(seq=facts.seq + 1)


def test_undone_extensions_leave_no_trace() -> None:
    cloud = make_cloud()
    run(cloud, "one")
    digest, charges = cloud.digest(), cloud.charges(0.01, DAY_US)
    cloud.apply(extend(cloud, "one", 2 * HOUR_US))
    assert cloud.digest() != digest
    cloud.rollback()
    assert (cloud.digest(), cloud.charges(0.01, DAY_US)) == (digest, charges)


def test_an_eviction_within_the_longer_lifetime_breaks_the_promise() -> None:
    cloud = make_cloud()
    run(cloud, "one")
    cloud.apply(extend(cloud, "one", 3 * HOUR_US))
    assert cloud.promises_within(DAY_US + 2 * HOUR_US) == {0.01: 1}
    (drilled,) = decide_drill(cloud, "one", DAY_US + 2 * HOUR_US)
    cloud.apply(replace(drilled, reason=EvictionReason.ON_DEMAND_START))
    assert isinstance(drilled, InstanceEvicted)
    assert cloud.classes[0.01].evicted == 1


def decide(cloud: Cloud, *steps: object, extended: dict | None = None):
    batch = decide_batch(cloud, steps, {}, 0, SlotQuotes(), 1 << 60, extended or {})
    return batch.outcomes


def asked(name: str, lifetime_us: int, at_us: int = DAY_US) -> ExtendRequest:
    return ExtendRequest(name, lifetime_us, at_us)


def test_in_a_batch_a_repeat_has_the_same_answer() -> None:
    cloud = make_cloud()
    start = StartRequest("one", Market.SPOT, "c1", HOUR_US, None, DAY_US)
    first, accepted, again, refused, refused_again = decide(
        cloud,
        start,
        asked("one", 2 * HOUR_US),
        asked("one", 2 * HOUR_US),
        asked("one", 9 * HOUR_US),
        asked("one", 9 * HOUR_US),
    )
    assert isinstance(accepted, Extended)
    assert again == replace(accepted, repeated=True)
    assert isinstance(refused.decision, ExtensionRejected)
    assert refused_again == replace(refused, repeated=True)
    assert first.seq + 1 == accepted.seq == refused.seq - 1


def test_the_repeat_of_a_refusal_has_its_answer_after_the_same_lifetime_was_accepted_later() -> None:
    cloud = make_cloud()
    run(cloud, "one")
    refused = cloud.apply(extend(cloud, "one", 9 * HOUR_US))
    later_us = DAY_US + 10 * SECOND_US
    cloud.apply(NodeAdded(at_us=later_us, node="more", capacity=Resources(9)))
    accepted = cloud.apply(extend(cloud, "one", 9 * HOUR_US, later_us))
    assert isinstance(accepted.event, InstanceExtended)
    known = {key_of(one.event): one for one in (refused, accepted)}
    again, later, anew = decide(
        cloud, *(asked("one", 9 * HOUR_US, at_us) for at_us in (DAY_US, later_us, later_us + 1)), extended=known
    )
    assert again == Extended(refused.event, refused.seq, repeated=True)
    assert later == anew == Extended(accepted.event, accepted.seq, repeated=True)


def test_an_answer_of_the_log_is_given_again_even_after_the_end() -> None:
    cloud = make_cloud()
    run(cloud, "one")
    recorded = cloud.apply(extend(cloud, "one", 2 * HOUR_US))
    cloud.apply(*decide_stop(cloud, "one", DAY_US))
    known = {("one", 2 * HOUR_US, None): recorded}
    assert decide(cloud, asked("one", 2 * HOUR_US), extended=known) == [
        Extended(recorded.event, recorded.seq, repeated=True)
    ]
    (error,) = decide(cloud, asked("never", 2 * HOUR_US))
    assert isinstance(error, errors.InstanceNotFound)


# --- against the oracle ----------------------------------------------------------------------------------------------


def test_what_an_instance_sees_is_the_oracles() -> None:
    assert sum(map(compare_with_the_oracle, range(20))) > 1000


def compare_with_the_oracle(seed: int) -> int:
    random = Random(seed)
    world = RandomCloud(random, Policy(guarantee=Guarantee.NONE, eviction_policy=EvictionPolicy.YJF))
    world.open()
    seen = 0
    for _ in range(120):
        world.step()
        now_us = world.now_us + random.choice([0, 1, 30])
        naive = NaiveHistory(world.log, world.policy, world.now_us + 1).opening(world.now_us + 1)
        for name, running in world.cloud.running.items():
            if running.market is Market.SPOT and now_us <= running.deadline_us:
                seen += 1
                assert world.cloud.seen_by(name, now_us)[0] == naive_slots(naive, name, now_us)
                assert world.cloud.reach(name, now_us) == naive_reach(world.cloud, naive, name, now_us)
    return seen


def naive_slots(naive: NaiveCluster, name: str, now_us: int) -> int:
    """Evict all that goes before it, and itself, and count what fits."""
    one = naive.instances[name]
    left = {k: i for k, i in naive.instances.items() if not i.is_spot or youth(i, now_us) < youth(one, now_us)}
    return max(NaiveCluster(naive.nodes, left).slots(one.demand) - one.count + 1, 1)


def naive_reach(cloud: Cloud, naive: NaiveCluster, name: str, now_us: int) -> float:
    """The share of the room that it and all older ones take, in the scarcest resource."""
    one = naive.instances[name]
    if not one.is_on(None):
        return 0.0
    older = [i for i in naive.youngest_first(None, now_us) if now_us <= i.deadline_us and i.born <= one.born]
    taken = [sum(i.demand[r] * sum(n.is_open for n in i.nodes) for i in older) for r in range(3)]
    room = cloud._room_at_peak().tolist()
    shares = [t / r if r > 0 else float("inf") for t, r in zip(taken, room, strict=True) if t > 0]
    return max(shares, default=0.0)


def test_the_share_of_an_empty_room_is_endless() -> None:
    assert share(np.array([1, 0, 0]), np.array([0, 5, 5])) == float("inf")
