"""The line before a cloud's log: short submissions and long ones take turns, and none is lost or starved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from app.admission.outcomes import Stopped
from app.domain.requests import StopRequest
from app.scheduling.line import MOST_SHORT, WaitingLine
from app.scheduling.submissions import Submission

Make = Callable[..., Submission]


@pytest.fixture
def make() -> Iterator[Make]:
    loop = asyncio.new_event_loop()
    yield lambda count, at_us=None: Submission([StopRequest("i", at_us)] * count, loop.create_future())
    loop.close()


def test_short_and_long_ones_take_turns(make: Make) -> None:
    line, long, other, short, later = WaitingLine(), make(100), make(100), make(1), make(MOST_SHORT)
    for one in (long, other, short, later):
        line.add(one)
    assert line.count == 201 + MOST_SHORT
    assert line.take(1000) == [short, later]
    assert line.take(50) == [long], "those that are taken share a transaction"
    line.add(short)
    long.add([Stopped("i", changed=True)] * 50)
    line.put_back([long])
    assert (line.take(1000), line.take(1000)) == ([short], [other, long])
    assert (bool(line), line.count) == (False, 0)


def test_a_short_one_that_was_begun_goes_behind_those_that_came_meanwhile(make: Make) -> None:
    """It has had its time. What was taken with it and not begun goes first, as it would have."""
    line, begun, untouched, after = WaitingLine(), make(MOST_SHORT), make(1), make(1)
    for one in (begun, untouched, after):
        line.add(one)
    assert line.take(MOST_SHORT + 1) == [begun, untouched]
    begun.add([Stopped("i", changed=True)])
    line.put_back([begun, untouched])
    assert line.take(1000) == [untouched, after, begun]
    assert line.count == 0


def test_what_is_left_of_a_long_one_waits_its_turn_too(make: Make) -> None:
    line, long, other = WaitingLine(), make(100), make(1)
    line.add(long)
    assert line.take(1000) == [long]
    line.add(other)
    long.add([Stopped("i", changed=True)] * 90)
    line.put_back([long])
    assert line.take(1) == [other]


def test_what_is_left_of_short_ones_and_what_brings_its_time_keeps_its_place(make: Make) -> None:
    line, timed, first, after = WaitingLine(), make(100, 5), make(1), make(1)
    for one in (timed, first, after):
        line.add(one)
    assert line.take(101) == [timed, first]
    line.put_back([timed, first])
    assert line.take(1000) == [timed, first, after]
