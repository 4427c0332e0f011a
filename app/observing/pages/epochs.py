"""The page of epochs and runs: the freshness of quotes, and the work of the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from starlette.requests import Request
from starlette.responses import Response

from app.domain.times import from_datetime, length_text, time_text
from app.domain.values import Guarantee
from app.engine.cloud import Cloud
from app.following.page_watch import PageWatch
from app.forecasts.rules import Run, RunStatus, TableSummary
from app.forecasts.table_reads import TableReads
from app.platform.http.reached import reached
from app.platform.pages.asking import number, server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler

_ON_PAGE = 15
_MOST = 2**31 - 2


@dataclass(frozen=True, slots=True)
class ForecastHealth:
    """The state of the forecasts, in a word and a sentence."""

    word: str
    tone: str
    sentence: str


async def show(request: Request) -> Response:
    """Show the newest tables and runs first."""
    name = request.path_params["cloud"]
    reads = reached(request, TableReads)
    before_epoch, before_run = number(request, "epoch", _MOST), number(request, "run", _MOST)
    missing = []
    if before_epoch is not None and not await _has_epoch(reads, name, before_epoch):
        before_epoch, missing = None, [f"epoch {before_epoch}"]
    if before_run is not None and not await _has_run(reads, name, before_run):
        before_run, missing = None, [*missing, f"run {before_run}"]
    tables = await reads.tables(name, before_epoch, _ON_PAGE)
    runs = await reads.runs(name, before_run, _ON_PAGE)
    newest = (await reads.tables(name, None, 1)).items
    pulse = await reached(request, PageWatch).pulse(name)
    cloud = await reached(request, Scheduler).state(name)
    now = server_time(request)
    return render(
        request,
        "epochs.html",
        tables=tables,
        runs=runs,
        needless=needless(runs.items),
        health=health_of(cloud, newest[0] if newest else None, runs.items if before_run is None else [], now),
        newest=newest[0] if newest else None,
        now=now,
        policy=cloud.policy,
        seq=cloud.seq,
        history_seq=pulse.utilisation_seq or 0,
        missing=missing,
        before_epoch=before_epoch,
        before_run=before_run,
        live=f"/ui/clouds/{name}/live",
    )


async def _has_epoch(reads: TableReads, cloud: str, epoch: int) -> bool:
    return [one.epoch for one in (await reads.tables(cloud, epoch + 1, 1)).items] == [epoch]


async def _has_run(reads: TableReads, cloud: str, run: int) -> bool:
    return [one.number for one in (await reads.runs(cloud, run + 1, 1)).items] == [run]


def needless(runs: Sequence[Run]) -> set[int]:
    """Return the numbers of runs, given newest first, that found the table of an older one and made none."""
    return {newer.number for newer, older in pairwise(runs) if newer.epoch is not None and newer.epoch == older.epoch}


def health_of(cloud: Cloud, newest: TableSummary | None, runs: Sequence[Run], now: datetime) -> ForecastHealth:
    """Return whether decisions rest on a fresh table; if not, since when and why."""
    policy = cloud.policy
    if policy.guarantee is Guarantee.NONE:
        return ForecastHealth("not needed", "", "No SLA is in force, so spot starts are admitted without a table.")
    now_us = cloud.present_us(from_datetime(now))
    ready_us = cloud.created_us + policy.warm_up_us
    failed = runs[0].error if runs and runs[0].status == RunStatus.FAILED else None
    why = f" The newest run failed: {failed}" if failed else ""
    if newest is None:
        if now_us < ready_us:
            return ForecastHealth(
                "warming up", "", f"Spot starts are rejected until {time_text(ready_us)}: no history yet.{why}"
            )
        due_us = policy.first_due_us(cloud.created_us)
        due = "" if due_us is None else f" The first {'is' if now_us < due_us else 'was'} due at {time_text(due_us)}."
        return ForecastHealth("no table", "bad", f"Spot starts are rejected: no table was published yet.{due}{why}")
    age_us = now_us - newest.epoch_us
    age = f"The history behind the newest table ends {length_text(max(0, age_us))} before the cloud's present time"
    limit = length_text(policy.table_max_age_us)
    if age_us > policy.table_max_age_us:
        return ForecastHealth("stale", "bad", f"{age}, more than the {limit} allowed: spot starts are rejected.{why}")
    return ForecastHealth("fresh", "good", f"{age}; up to {limit} is allowed.{why}")
