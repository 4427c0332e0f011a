"""The lines that a worker logs of a job that failed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent

from app.domain.errors import LogUnavailable
from app.processes.worker import _ended

AWAY, CLOSED = LogUnavailable("away"), LogUnavailable("closed")


def ended(error: BaseException) -> JobExecutionEvent:
    return JobExecutionEvent(EVENT_JOB_ERROR, "take_due", "default", datetime.now(UTC), exception=error)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AWAY, "away"),
        (ExceptionGroup("2 clouds had to be left out", [AWAY, LogUnavailable("away")]), "away"),
        (ExceptionGroup("all", [AWAY, ExceptionGroup("some", [CLOSED])]), "away; closed"),
    ],
)
def test_a_database_that_is_away_takes_one_line(error: Exception, said: str, caplog: pytest.LogCaptureFixture) -> None:
    _ended(ended(error))
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert record.getMessage() == f"the job take_due waits for its next turn: {said}"


def test_any_other_error_is_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    error = ExceptionGroup("2 clouds had to be left out", [AWAY, KeyError("n2")])
    _ended(ended(error))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_job_that_the_workers_end_interrupts_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    _ended(ended(asyncio.CancelledError()))
    assert caplog.records == []
