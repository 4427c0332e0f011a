"""The life of a job as a strip: when it ran, where its checkpoints and losses lie, in thousandths of the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.clusters.rules.told import CHECKPOINTS, ToldJob

WIDTH = 1000.0
_STOPS = ("job_requeued", "job_ended")


class RunTime(NamedTuple):
    """A time in which the job ran."""

    left: float
    width: float


class Tick(NamedTuple):
    """A moment: `written`, `failed` or `asked` of a checkpoint; `evicted`: a notice; `lost`: it was queued again."""

    left: float
    what: str


class JobStrip(NamedTuple):
    """The strip of a job."""

    job: str
    runs: list[RunTime]
    ticks: list[Tick]


def strip_of(job: ToldJob, begin_us: int, end_us: int) -> JobStrip:
    """Return the part of a job's life that lies in a time."""
    scale = WIDTH / max(end_us - begin_us, 1)

    def place(at_us: int) -> float:
        return min(max((at_us - begin_us) * scale, 0.0), WIDTH)

    runs = [RunTime(place(first), place(last) - place(first)) for first, last in _runs(job, end_us) if last >= begin_us]
    ticks = [Tick(place(at_us), what) for at_us, what in _ticks(job) if begin_us <= at_us <= end_us]
    return JobStrip(job.job, runs, ticks)


def _runs(job: ToldJob, end_us: int) -> Iterator[tuple[int, int]]:
    """Yield from when to when the job ran; one that runs still, until the end."""
    since_us: int | None = None
    for mark in job.marks:
        if since_us is not None and mark.kind in (*_STOPS, "job_started"):
            yield since_us, mark.at_us
            since_us = None
        if mark.kind == "job_started":
            since_us = mark.at_us
    if since_us is not None:
        yield since_us, end_us


def _ticks(job: ToldJob) -> Iterator[tuple[int, str]]:
    for mark in job.marks:
        if mark.kind in CHECKPOINTS:
            yield mark.at_us, CHECKPOINTS[mark.kind]
        elif mark.kind == "node_drain":
            yield mark.at_us, "evicted"
        elif mark.kind == "job_requeued":
            yield mark.at_us, "lost"
