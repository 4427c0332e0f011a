"""Looks at what wants a longer lifetime, before changes and observations that move an external clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from test_wanted import HourlyQuotes, Led, on_demand, wish

from app.admission.batch import decide_batch
from app.admission.looks import MOST_LOOKS
from app.admission.outcomes import Change, Step
from app.domain.errors import NodeNotFound, TenureError
from app.domain.events import (
    Event,
    FlavorAdded,
    InstanceExtended,
    InstanceMoved,
    NodeAdded,
    PolicyChanged,
    PromiseEnding,
    QuotaSet,
)
from app.domain.requests import ObserveRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Resources
from app.engine.cloud import LEAD_US, Cloud

LATE_US = DAY_US + 9 * HOUR_US


def take(led: Led, *steps: Step) -> None:
    known = {one.event.instance_id: one for one in led.log if hasattr(one.event, "market")}
    batch = decide_batch(led.cloud, steps, known, 0, HourlyQuotes(), waited_us=1 << 60)
    led.cloud.commit()
    led.log += batch.recorded
    led.outcomes = batch.outcomes


def new_policy(cloud: Cloud, at_us: int) -> Sequence[Event]:
    return [PolicyChanged(at_us=at_us, policy=replace(cloud.policy, eviction_probability=0.02))]


def new_node(_: Cloud, at_us: int) -> Sequence[Event]:
    return [NodeAdded(at_us=at_us, node="m", capacity=Resources(1))]


def new_flavor(_: Cloud, at_us: int) -> Sequence[Event]:
    return [FlavorAdded(at_us=at_us, flavor="c2", demand=Resources(2))]


def new_quota(_: Cloud, at_us: int) -> Sequence[Event]:
    return [QuotaSet(at_us=at_us, owner="o", cores=1)]


@pytest.mark.parametrize(
    "step",
    [
        *(Change(decide, LATE_US) for decide in (new_policy, new_node, new_flavor, new_quota)),
        ObserveRequest("new", "c1", "n", LATE_US),
    ],
)
def test_what_moves_the_time_takes_the_looks_before_it(step: Step) -> None:
    by_start, led = Led(), Led()
    for one in (by_start, led):
        one.take(wish("a"))
    take(by_start, on_demand("x", LATE_US))
    take(led, step)
    assert not isinstance(led.outcomes[0], TenureError)
    assert led.log[:-1] == by_start.log[:-1]
    assert led.of(InstanceExtended)
    for notice in led.of(PromiseEnding):
        assert notice.at_us <= notice.deadline_us - LEAD_US
    led.check()


def test_a_jump_passes_over_a_bounded_number_of_looks_only() -> None:
    led = Led(cores=2 * MOST_LOOKS, table_max_age_us=99 * DAY_US, clock_step_us=DAY_US)
    led.take(*(wish(f"s{number}") for number in range(MOST_LOOKS + 9)))
    assert len(led.cloud.wants) > MOST_LOOKS
    count = len(led.log)
    take(led, Change(new_policy, DAY_US + 400 * HOUR_US, jump=True))
    assert 1 < len(led.log) - count <= MOST_LOOKS + 1
    assert led.cloud.at_us == DAY_US + 400 * HOUR_US


def fails(_: Cloud, __: int) -> Sequence[Event]:
    raise NodeNotFound("there is no such node")


@pytest.mark.parametrize(
    "step",
    [
        Change(fails, LATE_US),
        Change(lambda _, __: [], LATE_US),
        Change(new_node, LATE_US + DAY_US),
        Change(new_node, DAY_US - 1),
        ObserveRequest("new", "c9", "n", LATE_US),
        ObserveRequest("new", "c1", "nowhere", LATE_US),
        ObserveRequest("gone", "c1", "n", LATE_US),
    ],
)
def test_what_changes_nothing_takes_no_looks(step: Step) -> None:
    led = Led(clock_step_us=DAY_US)
    led.take(on_demand("gone", DAY_US), StopRequest("gone", DAY_US), wish("a"))
    count = len(led.log)
    take(led, step)
    assert len(led.log) == count
    assert led.of(InstanceMoved) == []
