"""Forecast runs, the requests to recompute a cloud's quantile table, and the tables that come of them.

pending -> running -> succeeded
                   -> failed -> running (again, after a pause that doubles; five attempts in all)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.domain.values import RunCause


class RunStatus(StrEnum):
    """Where a run stands; see the module's docstring."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """`due_us`: the end of the history to compute from, None for the present; `epoch`: the table that came of it."""

    id: int
    cloud_id: int
    cause: RunCause
    due_us: int | None
    status: RunStatus
    attempts: int
    error: str | None
    epoch: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A published table without its curves. `epoch_us`: the end of its history; `seq`: its log position."""

    epoch: int
    epoch_us: int
    seq: int
    computed_at: datetime
    wall_s: float
