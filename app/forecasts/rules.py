"""Forecast runs, which are requests to recompute a cloud's quantile table, and the resulting tables.

pending -> running -> succeeded
                   -> failed -> running (again, after a pause that doubles; five attempts in all)

Attempts that the database ended do not count, and are followed by another one at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RunStatus(StrEnum):
    """The state of a run."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """A run. `due_us`: the end of the history to use, None for the present; `epoch`: the resulting table.

    `number` counts the cloud's runs; callers know it alone, because the `id` tells of other clouds' runs too.
    `cause` and `status` are words of `RunCause` and `RunStatus`, or those of a newer version.
    """

    id: int
    cloud_id: int
    cause: str
    due_us: int | None
    status: str
    attempts: int
    error: str | None
    epoch: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    retry_at: datetime | None
    number: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A bucket of samples: the outcomes of virtual instances started at one number of available slots."""

    slots: int
    sample_count: int
    evicted_count: int
    longest_us: int


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A published table without its curves. `epoch_us`: the end of its history; `seq`: its log position."""

    epoch: int
    epoch_us: int
    seq: int
    computed_at: datetime
    wall_s: float
