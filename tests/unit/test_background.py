"""Background tasks: none dies unseen, and one that keeps failing is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.domain.errors import LogUnavailable, TaskFailing
from app.platform import background as module
from app.platform.background import background, begun, check_background
from app.platform.telemetry.metrics import PROCESS

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.002)


def failing(times: int, error: Exception) -> tuple[Callable[[], Awaitable[None]], asyncio.Event]:
    """A work that fails so many times, and then says so and goes on."""
    left, went_on = times, asyncio.Event()

    async def work() -> None:
        nonlocal left
        if left:
            left -= 1
            raise error
        went_on.set()
        await asyncio.Event().wait()

    return work, went_on


def counted(name: str) -> float:
    return PROCESS.get_sample_value("tenure_task_failures_total", {"task": name}) or 0.0


async def test_a_task_that_fails_is_started_again_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    work, went_on = failing(3, KeyError("n2"))
    async with background(first=work):
        await asyncio.wait_for(went_on.wait(), 5)
        assert counted("first") == 3
        assert "the background task first failed" in caplog.text
        assert "KeyError: 'n2'" in caplog.text, "with the traceback"
        with pytest.raises(TaskFailing, match=r"the background task first keeps failing, .* KeyError: 'n2'"):
            check_background()
    check_background()


async def test_a_task_that_goes_on_for_a_while_has_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEADY_S", 0.2)
    work, went_on = failing(3, KeyError("n2"))
    async with background(second=work):
        await asyncio.wait_for(went_on.wait(), 5)
        await asyncio.sleep(0.3)
        check_background()


async def test_two_failures_are_not_told_of() -> None:
    work, went_on = failing(2, KeyError("n2"))
    async with background(third=work):
        await asyncio.wait_for(went_on.wait(), 5)
        check_background()


async def test_a_lost_database_is_no_failure_of_the_task() -> None:
    work, went_on = failing(5, LogUnavailable("it is gone"))
    async with background(fourth=work):
        await asyncio.wait_for(went_on.wait(), 5)
        assert counted("fourth") == 0
        check_background()


async def test_a_task_that_ends_is_started_again() -> None:
    times = 0

    async def work() -> None:
        nonlocal times
        times += 1

    async with background(fifth=work):
        await asyncio.sleep(0.1)
    assert times > 2


async def test_a_work_that_nobody_awaits_does_not_fail_unseen(caplog: pytest.LogCaptureFixture) -> None:
    work, _ = failing(1, KeyError("n2"))
    task = begun(work(), "sixth")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert counted("sixth") == 1
    assert "the task sixth failed" in caplog.text


async def test_a_cancellation_that_a_library_takes_for_a_failure_ends_the_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun_once = asyncio.Event()

    async def work() -> None:
        begun_once.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise LogUnavailable("closing connection") from None

    async with asyncio.timeout(5):
        async with background(taken=work):
            await begun_once.wait()
    assert caplog.text == ""
