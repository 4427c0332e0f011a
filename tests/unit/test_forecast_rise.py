"""The rise curve: agreement with the plain-Python oracle, continuing, censoring, and what it costs."""

from __future__ import annotations

from dataclasses import fields, replace
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.histories import random_log
from oracles.pressing import pressing
from oracles.rise import BIN_US, activity, changes, heights, shares

from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.values import EvictionPolicy, Market, Policy, Rejection, Resources
from app.engine.cluster import UNCOUNTED
from app.engine.intervals import INTERVAL_COUNT
from app.forecast.operations import Operations
from app.forecast.replayed import History
from app.forecast.rise import ROOM_COUNT, RiseHistory, Rises

MINUTE_US = 60_000_000


def slowed(log: list[Recorded], factor: int) -> list[Recorded]:
    """Return the log with all times and lifetimes multiplied."""
    found = []
    for item in log:
        times = {name: getattr(item.event, name, None) for name in ("at_us", "lifetime_us", "deadline_us", "ready_us")}
        known = {one.name for one in fields(item.event)}
        changed: dict[str, Any] = {name: at * factor for name, at in times.items() if at is not None and name in known}
        found.append(Recorded(item.seq, replace(item.event, **changed)))
    return found


def read(log: list[Recorded], *until_us: int) -> tuple[Rises, History]:
    """The curves after the last of these times, having published at each."""
    history = History()
    history.extend(log)
    rises: RiseHistory | None = None
    for until in until_us:
        operations = history.operations(until)
        rises = rises or RiseHistory(history.begin_us or 0, len(Resources._fields))
        rises.extend(operations, history.node_count, history.row_count, until)
        found = rises.publish()
    return found, history


@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(5, 60),
    factor=st.integers(30, 2000).map(lambda seconds: seconds * 1_000_000),
    stops=st.lists(st.floats(0, 1), max_size=2),
)
@settings(max_examples=60, deadline=None)
def test_every_room_and_interval_agree_with_the_oracle(seed: int, steps: int, factor: int, stops: list[float]) -> None:
    """Published once or in several epochs: the counts are the same, so the shares are equal to the last bit."""
    log = slowed(random_log(seed, steps, EvictionPolicy.YJF), factor)
    begin_us = log[0].event.at_us
    until_us = min(log[-1].event.at_us + 1, begin_us + 150 * BIN_US)
    on_the_way = sorted(begin_us + 1 + int(stop * (until_us - begin_us - 1)) for stop in stops)
    found, history = read(log, *on_the_way, until_us)
    flavors = {name: Resources(*demand.tolist()) for name, demand in history.flavors.items()}
    past = [item for item in log if item.event.at_us < until_us]
    for resource in range(2):
        rooms = found.rooms[resource, : found.counts[resource]].tolist()
        steps_of = changes(past, flavors, resource)
        expected = shares(steps_of, begin_us, until_us, rooms, 8)
        assert found.shares[resource, : len(rooms), :8].tolist() == expected
        above = heights(steps_of, begin_us, until_us, rooms, 8)
        assert found.heights[resource, : len(rooms), :8].tolist() == above
        counted = pressing(past)
        starts = [
            item.event
            for item in past
            if isinstance(item.event, InstanceStarted)
            or (isinstance(item.event, InstanceRejected) and item.event.instance_id in counted)
        ]
        asked = [(one.at_us, flavors[one.flavor][resource]) for one in starts if one.market is Market.ON_DEMAND]
        usual = (
            activity(asked, begin_us, until_us, rooms[-1] if rooms else 0) if sum(size for _, size in asked) else 0.0
        )
        assert found.activity[resource] == pytest.approx(usual if rooms else 0.0, abs=1e-9)


def one_node(*events: InstanceStarted | InstanceStopped) -> list[Recorded]:
    opening = [
        CloudCreated(at_us=0, policy=Policy()),
        NodeAdded(at_us=0, node="n", capacity=Resources(16)),
        FlavorAdded(at_us=0, flavor="f", demand=Resources(4)),
    ]
    return [Recorded(seq, event) for seq, event in enumerate([*opening, *events], 1)]


