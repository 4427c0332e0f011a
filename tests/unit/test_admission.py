"""The decisions over a small cloud: what is admitted, what is refused and why, and what is answered to a repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from app.admission import limits
from app.admission.batch import decide_batch, due_table_us
from app.admission.limits import ids_to_look_up
from app.admission.moments import LONGEST_STEP_US
from app.admission.outcomes import Change, Changed, Started, Stopped
from app.domain import errors
from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    PolicyChanged,
    Recorded,
)
from app.domain.requests import StartRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US, from_datetime
from app.domain.values import Clock, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud


@dataclass(frozen=True)
class FixedQuotes:
    """A table that says the same everywhere."""

    epoch: int = 7
    epoch_us: int = DAY_US
    quoted_us: int | None = 100 * SECOND_US

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return self.quoted_us

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return None if self.quoted_us is None else 0.5

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return None if self.quoted_us is None else 0.75


def make_cloud(**policy: object) -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=replace(Policy(clock=Clock.EXTERNAL, clock_step_us=None), **policy)))
    cloud.apply(NodeAdded(at_us=0, node="node-0", capacity=Resources(4)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c4", demand=Resources(4)))
    cloud.commit()
    return cloud


def spot(instance_id: str, at_us: int = DAY_US, lifetime_s: int | None = 50, **more: object) -> StartRequest:
    lifetime_us = None if lifetime_s is None else lifetime_s * SECOND_US
    return replace(StartRequest(instance_id, Market.SPOT, "c1", lifetime_us, None, at_us), **more)


def on_demand(instance_id: str, flavor: str = "c4", at_us: int = DAY_US) -> StartRequest:
    return StartRequest(instance_id, Market.ON_DEMAND, flavor, None, None, at_us)


def decide(cloud: Cloud, *steps, quotes=FixedQuotes(), past=None, server_us=0, waited_us=1 << 60):
    return decide_batch(cloud, steps, past or {}, server_us, quotes, waited_us)


def test_spot_is_admitted_when_the_quote_exceeds_the_lifetime():
    (outcome,) = decide(make_cloud(), spot("a")).outcomes
    assert isinstance(outcome, Started)
    assert isinstance(outcome.decision, InstanceStarted)
    basis = outcome.decision.basis
    assert (basis.epoch, basis.slots, basis.probability, basis.quoted_lifetime_us) == (7, 4, 0.01, 100 * SECOND_US)


def test_a_quote_equal_to_the_lifetime_is_not_enough():
    (outcome,) = decide(make_cloud(), spot("a", lifetime_s=100)).outcomes
    assert isinstance(outcome.decision, InstanceRejected)
    assert outcome.decision.reason is Rejection.SLA_UNATTAINABLE


@pytest.mark.parametrize(
    ("request_", "quotes", "reason"),
    [
        (spot("a", at_us=DAY_US - 1), FixedQuotes(epoch_us=0), Rejection.NO_HISTORY),
        (spot("a"), None, Rejection.NO_HISTORY),
        (spot("a"), FixedQuotes(quoted_us=None), Rejection.NO_HISTORY),
        (spot("a", at_us=DAY_US + 12 * HOUR_US + 1), FixedQuotes(), Rejection.QUOTES_STALE),
    ],
)
def test_without_a_fresh_quote_nothing_is_promised(request_, quotes, reason):
    (outcome,) = decide(make_cloud(), request_, quotes=quotes).outcomes
    assert outcome.decision.reason is reason


def test_a_full_cloud_has_no_capacity_whatever_the_quote():
    first, second = decide(make_cloud(), on_demand("big"), spot("a")).outcomes
    assert isinstance(first.decision, InstanceStarted)
    assert second.decision.reason is Rejection.NO_CAPACITY
    assert second.decision.basis.slots == 0


def test_without_a_guarantee_capacity_is_all_that_counts():
    (outcome,) = decide(make_cloud(guarantee=Guarantee.NONE), spot("a", at_us=0), quotes=None).outcomes
    assert isinstance(outcome.decision, InstanceStarted)


def test_the_requests_own_probability_is_recorded():
    (outcome,) = decide(make_cloud(), spot("a", eviction_probability=0.25)).outcomes
    assert outcome.decision.probability == outcome.decision.basis.probability == 0.25


def test_a_cloud_promises_so_many_probabilities_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_CLASSES", 2)
    cloud = make_cloud()
    asked = [0.2, 0.3, 0.4, 0.2, 0.01, None]
    steps = [spot(f"i-{number}", eviction_probability=promised) for number, promised in enumerate(asked)]
    steps[4:4] = [replace(on_demand("whole"), flavor="c1")]
    kinds = [type(outcome) for outcome in decide(cloud, *steps).outcomes]
    assert kinds == [Started, Started, errors.TooManyClasses, Started, Started, Started, Started]
    free = make_cloud(guarantee=Guarantee.NONE)
    assert [type(outcome) for outcome in decide(free, *steps[:3]).outcomes] == [Started] * 3


def test_a_cloud_counts_so_many_owners_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_OWNERS", 2)
    owners = ["a", "b", "c", "a", None]
    steps = [spot(f"i-{number}", owner=owner) for number, owner in enumerate(owners)]
    steps[4:4] = [replace(on_demand("whole"), flavor="c1", owner="c")]
    kinds = [type(outcome) for outcome in decide(make_cloud(guarantee=Guarantee.NONE), *steps).outcomes]
    assert kinds == [Started, Started, errors.TooManyOwners, Started, Started, Started]


def test_a_cloud_runs_so_many_instances_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_RUNNING", 2)
    cloud = make_cloud(guarantee=Guarantee.NONE)
    steps = [spot("a"), on_demand("b", "c1"), spot("c"), on_demand("big"), StopRequest("a", DAY_US), spot("d")]
    kinds = [type(outcome) for outcome in decide(cloud, *steps).outcomes]
    assert kinds == [Started, Started, errors.TooManyInstances, errors.TooManyInstances, Stopped, Started]
    assert [*cloud.running] == ["b", "d"]


def test_no_run_of_plain_starts_passes_the_most_instances(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_RUNNING", 3)
    cloud = make_cloud(clock=Clock.SYSTEM)
    starts = [replace(on_demand(f"i-{number}", "c1"), at_us=None) for number in range(4)]
    kinds = [type(outcome) for outcome in decide(cloud, *starts, server_us=DAY_US).outcomes]
    assert kinds == [Started] * 3 + [errors.TooManyInstances]


def test_a_start_that_may_become_one_too_many_is_looked_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_RUNNING", 2)
    monkeypatch.setattr(limits, "MOST_CLASSES", 2)
    cloud = make_cloud(clock=Clock.SYSTEM)
    first, second, third = (replace(on_demand(name, "c1"), at_us=None) for name in "abc")
    assert ids_to_look_up(cloud, [first, second], every_start=False) == []
    assert ids_to_look_up(cloud, [first, second, third], every_start=False) == ["a", "b", "c"]
    monkeypatch.setattr(limits, "MOST_RUNNING", 9)
    asked = [replace(spot(name, eviction_probability=0.2), at_us=None) for name in "abc"]
    assert ids_to_look_up(cloud, asked[:2], every_start=False) == []
    assert ids_to_look_up(cloud, asked, every_start=False) == ["a", "b", "c"]


def test_evictions_stand_before_the_start_that_caused_them():
    cloud = make_cloud()
    decide(cloud, spot("old"), spot("young"))
    batch = decide(cloud, on_demand("big"))
    *evictions, start = batch.recorded
    assert [item.event.instance_id for item in evictions] == ["young", "old"]
    assert {item.event.cause_seq for item in evictions} == {start.seq}
    assert start.event.victims == ("young", "old")
    assert cloud.counts.spot_evicted == 2


def test_one_bad_step_does_not_keep_the_others_from_their_answers():
    steps = (
        spot("a", flavor="nope"),
        spot("b", lifetime_s=None),
        replace(on_demand("c"), eviction_probability=0.1),
        spot("d"),
    )
    outcomes = decide(make_cloud(), *steps).outcomes
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [errors.FlavorNotFound, errors.LifetimeMissing, errors.ProbabilityUnexpected, Started]


def test_a_repeat_has_the_same_answer_and_another_body_is_a_conflict():
    cloud = make_cloud()
    first, again, other = decide(cloud, spot("a"), spot("a"), spot("a", lifetime_s=49)).outcomes
    assert (again.decision, again.seq, again.repeated) == (first.decision, first.seq, True)
    assert isinstance(other, errors.InstanceConflict)
    assert cloud.counts.spot_requested == 1


def test_a_repeat_of_an_ended_instance_is_answered_from_the_log_although_its_time_has_passed():
    cloud = make_cloud()
    (first,) = decide(cloud, spot("a")).outcomes
    decide(cloud, StopRequest("a", DAY_US + 5))
    assert ids_to_look_up(cloud, [spot("a")], every_start=False) == ["a"]
    (again,) = decide(cloud, spot("a"), past={"a": Recorded(first.seq, first.decision)}).outcomes
    assert again.decision == first.decision


def test_stops_end_once_and_unknown_ones_are_not_found():
    cloud = make_cloud()
    (started,) = decide(cloud, spot("a")).outcomes
    past = {"a": Recorded(started.seq, started.decision)}
    stop = StopRequest("a", DAY_US + 1)
    outcomes = decide(cloud, stop, stop, StopRequest("b", DAY_US + 1), past=past).outcomes
    assert outcomes[:2] == [Stopped("a", changed=True), Stopped("a", changed=False)]
    assert isinstance(outcomes[2], errors.InstanceNotFound)


def test_a_stop_of_what_the_same_batch_evicted_changes_nothing():
    cloud = make_cloud()
    decide(cloud, spot("a"))
    stop = StopRequest("a", DAY_US)
    assert ids_to_look_up(cloud, [on_demand("big"), stop], every_start=False) == ["big"]
    assert decide(cloud, on_demand("big"), stop).outcomes[1] == Stopped("a", changed=False)


def test_time_never_runs_backwards():
    cloud = make_cloud()
    backwards, missing = decide(cloud, spot("a"), spot("b", at_us=DAY_US - 1), spot("c", at_us=None)).outcomes[1:]
    assert isinstance(backwards, errors.TimeBackwards)
    assert isinstance(missing, errors.TimeMissing)
    system = make_cloud(clock=Clock.SYSTEM, guarantee=Guarantee.NONE)
    outcomes = decide(system, spot("a"), spot("b", at_us=None), server_us=50).outcomes
    assert isinstance(outcomes[0], errors.TimeUnexpected)
    assert outcomes[1].decision.at_us == 50
    (late,) = decide(system, spot("c", at_us=None), server_us=20).outcomes
    assert late.decision.at_us == 50


def test_a_batch_ends_before_the_step_that_needs_a_newer_table():
    cloud, later = make_cloud(), DAY_US + 6 * HOUR_US
    batch = decide(cloud, spot("a"), on_demand("b", "c1", later), spot("c", later), waited_us=later - 1)
    assert len(batch.outcomes) == 2
    assert due_table_us(cloud, spot("c", later), FixedQuotes()) == later
    assert due_table_us(cloud, spot("c", later), FixedQuotes(epoch_us=later)) is None
    assert len(decide(cloud, spot("c", later), waited_us=later).outcomes) == 1, "it was waited for long enough"


def test_one_request_moves_an_external_clock_by_the_policys_step_at_most():
    step_us = Policy().clock_step_us
    cloud = make_cloud(guarantee=Guarantee.NONE, clock_step_us=step_us)
    far = from_datetime(datetime(9999, 12, 31, tzinfo=UTC))
    steps = [on_demand("a", "c1", far), spot("b", far), StopRequest("a", far), Change(lambda _, __: [], far)]
    outcomes = decide(cloud, *steps, waited_us=0).outcomes
    assert [type(outcome) for outcome in outcomes] == [errors.TimeAhead] * 4
    assert cloud.at_us == 0
    assert "1970-01-01" in str(outcomes[0])
    near = decide(cloud, on_demand("a", "c1", step_us), on_demand("b", "c1", 2 * step_us + 1)).outcomes
    assert isinstance(near[0], Started)
    assert isinstance(near[1], errors.TimeAhead)
    free = make_cloud(guarantee=Guarantee.NONE)
    assert isinstance(decide(free, on_demand("a", "c1", LONGEST_STEP_US)).outcomes[0], Started)


def test_ids_that_are_not_shared_are_their_owners():
    cloud = make_cloud(guarantee=Guarantee.NONE, shared_ids=False)
    mine, other, free = (
        replace(on_demand(f"{name}.i", "c1"), owner=owner) for name, owner in [("a", "a"), ("a", "b"), ("a-b", None)]
    )
    squatted, alike = replace(spot("a.j"), owner="b"), replace(spot("ab.k"), owner="a")
    outcomes = decide(cloud, mine, other, squatted, alike, StopRequest("a.i", DAY_US, "b"), free, waited_us=0).outcomes
    assert [type(outcome) for outcome in outcomes] == [Started, *[errors.IdNotOwn] * 4, Started]
    known = {event.event.instance_id: event for event in [Recorded(5, outcomes[0].decision)]}
    again, stopped, late = decide(
        cloud, mine, StopRequest("a.i", DAY_US, "a"), StopRequest("a.i", DAY_US, "b"), past=known
    ).outcomes
    assert again.repeated
    assert stopped.changed
    assert isinstance(late, errors.IdNotOwn), "nobody else is told that it has ended"
    shared = make_cloud(guarantee=Guarantee.NONE)
    assert isinstance(decide(shared, other).outcomes[0], Started)


def test_nothing_moves_an_external_clock_further_than_ten_years():
    cloud, far = make_cloud(), LONGEST_STEP_US + 1
    jump = Change(lambda cloud, at_us: [PolicyChanged(at_us=at_us, policy=cloud.policy)], far, True)
    steps = [on_demand("a", "c1", far), spot("b", far), StopRequest("a", far), jump]
    assert due_table_us(cloud, spot("b", far), None) is None
    outcomes = decide(cloud, *steps, waited_us=0).outcomes
    assert [type(outcome) for outcome in outcomes] == [errors.TimeAhead] * 4
    assert cloud.at_us == 0
    assert "no request moves it by more than 3660 days; a cloud that is created with `at`" in str(outcomes[3])
    assert isinstance(decide(cloud, replace(jump, at_us=LONGEST_STEP_US)).outcomes[0], Changed)
    assert cloud.at_us == LONGEST_STEP_US


def test_a_jump_that_says_so_goes_further_than_the_policys_step():
    cloud = make_cloud(clock_step_us=DAY_US)
    (outcome,) = decide(
        cloud, Change(lambda _, at_us: [NodeAdded(at_us=at_us, node="n", capacity=Resources(1))], 90 * DAY_US, True)
    ).outcomes
    assert isinstance(outcome, Changed)
    assert cloud.at_us == 90 * DAY_US
    (late,) = decide(
        cloud, Change(lambda _, at_us: [NodeAdded(at_us=at_us, node="o", capacity=Resources(1))], DAY_US, True)
    ).outcomes
    assert isinstance(late, errors.TimeBackwards)
    assert decide(cloud, Change(lambda _, __: [], DAY_US, True)).outcomes == [Changed(())]


def test_no_table_is_waited_for_where_the_time_is_refused():
    cloud = make_cloud(clock_step_us=DAY_US)
    assert due_table_us(cloud, spot("a", 2 * DAY_US), FixedQuotes()) is None
    assert due_table_us(cloud, spot("a", DAY_US), None) == DAY_US


def test_changes_take_the_clouds_time_where_none_is_given():
    cloud = make_cloud()
    decide(cloud, on_demand("a", "c1"))
    (outcome,) = decide(
        cloud, Change(lambda _, now_us: [NodeAdded(at_us=now_us, node="n", capacity=Resources(2))])
    ).outcomes
    assert isinstance(outcome, Changed)
    assert outcome.events[0].at_us == DAY_US


def test_rollback_leaves_no_trace():
    cloud = make_cloud()
    decide(cloud, spot("a"))
    cloud.commit()
    before = cloud.digest()
    decide(cloud, spot("b"), on_demand("big"), StopRequest("big", DAY_US), spot("c"))
    assert cloud.digest() != before
    cloud.rollback()
    assert cloud.digest() == before
