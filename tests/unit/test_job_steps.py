"""Talks of one cloud that have answers at the same time append them together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from app.engine.cloud import Cloud
from app.federation.messenger import Messenger
from app.federation.rules.awayside import Heard
from app.federation.steps import JobSteps

WHERE = 1, "a"


class NotedMessenger:
    """Notes what is appended together."""

    def __init__(self) -> None:
        self.noted, self.unheard = list[list[str]](), list[str]()

    async def look(self) -> None:
        """Peers are none of its business."""

    def note_unheard(self, _: int, heard: list[Heard]) -> None:
        self.unheard += [one.job for one in heard]

    def note(self, _: int, heard: list[Heard]) -> None:
        self.noted.append([one.job for one in heard])


class FakeStates:
    """States whose appends take a moment. `fails`: the first ones do not reach the log."""

    def __init__(self, fails: int) -> None:
        self.fails = fails

    def appender(self, _: int) -> FakeStates:
        return self

    async def append_decided(self, _: Callable[[Cloud, Any], Awaitable[object]]) -> list[object]:
        await asyncio.sleep(0.01)
        self.fails -= 1
        if self.fails >= 0:
            raise OSError("the log is away")
        return []


def heard(number: int) -> list[Heard]:
    return [Heard(f"job-{number}", "far", 1, None)]


async def appended(messenger: NotedMessenger, fails: int) -> list[object]:
    steps = JobSteps(cast("Any", FakeStates(fails)), cast("Messenger", messenger), lambda: 0)
    return await asyncio.gather(
        *(steps.append(WHERE, "far", heard(number)) for number in range(20)), return_exceptions=True
    )


@pytest.mark.anyio
async def test_what_comes_during_an_append_is_appended_by_the_next_one() -> None:
    messenger = NotedMessenger()
    results = await appended(messenger, 0)
    assert len(messenger.noted) <= 2
    assert sorted(job for batch in messenger.noted for job in batch) == sorted(f"job-{number}" for number in range(20))
    assert results == [0] * 20


@pytest.mark.anyio
async def test_those_who_wait_try_again_what_failed_for_another() -> None:
    messenger = NotedMessenger()
    results = await appended(messenger, 1)
    assert messenger.unheard == messenger.noted[0], "no word of these is in the log"
    assert [type(one) for one in results if one != 0] == [OSError]
    assert {f"job-{number}" for number in range(20)} == {job for batch in messenger.noted[1:] for job in batch}
