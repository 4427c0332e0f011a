"""Starts that take what they can be promised: what they get, how they are extended, when they are told."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from app.admission.acceptable import acceptable_instead
from app.admission.batch import decide_batch
from app.admission.longest import LEAST_GAIN_US, decide_look
from app.admission.looks import MOST_LOOKS, looks_before
from app.admission.outcomes import Started
from app.domain.errors import InstanceConflict, LifetimeOutOfBounds
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    PolicyChanged,
    PromiseEnding,
    Recorded,
)
from app.domain.requests import ExtendRequest, StartRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, Guarantee, Market, Policy, Rejection, Resources
from app.domain.wanted import Wanted
from app.engine.cloud import LEAD_US, MINUTE_US, Cloud
from app.scheduling.store.snapshots import decode_cloud, encode_cloud
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

LONGEST = Wanted()


@dataclass(frozen=True)
class HourlyQuotes:
    """A table that quotes an hour for each slot."""

    epoch: int = 7
    epoch_us: int = DAY_US
    seq: int = 1
    slot_us: int = HOUR_US

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return slots * self.slot_us

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return 0.005 if lifetime_us < slots * self.slot_us else 1.0

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return 0.5

    def seen_from(self, outlooks: object) -> HourlyQuotes:
        return self


class Led:
    """A cloud that is led through steps, with its log."""

    def __init__(self, cores: int = 4, **policy: object) -> None:
        self.cloud, self.quotes = Cloud(), HourlyQuotes()
        self.log: list[Recorded] = []
        given = replace(Policy(clock=Clock.EXTERNAL, clock_step_us=None), **policy)
        for event in (
            CloudCreated(at_us=0, policy=given),
            NodeAdded(at_us=0, node="n", capacity=Resources(cores)),
            FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        ):
            self.log.append(self.cloud.apply(event))
        self.cloud.commit()

    def take(self, *steps: StartRequest | StopRequest | ExtendRequest) -> Event:
        """Decide the steps as one batch; return the last event."""
        known = {one.event.instance_id: one for one in self.log if isinstance(one.event, InstanceStarted)}
        known |= {one.event.instance_id: one for one in self.log if isinstance(one.event, InstanceRejected)}
        self.outcomes = []
        left = list(steps)
        while left:
            batch = decide_batch(self.cloud, left, known, 0, self.quotes, waited_us=1 << 60)
            self.cloud.commit()
            self.log += batch.recorded
            self.outcomes += batch.outcomes
            left = left[len(batch.outcomes) :]
        return self.log[-1].event

    def audit(self, *nodes: tuple[str, Resources], instances_only: bool = False) -> None:
        file = io.StringIO()
        writer = LogWriter(file, instances_only=instances_only)
        for recorded in self.log:
            writer.write(recorded)
        found = audit((row for _, row in read_rows(io.StringIO(file.getvalue()), "log")), nodes)
        assert found.finding is None, found.finding

    def of(self, form: type) -> list:
        return [one.event for one in self.log if isinstance(one.event, form)]

    def check(self) -> None:
        """The audit finds nothing, and the log folds to the same state."""
        self.audit()
        folded = Cloud()
        folded.apply_recorded(self.log)
        assert folded.digest() == self.cloud.digest()
        kept = decode_cloud(encode_cloud(self.cloud))
        assert kept is not None
        assert kept.digest() == self.cloud.digest()
        assert kept.wants == self.cloud.wants


def wish(name: str, wanted: Wanted = LONGEST, at_us: int = DAY_US, p: float | None = None) -> StartRequest:
    return StartRequest(name, Market.SPOT, "c1", None, p, at_us, None, wanted)


def on_demand(name: str, at_us: int) -> StartRequest:
    return StartRequest(name, Market.ON_DEMAND, "c1", at_us=at_us)


def test_it_gets_the_longest_that_is_quoted_in_whole_seconds() -> None:
    led = Led()
    event = led.take(wish("a"))
    assert isinstance(event, InstanceStarted)
    assert (event.lifetime_us, event.limited_by) == (4 * HOUR_US - SECOND_US, Rejection.SLA_UNATTAINABLE)
    assert event.wanted == LONGEST
    led.check()


@pytest.mark.parametrize("guarantee", [Guarantee.STRATIFIED, Guarantee.POOLED, Guarantee.NONE])
def test_under_every_guarantee_two_seconds_more_are_refused(guarantee: Guarantee) -> None:
    led = Led(guarantee=guarantee)
    event = led.take(wish("a"))
    assert isinstance(event, InstanceStarted)
    assert event.lifetime_us is not None
    if guarantee is Guarantee.NONE:
        assert (event.lifetime_us, event.limited_by) == (Policy().horizon_us, None)
    else:
        assert event.limited_by is Rejection.BUDGET_EXHAUSTED
        other = Led(guarantee=guarantee)
        longer = StartRequest("a", Market.SPOT, "c1", event.lifetime_us + 2 * SECOND_US, None, DAY_US)
        assert isinstance(other.take(longer), InstanceRejected)
        assert isinstance(
            Led(guarantee=guarantee).take(replace(longer, lifetime_us=event.lifetime_us)), InstanceStarted
        )
    led.check()


def test_it_gets_no_more_than_it_wants() -> None:
    led = Led()
    event = led.take(wish("a", Wanted(2 * HOUR_US, HOUR_US)))
    assert isinstance(event, InstanceStarted)
    assert (event.lifetime_us, event.limited_by) == (2 * HOUR_US, None)
    assert not led.cloud.wants
    led.check()


def test_a_minimum_that_cannot_be_promised_is_refused_with_what_would_be() -> None:
    led = Led()
    event = led.take(wish("a", Wanted(None, 10 * HOUR_US)))
    assert isinstance(event, InstanceRejected)
    assert (event.lifetime_us, event.reason) == (10 * HOUR_US, Rejection.SLA_UNATTAINABLE)
    instead = acceptable_instead(event)
    assert instead is not None
    assert instead.lifetime_us == 4 * HOUR_US - 1
    led.check()


def test_a_repeated_request_has_the_same_answer_and_another_wish_is_a_conflict() -> None:
    led = Led()
    led.take(wish("a"))
    seq = led.cloud.seq
    led.take(wish("a"))
    (again,) = led.outcomes
    assert isinstance(again, Started)
    assert again.repeated
    got_us = again.decision.lifetime_us
    for other in (
        wish("a", Wanted(None, HOUR_US)),
        wish("a", Wanted(got_us)),
        StartRequest("a", Market.SPOT, "c1", got_us, None, DAY_US),
    ):
        led.take(other)
        assert isinstance(led.outcomes[0], InstanceConflict)
    assert led.cloud.seq == seq


def test_looks_are_at_half_of_what_is_left_and_the_last_in_time() -> None:
    led = Led()
    led.take(wish("a"))
    want = led.cloud.wants["a"]
    looks = [want.next_look_us(0, DAY_US)]
    while looks[-1] != want.last_look_us(0):
        looks.append(want.next_look_us(0, looks[-1]))
    assert [one - DAY_US for one in looks[:3]] == [2 * HOUR_US, 3 * HOUR_US, 3.5 * HOUR_US]
    assert all(one % MINUTE_US == 0 for one in looks)
    assert want.deadline_us - 2 * MINUTE_US - LEAD_US < looks[-1] <= want.deadline_us - LEAD_US
    assert want.last_look_us(2 * HOUR_US) <= want.deadline_us - 2 * HOUR_US


def test_it_is_extended_at_the_time_of_the_look_whoever_brings_it() -> None:
    led = Led()
    led.take(wish("a"))
    led.take(on_demand("b", DAY_US + 2 * HOUR_US + 7))
    (longer,) = led.of(InstanceExtended)
    assert (longer.at_us, longer.is_automatic) == (DAY_US + 2 * HOUR_US, True)
    assert longer.lifetime_us == 2 * HOUR_US + 4 * HOUR_US - SECOND_US, "four hours from there on"
    assert longer.limited_by is Rejection.SLA_UNATTAINABLE
    assert led.cloud.wants["a"].deadline_us == longer.deadline_us
    led.check()


def test_it_is_told_in_time_and_once_when_it_can_have_no_more() -> None:
    led = Led()
    led.take(wish("a"))
    led.quotes = HourlyQuotes(slot_us=1)
    deadline_us = led.cloud.wants["a"].deadline_us
    for number in range(40):
        at_us = DAY_US + number * 6 * MINUTE_US + 2
        led.take(on_demand(f"x{number}", at_us), StopRequest(f"x{number}", at_us + 1))
    led.take(StopRequest("a", deadline_us + 5))
    (told,) = led.of(PromiseEnding)
    assert led.of(InstanceExtended) == []
    assert deadline_us - 2 * MINUTE_US - LEAD_US < told.at_us <= deadline_us - LEAD_US
    assert (told.deadline_us, told.reason) == (deadline_us, Rejection.SLA_UNATTAINABLE)
    led.check()


def test_who_was_told_may_still_ask_and_is_looked_after_again() -> None:
    led = Led()
    led.take(wish("a"))
    led.quotes = HourlyQuotes(slot_us=1)
    led.take(on_demand("b", DAY_US + 4 * HOUR_US - MINUTE_US))
    led.quotes = HourlyQuotes()
    assert led.cloud.wants["a"].is_told
    led.take(on_demand("c", DAY_US + 4 * HOUR_US - MINUTE_US))
    assert led.of(InstanceExtended) == [], "nothing is done for those who were told"
    longer = led.take(ExtendRequest("a", 5 * HOUR_US, DAY_US + 4 * HOUR_US - MINUTE_US))
    assert isinstance(longer, InstanceExtended)
    assert not longer.is_automatic
    assert not led.cloud.wants["a"].is_told
    led.check()


def test_no_event_gains_little() -> None:
    led = Led(cores=1, horizon_us=2 * HOUR_US)
    led.take(wish("a"))
    want = led.cloud.wants["a"]
    almost_us = want.promised_us + 2 * MINUTE_US
    assert decide_look(led.cloud, want, almost_us, HourlyQuotes()) is None
    longer = decide_look(led.cloud, want, want.promised_us + 30 * MINUTE_US, HourlyQuotes())
    assert isinstance(longer, InstanceExtended)
    assert longer.lifetime_us - longer.former_lifetime_us >= LEAST_GAIN_US


def test_a_wanted_lifetime_is_reached_and_then_left_alone() -> None:
    led = Led()
    led.take(wish("a", Wanted(5 * HOUR_US, HOUR_US)))
    led.take(on_demand("b", DAY_US + 2 * HOUR_US))
    (longer,) = led.of(InstanceExtended)
    assert (longer.lifetime_us, longer.limited_by) == (5 * HOUR_US, None)
    assert not led.cloud.wants
    led.take(StopRequest("a", DAY_US + 6 * HOUR_US))
    assert led.of(PromiseEnding) == []
    led.check()


def busy(count: int) -> Sequence[StartRequest | StopRequest]:
    steps: list[StartRequest | StopRequest] = []
    for number in range(count):
        at_us = DAY_US + number * 41 * MINUTE_US
        steps.append(wish(f"s{number}", Wanted(None if number % 2 else DAY_US, HOUR_US), at_us))
        steps.append(on_demand(f"d{number}", at_us + MINUTE_US))
        if number >= 3:
            steps.append(StopRequest(f"d{number - 3}", at_us + 2 * MINUTE_US))
    return steps


def test_it_does_not_matter_which_requests_are_decided_together() -> None:
    """One batch, many batches, and a writer that rolled back every first try write the same log."""
    together, apart = Led(cores=6), Led(cores=6)
    together.take(*busy(40))
    for step in busy(40):
        decide_batch(apart.cloud, [step], {}, 0, HourlyQuotes(), waited_us=1 << 60)
        apart.cloud.rollback()
        apart.take(step)
    assert apart.log == together.log
    assert together.of(InstanceExtended)
    assert together.of(PromiseEnding)
    together.check()


def test_bad_requests_move_no_time() -> None:
    led = Led()
    led.take(wish("a"))
    seq = led.cloud.seq
    late_us = DAY_US + 3 * HOUR_US
    led.take(
        StopRequest("nobody", late_us), on_demand("x", late_us).__class__("x", Market.ON_DEMAND, "c9", at_us=late_us)
    )
    assert led.cloud.seq == seq


def test_one_request_takes_a_bounded_number_of_looks() -> None:
    led = Led(cores=2 * MOST_LOOKS, table_max_age_us=99 * DAY_US)
    led.take(*(wish(f"s{number}") for number in range(MOST_LOOKS + 9)))
    found = looks_before(led.cloud, on_demand("x", DAY_US + 400 * HOUR_US), {}, HourlyQuotes())
    assert 0 < len(found) <= MOST_LOOKS
    led.cloud.rollback()


def test_on_the_servers_clock_requests_take_no_looks() -> None:
    led = Led(clock=Clock.SYSTEM)
    assert looks_before(led.cloud, on_demand("x", DAY_US), {}, HourlyQuotes()) == []


def test_the_policy_s_bounds_hold_for_what_is_wanted() -> None:
    led = Led(shortest_lifetime_us=HOUR_US, longest_lifetime_us=3 * HOUR_US, horizon_us=2 * HOUR_US)
    event = led.take(wish("a"))
    assert isinstance(event, InstanceStarted)
    assert (event.lifetime_us, event.limited_by) == (2 * HOUR_US, None)
    for wanted in (Wanted(4 * HOUR_US, HOUR_US), Wanted(None, 4 * HOUR_US)):
        led.take(wish("b", wanted))
        assert isinstance(led.outcomes[0], LifetimeOutOfBounds)
    led.quotes = HourlyQuotes(slot_us=60 * SECOND_US)
    refused = led.take(wish("c", Wanted(2 * HOUR_US, SECOND_US)))
    assert isinstance(refused, InstanceRejected)
    assert refused.lifetime_us == HOUR_US, "no less may be declared here"
    led.quotes = HourlyQuotes()
    led.take(on_demand("d", DAY_US + HOUR_US))
    (longer,) = led.of(InstanceExtended)
    assert longer.lifetime_us == 3 * HOUR_US, "the policy's longest"
    led.take(on_demand("e", DAY_US + 3 * HOUR_US))
    assert [one.reason for one in led.of(PromiseEnding)] == [None]
    led.check()


def test_a_stop_gives_back_what_was_earned_for_risk_that_was_not_borne() -> None:
    """Otherwise starts for as long as possible that stop at once would earn evictions for others at no risk."""
    led = Led(guarantee=Guarantee.STRATIFIED)
    for number in range(20):
        led.take(wish(f"s{number}", at_us=DAY_US + number), StopRequest(f"s{number}", DAY_US + number))
    assert sum(book.earned for book in led.cloud.books(0.01, led.cloud.at_us)) < 1e-12
    led.take(wish("half", Wanted(HOUR_US, HOUR_US), led.cloud.at_us))
    earned = led.cloud.books(0.01, led.cloud.at_us)[1].earned
    assert earned == pytest.approx(0.01)
    led.take(StopRequest("half", led.cloud.at_us + HOUR_US // 4))
    assert led.cloud.books(0.01, led.cloud.at_us)[1].earned == pytest.approx(4 * 0.005 / 4)
    led.take(wish("last", at_us=led.cloud.at_us))
    led.check()


def test_a_start_counts_the_room_of_overrunning_instances_as_its_first_look_does() -> None:
    """It gets at once what it would be extended to, not the least that it takes."""
    led = Led(cores=2, guarantee=Guarantee.PER_INSTANCE, displaces_overrunning=True)
    led.take(*(StartRequest(name, Market.SPOT, "c1", SECOND_US, None, DAY_US) for name in ("a", "b")))
    started = led.take(wish("c", at_us=DAY_US + HOUR_US))
    assert isinstance(started, InstanceStarted)
    assert started.victims == ("b",)
    assert (started.lifetime_us, started.limited_by) == (HOUR_US - SECOND_US, Rejection.SLA_UNATTAINABLE)
    led.check()


@pytest.mark.parametrize(("gives_back", "kept"), [(False, 0.01), (True, 4 * 0.005 / 5)])
def test_who_declared_a_lifetime_gives_back_if_the_policy_says_so(*, gives_back: bool, kept: float) -> None:
    """It keeps what one would have earned that bears as much risk in all."""
    led = Led(guarantee=Guarantee.STRATIFIED, gives_back=gives_back)
    led.take(StartRequest("a", Market.SPOT, "c1", HOUR_US, None, DAY_US), StopRequest("a", DAY_US + HOUR_US // 5))
    assert led.cloud.books(0.01, led.cloud.at_us)[1].earned == pytest.approx(kept)
    led.take(StartRequest("b", Market.SPOT, "c1", HOUR_US, None, led.cloud.at_us))
    led.take(StopRequest("b", led.cloud.at_us + HOUR_US + 1))
    assert led.cloud.books(0.01, led.cloud.at_us)[1].earned == pytest.approx(kept + 0.01), "it bore all of it"
    led.take(StartRequest("c", Market.SPOT, "c1", HOUR_US, None, led.cloud.at_us))
    led.check()
    led.audit(("n", Resources(4)), instances_only=True)


@pytest.mark.parametrize(("lifetime_us", "kept"), [(SECOND_US, 0.01 / 60), (30 * SECOND_US, 0.005), (MINUTE_US, 0.01)])
def test_less_than_a_minute_earns_in_proportion(lifetime_us: int, kept: float) -> None:
    """No forecast tells a second from a minute: else a hundred starts of a second would earn an eviction."""
    led = Led(guarantee=Guarantee.STRATIFIED, gives_back=True)
    led.take(StartRequest("a", Market.SPOT, "c1", lifetime_us, None, DAY_US), StopRequest("a", DAY_US + lifetime_us))
    assert led.cloud.books(0.01, led.cloud.at_us)[0].earned == pytest.approx(kept)
    led.take(StartRequest("b", Market.SPOT, "c1", lifetime_us, None, led.cloud.at_us))
    led.check()
    led.audit(("n", Resources(4)), instances_only=True)


def test_what_earned_before_the_policy_says_so_is_given_back_too() -> None:
    led = Led(guarantee=Guarantee.STRATIFIED)
    led.take(StartRequest("a", Market.SPOT, "c1", HOUR_US, None, DAY_US))
    led.log.append(led.cloud.apply(PolicyChanged(at_us=DAY_US, policy=replace(led.cloud.policy, gives_back=True))))
    led.take(StopRequest("a", DAY_US))
    assert led.cloud.books(0.01, led.cloud.at_us)[1].earned == pytest.approx(0)
    led.take(StartRequest("b", Market.SPOT, "c1", HOUR_US, None, led.cloud.at_us))
    led.check()
