"""Readings of a state that stands still: each is made once, and is what it would be if it were made again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_longest_in_a_share import TenthQuotes, declared
from test_longest_in_a_share import start as wanting
from test_wanted import LONGEST, Led

from app.domain.events import CloudCreated, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud, rows
from app.engine.cloud.readings import Readings
from app.engine.cloud.records import FIRST_ROWS


def test_what_is_read_within_a_block_is_read_once() -> None:
    readings, asked = Readings(), []
    read = readings.once(lambda number, *, more=0: asked.append(number) or number + more)
    assert (read(1), read(1)) == (1, 1)
    assert asked == [1, 1]
    with readings.still():
        assert (read(1), read(1), read(2), read(1, more=3)) == (1, 1, 2, 4)
        with readings.still():
            assert read(2) == 2
        assert read(2) == 2
    assert asked == [1, 1, 1, 2, 1]
    read(1)
    assert asked == [1, 1, 1, 2, 1, 1]


def test_a_block_that_fails_forgets_too() -> None:
    readings, asked = Readings(), []
    read = readings.once(asked.append)

    def fail() -> None:
        with readings.still():
            read(1)
            read(1 // 0)

    with pytest.raises(ZeroDivisionError):
        fail()
    read(1)
    assert asked == [1, 1]


def running(count: int, market: Market = Market.SPOT) -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(2 * count)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    for number in range(count):
        cloud.apply(started(f"i{number}", market))
    return cloud


def started(name: str, market: Market) -> InstanceStarted:
    return InstanceStarted(
        at_us=0, instance_id=name, market=market, flavor="c1", node="n", lifetime_us=HOUR_US, probability=0.1
    )


def test_what_is_read_without_some_instances_is_kept_apart() -> None:
    cloud = running(3)
    with cloud.still():
        assert cloud.available_slots("c1") == 3
        with cloud.without(["i0"]):
            assert cloud.available_slots("c1") == 4
            with cloud.without(["i1"]):
                assert cloud.available_slots("c1") == 5
            assert cloud.available_slots("c1") == 4
        assert cloud.available_slots("c1") == 3
        with cloud.without(["i0"]):
            assert cloud.available_slots("c1") == 4


def test_the_longest_lifetime_within_a_share_takes_one_pass_for_each_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen lifetimes are judged to find it, of one state."""
    passes = []
    borne = rows.borne
    monkeypatch.setattr(rows, "borne", lambda *given: passes.append(given) or borne(*given))
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.95, owner_share=0.9, cores=8)
    led.quotes = TenthQuotes()
    led.take(declared("x", 7), declared("y", 2))
    passes.clear()
    assert isinstance(led.take(wanting("a", LONGEST)), InstanceStarted)
    of_promises = [promise for given in passes for promise in given[4].tolist()]
    assert sorted(of_promises) == [0.95, 0.999], "that promise would be proposed in place of a refusal"
    led.check()


def test_one_decision_after_another_reads_anew() -> None:
    """The second start of a batch sees what the first one took."""
    led = Led(guarantee=Guarantee.STRATIFIED, eviction_probability=0.95)
    led.quotes = TenthQuotes()
    led.take(declared("x", 2), replace(declared("y", 2), at_us=DAY_US))
    first, second = led.of(InstanceStarted)
    assert second.basis.slots == first.basis.slots - 1
    assert second.basis.book.earned > first.basis.book.earned
    led.check()


def test_the_rows_of_each_market_stand_together() -> None:
    """Spot instances stand in the first rows and on-demand ones in the last, whatever order they come and go in."""
    cloud, of_each = Cloud(), FIRST_ROWS // 2
    for event in (
        CloudCreated(at_us=0, policy=Policy()),
        NodeAdded(at_us=0, node="n", capacity=Resources(8 * FIRST_ROWS)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    ):
        cloud.apply(event)
    for number in range(of_each):
        cloud.apply(started(f"s{number}", Market.SPOT))
        cloud.apply(started(f"d{number}", Market.ON_DEMAND))
    for name in ("d3", "s5", "s1", "d0"):
        cloud.apply(InstanceStopped(at_us=0, instance_id=name))
    for name, market in (("d3", Market.ON_DEMAND), ("s1", Market.SPOT), ("d0", Market.ON_DEMAND), ("s5", Market.SPOT)):
        cloud.apply(started(name, market))
    taken = sorted(one.row for one in cloud.running.values() if one.market is Market.SPOT)
    assert taken == list(range(of_each))
    assert cloud.machine_count == 2 * of_each == FIRST_ROWS


def test_a_market_that_needs_more_rows_gets_them_although_the_other_has_free_ones() -> None:
    cloud = running(FIRST_ROWS)
    for number in range(FIRST_ROWS):
        cloud.apply(InstanceStopped(at_us=0, instance_id=f"i{number}"))
    assert cloud.machine_count == 0
    cloud.commit()
    digest = cloud.digest()
    for number in range(FIRST_ROWS + 1):
        cloud.apply(started(f"d{number}", Market.ON_DEMAND))
    cloud.apply(started("s", Market.SPOT))
    assert cloud.machine_count == FIRST_ROWS + 2
    cloud.rollback()
    assert (cloud.machine_count, cloud.digest()) == (0, digest)