def started(minute: float, name: str) -> InstanceStarted:
    at_us = int(minute * MINUTE_US)
    return InstanceStarted(at_us=at_us, instance_id=name, market=Market.ON_DEMAND, flavor="f", node="n")


def stopped(minute: float, name: str) -> InstanceStopped:
    return InstanceStopped(at_us=int(minute * MINUTE_US), instance_id=name)


def refused(minute: float, owner: str | None = None, *nodes: str) -> InstanceRejected:
    """An on-demand start for an hour that had no room."""
    at_us = int(minute * MINUTE_US)
    return InstanceRejected(
        at_us=at_us,
        instance_id=f"{owner} {minute}",
        market=Market.ON_DEMAND,
        flavor="f",
        reason=Rejection.NO_CAPACITY,
        lifetime_us=60 * MINUTE_US,
        owner=owner,
        allowed=nodes,
    )


def share(rises: Rises, room: int, interval: int) -> float:
    return float(rises.shares[0, rises.rooms[0].tolist().index(room), interval])


def test_a_history_worked_out_by_hand() -> None:
    """Four bins; a peak of 4 cores for a minute within the third, and its last starts are censored."""
    rises, _ = read(one_node(started(25, "a"), stopped(26, "a")), 40 * MINUTE_US)
    assert share(rises, 3, 0) == 1 / 4
    # Of three starts with 20 minutes before the present one passed at once; of the two others one passes.
    assert share(rises, 3, 1) == 1 - (3 / 4) * (1 / 2)
    assert share(rises, 4, 13) == 0.0
    assert rises.seen_us == 40 * MINUTE_US
    assert rises.heights[0, rises.rooms[0].tolist().index(3), 1] == 1 - (3 / 4) * (1 / 2)


def test_a_start_above_a_height_passes_it_at_once() -> None:
    """A load of 4 cores for ten minutes, then none: the first of four starts begins above 3, and none rises."""
    rises, _ = read(one_node(started(0, "a"), stopped(9, "a")), 40 * MINUTE_US)
    loud, _ = read(one_node(started(0, "a"), stopped(10, "a")), 40 * MINUTE_US)
    at = rises.rooms[0].tolist().index(3)
    assert rises.heights[0, at, 0] == 1 / 4
    # The load before a bin is that of its beginning: the second start begins above too, and is gone at once.
    assert loud.heights[0, at, 0] == 2 / 4
    assert share(loud, 3, 0) == 1 / 4


def test_the_spread_of_daily_peaks_begins_with_a_share_of_the_capacity() -> None:
    """Days with peaks of 4, 8 and 0 cores; what is before the last whole days does not count."""
    day = 24 * 60
    ups = [started(30, "a"), started(day + 5, "b"), started(day + 6, "c")]
    downs = [stopped(60, "a"), stopped(day + 7, "b"), stopped(day + 8, "c")]
    log = one_node(ups[0], downs[0], *ups[1:], *downs[1:])
    expected = (0.2 * 16) ** 2
    assert read(log, 40 * MINUTE_US)[0].spreads.tolist() == pytest.approx([0.2 * 16, 0.2 * UNCOUNTED, 0.2 * UNCOUNTED])
    assert read(log, 3 * day * MINUTE_US)[0].spreads[0] == pytest.approx(((32 + expected) / 4) ** 0.5)
    at_once, _ = read(log, 3 * day * MINUTE_US + 1)
    later, _ = read(log, day * MINUTE_US, 3 * day * MINUTE_US + 1)
    assert at_once.spreads.tolist() == later.spreads.tolist()
    # An hour later the days are counted back from there: the first peak is before them.
    assert read(log, (3 * day + 60) * MINUTE_US)[0].spreads[0] == pytest.approx(((8 * 8 * 2 / 3 + expected) / 4) ** 0.5)


