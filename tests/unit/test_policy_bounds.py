"""The bounds that a policy sets to lifetimes and eviction probabilities."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.admission.batch import decide_batch
from app.admission.bounds import check_bounds
from app.admission.limits import ids_to_look_up
from app.admission.outcomes import Change, Started
from app.domain.errors import LifetimeOutOfBounds, PolicyInvalid, ProbabilityOutOfBounds, TenureError
from app.domain.events import CloudCreated, FlavorAdded, NodeAdded, PolicyChanged, Recorded
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud

BOUNDED = Policy(
    guarantee=Guarantee.NONE,
    clock=Clock.EXTERNAL,
    clock_step_us=None,
    shortest_lifetime_us=SECOND_US,
    longest_lifetime_us=DAY_US,
    least_probability=0.001,
    highest_probability=0.5,
)


def make_cloud(policy: Policy = BOUNDED) -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=policy))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(8)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    cloud.commit()
    return cloud


def spot(instance_id: str, lifetime_us: int, probability: float | None = None) -> StartRequest:
    return StartRequest(instance_id, Market.SPOT, "c1", lifetime_us, probability, 1)


@pytest.mark.parametrize("lifetime_us", [0, SECOND_US - 1, DAY_US + 1, 3650 * DAY_US])
def test_a_lifetime_out_of_bounds_is_refused_and_changes_nothing(lifetime_us: int) -> None:
    cloud = make_cloud()
    before = cloud.digest()
    batch = decide_batch(cloud, [spot("a", lifetime_us)], {}, 0, None)
    assert [type(one) for one in batch.outcomes] == [LifetimeOutOfBounds]
    assert "declare 1 s at least" in str(batch.outcomes[0]) or "declare 86400 s at most" in str(batch.outcomes[0])
    assert not batch.recorded
    assert cloud.digest() == before


@pytest.mark.parametrize("lifetime_us", [SECOND_US, DAY_US])
@pytest.mark.parametrize("probability", [None, 0.001, 0.5])
def test_the_bounds_themselves_are_within(lifetime_us: int, probability: float | None) -> None:
    (outcome,) = decide_batch(make_cloud(), [spot("a", lifetime_us, probability)], {}, 0, None).outcomes
    assert isinstance(outcome, Started)


@pytest.mark.parametrize(("probability", "told"), [(0.0009, "ask for 0.001 at least"), (0.999, "ask for 0.5 at most")])
def test_a_probability_out_of_bounds_is_refused(probability: float, told: str) -> None:
    (outcome,) = decide_batch(make_cloud(), [spot("a", HOUR_US, probability)], {}, 0, None).outcomes
    assert isinstance(outcome, ProbabilityOutOfBounds)
    assert told in str(outcome)


def test_on_demand_starts_know_no_bounds() -> None:
    start = StartRequest("a", Market.ON_DEMAND, "c1", 3650 * DAY_US, None, 1)
    assert isinstance(decide_batch(make_cloud(), [start], {}, 0, None).outcomes[0], Started)


def test_an_extension_obeys_the_longest_lifetime() -> None:
    cloud = make_cloud()
    steps = [spot("a", HOUR_US), ExtendRequest("a", DAY_US + 1, 1), ExtendRequest("a", DAY_US, 1)]
    _started, refused, extended = decide_batch(cloud, steps, {}, 0, None).outcomes
    assert isinstance(refused, LifetimeOutOfBounds)
    assert not isinstance(extended, TenureError)


def test_what_was_decided_before_the_bounds_has_its_answer_again() -> None:
    cloud = make_cloud(replace(BOUNDED, longest_lifetime_us=None, clock=Clock.SYSTEM))
    request = replace(spot("a", 2 * DAY_US), at_us=None)
    first = decide_batch(cloud, [request], {}, 1, None)
    narrow = Change(lambda cloud, at_us: [PolicyChanged(at_us=at_us, policy=replace(BOUNDED, clock=Clock.SYSTEM))])
    other = replace(request, instance_id="b")
    assert ids_to_look_up(cloud, [narrow, other], every_start=False) == ["b"], "the change may bound it"
    decide_batch(cloud, [narrow], {}, 2, None)
    assert ids_to_look_up(cloud, [other], every_start=False) == ["b"]
    known = {"a": Recorded(first.recorded[0].seq, first.recorded[0].event)}
    again, refused = decide_batch(cloud, [request, other], known, 3, None).outcomes
    assert isinstance(again, Started)
    assert again.repeated
    assert isinstance(refused, LifetimeOutOfBounds)


@pytest.mark.parametrize(
    "fields",
    [
        {"longest_lifetime_us": SECOND_US - 1},
        {"eviction_probability": 0.0001},
        {"eviction_probability": 0.6},
        {"least_probability": 0.6},
    ],
)
def test_bounds_that_contradict_the_policy_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(PolicyInvalid):
        check_bounds(replace(BOUNDED, **fields))  # type: ignore[arg-type]
