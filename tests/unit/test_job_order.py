"""The order of jobs is kept as they come and go, so that a page of very many costs what is on it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.domain.errors import MarkerInvalid
from app.domain.events import Event, JobEnded, JobRequested, Recorded
from app.domain.jobs import AwayEnd, Federate
from app.domain.times import DAY_US
from app.engine.cloud import Cloud
from app.engine.cloud.joborder import JobOrder
from app.federation.submitting import JobBoard


def asked_at(at_us: int, name: str) -> JobRequested:
    return JobRequested(at_us=at_us, job=name, flavor="c1", count=1, lifetime_us=9, federate=Federate.ONLY)


def ended_at(at_us: int, name: str) -> JobEnded:
    return JobEnded(at_us=at_us, job=name, attempt=0, end=AwayEnd.REJECTED, is_last=True, reason=None)


def board_of(states: list[Cloud], log: list[Event]) -> JobBoard:
    """A board that reads these states one after the other, the last one again and again."""

    async def state(_: str) -> Cloud:
        return states.pop(0) if len(states) > 1 else states[0]

    async def cloud_id(_: str) -> int:
        return 1

    async def of_job(_: int, job: str) -> list[Recorded]:
        return [Recorded(seq, one) for seq, one in enumerate(log, 1) if getattr(one, "job", None) == job]

    async def change(_: str, decide: Any, at_us: int) -> None:
        assert not decide(states[-1], at_us)

    scheduler = SimpleNamespace(state=state, cloud_id=cloud_id, change=change)
    past, nothing = SimpleNamespace(of_job=of_job), cast("Any", None)
    return JobBoard(cast("Any", scheduler), nothing, cast("Any", past), nothing, nothing)


def cloud_of(log: list[Event]) -> Cloud:
    cloud = Cloud()
    for event in log:
        cloud.apply(event)
    return cloud


def test_places_are_in_order_however_they_come_and_go() -> None:
    rng, order, kept = random.Random(5), JobOrder(), set[tuple[int, str]]()
    assert ([*order.after(None)], [*order.after((0, "x"))], [*order.newest()]) == ([], [], [])
    for step in range(12_000):
        place = (step if rng.random() < 0.6 else rng.randrange(12_000), f"j{step}")
        if kept and (rng.random() < 0.3 or step > 8_000):
            leaving = min(kept) if rng.random() < 0.5 else rng.choice([*kept][:50])
            order.leave(leaving)
            kept.remove(leaving)
        if step <= 8_000:
            order.enter(place)
            kept.add(place)
        if step % 500 == 0:
            names = [name for _, name in sorted(kept)]
            assert [*order.after(None)] == names
            assert [*order.newest()] == names[::-1]
            after = rng.choice([*kept, (rng.randrange(12_000), "k")])
            assert [*order.after(after)] == [name for at_us, name in sorted(kept) if (at_us, name) > after]
    assert len(kept) < 3_000


def test_pages_hold_each_job_once_in_the_order_of_submission() -> None:
    log: list[Event] = [asked_at(number // 3, f"j{number}") for number in range(20)]
    names = sorted((f"j{number}" for number in range(20)), key=lambda name: (int(name[1:]) // 3, name))
    board = board_of([cloud_of(log)], log)
    found, marker = list[str](), None
    while len(found) < 20:
        page = asyncio.run(board.page("c", marker, 6))
        assert len(page.items) == min(6, 20 - len(found))
        found += [job.asked.job for job in page.items]
        marker = page.marker
    assert (found, marker) == (names, None)
    assert asyncio.run(board.page("c", None, 20)).marker is None
    jobs, count = asyncio.run(board.newest("c", 3))
    assert ([job.asked.job for job in jobs], count) == (names[:-4:-1], 20)


def test_a_page_goes_on_after_a_job_that_is_forgotten() -> None:
    log: list[Event] = [asked_at(1, "old"), ended_at(2, "old"), asked_at(3, "runs")]
    board, later = board_of([cloud_of(log)], log), 8 * DAY_US
    page = asyncio.run(board.page("c", None, 1))
    assert ([job.asked.job for job in page.items], page.marker) == (["old"], "old")
    log += [asked_at(later, "new")]
    gone = cloud_of(log)
    assert "old" not in gone.jobs.by_id
    page = asyncio.run(board_of([gone], log).page("c", "old", 9))
    assert [job.asked.job for job in page.items] == ["runs", "new"]
    with pytest.raises(MarkerInvalid):
        asyncio.run(board_of([gone], log).page("c", "none", 9))


def test_a_job_that_is_forgotten_while_it_is_cancelled_has_ended() -> None:
    log: list[Event] = [asked_at(1, "old"), ended_at(2, "old")]
    known, gone = cloud_of(log), cloud_of([*log, asked_at(8 * DAY_US, "new")])
    asyncio.run(board_of([known, gone], log).cancel("c", "old", None, 0))


def test_a_page_of_the_most_jobs_is_a_short_slice() -> None:
    asked = asked_at(1, "j")
    cloud, log = Cloud(), list[Event]()
    for number in range(100_000):
        cloud.apply(replace(asked, at_us=number, job=f"j{number}"))
        cloud.commit()
    board, took_s = board_of([cloud], log), list[float]()

    async def read() -> None:
        for _ in range(9):
            began = perf_counter()
            page = await board.page("c", "j50000", 1000)
            took_s.append(perf_counter() - began)
            assert [job.asked.job for job in page.items] == [f"j{number}" for number in range(50_001, 51_001)]

    asyncio.run(read())
    assert min(took_s) < 0.005