def test_a_load_that_ended_before_a_start_is_no_rise() -> None:
    rises, _ = read(one_node(started(1, "a"), stopped(9, "a"), started(10, "b")), 40 * MINUTE_US)
    assert share(rises, 3, 0) == 2 / 4
    assert share(rises, 4, 0) == 0.0


def test_who_asks_again_presses_once() -> None:
    """Ten starts of one owner count as one, and as one more when the first is over; without owners all count."""
    seen_us = 24 * 60 * MINUTE_US
    once, _ = read(one_node(refused(5, "a")), seen_us)
    again, _ = read(one_node(*(refused(5 + minute, "a") for minute in range(10))), seen_us)
    later, _ = read(one_node(refused(5, "a"), refused(64, "a"), refused(65, "a")), seen_us)
    two, _ = read(one_node(refused(5, "a"), refused(65, "a")), seen_us)
    nobodys, _ = read(one_node(refused(5), refused(6)), seen_us)
    assert again.to_bytes() == once.to_bytes() != later.to_bytes() == two.to_bytes()
    assert share(once, 4, 0) == 0.0 < share(nobodys, 4, 0)


def test_a_start_that_could_take_certain_nodes_only_presses_on_nobody() -> None:
    seen_us = 24 * 60 * MINUTE_US
    silent, _ = read(one_node(), seen_us)
    found, _ = read(one_node(*(refused(5 + minute, "a", "nope") for minute in range(10))), seen_us)
    assert found.to_bytes() == silent.to_bytes()


def test_a_busy_day_worked_out_by_hand() -> None:
    """Four days with a start of 4 cores each, then one with three: 7 in five days, of a capacity of 16."""
    day = 24 * 60
    starts = [started(minute, f"o{minute}") for minute in (5, day, 2 * day, 3 * day, 4 * day, 4 * day + 1, 4 * day + 2)]
    stops = [stopped(start.at_us / MINUTE_US + 0.5, start.instance_id) for start in starts]
    log_ = one_node(*sorted([*starts, *stops], key=lambda event: event.at_us))
    rises, _ = read(log_, 5 * day * MINUTE_US)
    usual = 28 / 5
    expected = log((12 + usual / 2 + 0.02 * 16) / (1.5 * usual + 0.02 * 16))
    assert rises.activity.tolist() == [pytest.approx(expected), 0.0, 0.0]
    again, rest = Rises.from_bytes(rises.to_bytes())
    assert again.activity.tolist() == rises.activity.tolist()
    assert rest == b""


def test_shares_fall_with_room_and_rise_with_time() -> None:
    log = slowed(random_log(3, 400, EvictionPolicy.YJF), 400_000_000)
    rises, _ = read(log, log[-1].event.at_us)
    assert rises.counts[0] > 5
    for table in (rises.shares[0], rises.heights[0]):
        assert table.max() > table.min()
        assert (np.diff(table, axis=0) <= 0).all()
        assert (np.diff(table, axis=1) >= 0).all()


def test_a_resource_that_is_not_counted_has_no_curve() -> None:
    rises, _ = read(one_node(started(1, "a")), 40 * MINUTE_US)
    assert rises.counts.tolist() == [len(set(rises.rooms[0].tolist())), 0, 0]
    assert rises.rooms[0, -1] == 16
    assert rises.shares.shape == (3, ROOM_COUNT, INTERVAL_COUNT)


def test_a_silence_of_a_hundred_years_takes_no_memory() -> None:
    year_us = 365 * 24 * 60 * MINUTE_US
    log = one_node(started(1, "a"), InstanceStopped(at_us=100 * year_us, instance_id="a"))
    history = History()
    history.extend(log)
    rises = RiseHistory(0, 3)
    operations: Operations = history.operations(100 * year_us)
    rises.extend(operations, history.node_count, history.row_count, 100 * year_us)
    assert len(rises._peaks) == 1 << (INTERVAL_COUNT - 1)
    assert 0.0 < share(rises.publish(), 3, 13) < 0.01
