"""The pages of federation: peers with their standing, the jobs of a cloud, and one job with its attempts over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from app.domain.events import RoomHeld
from app.domain.jobs import AttemptKey, AwayEnd, Word
from app.engine.cloud import Cloud, JobRecord, Try, run_name
from app.federation.rules.data import Direction, Transfer
from app.federation.rules.reasons import ToldAttempt, explained
from app.federation.rules.standings import preempted
from app.federation.standings import CloudStanding, PeerStandings
from app.federation.submitting import JobBoard
from app.platform.http.errors import Forbidden
from app.platform.http.reached import reached
from app.platform.pages.rendering import render, render_in_turns
from app.scheduling.scheduler import Scheduler

_JOBS_ON_PAGE, _TRIES_ON_PAGE = 100, 100
_WIDTH = 1000
_LEAST = 4
_MEGABYTE = 10**6


class AttemptStrip(NamedTuple):
    """An attempt on the line of a job's time, in thousandths: when it was offered, awarded and over.

    `awarded` None: never. `data`: how much of its data has come.
    """

    attempt: Try
    offered: float
    awarded: float | None
    over: float
    data: str


class Guest(NamedTuple):
    """An attempt of a peer's job that holds room or runs here. `until_us`: until when it does, at most."""

    key: AttemptKey
    room: RoomHeld
    word: Word
    until_us: int
    instance_id: str


class PeerTruth(NamedTuple):
    """A peer's promise against what happened: the mean that was promised, and the interval of what was preempted."""

    promised: float | None
    lost: int
    of: int
    low: float
    high: float


async def show_peers(request: Request) -> Response:
    """Show all peers with their standing at each cloud."""
    if request.scope["state"]["caller"].cloud is not None:
        raise Forbidden("your token is for one cloud, and peers are of no cloud")
    found = await reached(request, PeerStandings).with_links()
    return await render_in_turns(request, "federation.html", peers=found, truth=truth_of, live="/ui/live")


async def show_jobs(request: Request) -> Response:
    """Show the jobs of a cloud, and those of peers here, the newest first."""
    cloud_name = request.path_params["cloud"]
    jobs, count = await reached(request, JobBoard).newest(cloud_name, _JOBS_ON_PAGE)
    guests = guests_of(await reached(request, Scheduler).state(cloud_name))
    return render(
        request,
        "jobs.html",
        jobs=[(job, status_of(job)) for job in jobs],
        count=count,
        guests=guests[: -_JOBS_ON_PAGE - 1 : -1],
        guest_count=len(guests),
        live=f"/ui/clouds/{cloud_name}/live",
    )


async def show_job(request: Request) -> Response:
    """Show one job, and the attempts to run it at peers on a line of time."""
    cloud_name = request.path_params["cloud"]
    job = await reached(request, JobBoard).show(cloud_name, request.path_params["job"])
    _, now_us = await reached(request, Scheduler).present(cloud_name)
    moved = await reached(request, JobBoard).moved(cloud_name, job.asked.job)
    tries = job.tries[-_TRIES_ON_PAGE:]
    strips = strips_of(tries, now_us, moved)
    data = _megabytes(sum(one.bytes for one in job.asked.inputs)), outputs_of(job)
    return render(
        request,
        "job.html",
        job=job,
        status=status_of(job),
        strips=strips,
        line=line_of(tries, now_us),
        inputs=data[0],
        outputs=data[1],
        told=[*explained(job.reason, job.collected and job.collected.reason, told_of(job.tries, moved))],
        live=f"/ui/clouds/{cloud_name}/live",
    )


def told_of(tries: Sequence[Try], moved: Sequence[Transfer]) -> list[ToldAttempt]:
    """Return a job's attempts as their reasons are told, with what is wrong with their data."""
    faults = {(one.attempt, one.direction): one.fault for one in moved if one.fault is not None}
    return [
        ToldAttempt(
            one.number,
            one.peer,
            one.awarded_us is not None,
            one.outcome,
            one.why,
            faults.get((one.number, Direction.SENT)),
            faults.get((one.number, Direction.OUT)),
        )
        for one in tries
    ]


def guests_of(cloud: Cloud) -> list[Guest]:
    """Return the attempts of peers that hold room or run at a cloud."""
    found = []
    for key in cloud.jobs.host.open_attempts():
        known, room = cloud.jobs.host.attempts[key], cloud.jobs.held[key]
        runs = known.word is Word.RUNNING
        instance_id, until_us = (run_name(key), known.ends_us) if runs else (room.instance_id, known.until_us)
        found.append(Guest(key, room, known.word, until_us, instance_id))
    return found


def status_of(job: JobRecord) -> str:
    """Return how a job ended, or where it stands."""
    if job.away.end is not None:
        return job.away.end.value
    if job.is_native:
        return "running" if job.left else AwayEnd.COMPLETED.value
    return job.away.state.value


def outputs_of(job: JobRecord) -> str:
    """Return what became of a job's outputs, in words."""
    if job.collected is None:
        return "are fetched" if job.is_collecting else ""
    return "fetched" if job.collected.reason is None else f"lost: {job.collected.reason.replace('_', ' ')}"


def data_of(moved: Sequence[Transfer], attempt: int) -> str:
    """Return how much of an attempt's data has come, in words; nothing where it has none."""
    ways = {Direction.SENT: "in", Direction.OUT: "out"}
    found = []
    for way, word in ways.items():
        own = [one for one in moved if (one.attempt, one.direction) == (attempt, way)]
        if own:
            done, whole = sum(one.done_bytes for one in own), sum(one.bytes for one in own)
            faults = [one.fault.replace("_", " ") for one in own if one.fault is not None]
            found.append(", ".join([f"{word} {_megabytes(done)} of {_megabytes(whole)}", *faults[:1]]))
    return "; ".join(found)


def _megabytes(count: int) -> str:
    return f"{count / _MEGABYTE:.1f} MB"


def truth_of(found: CloudStanding) -> PeerTruth:
    """Return what a peer promised to a cloud against what happened."""
    standing = found.standing
    return PeerTruth(standing.promised_ratio, *preempted(standing))


def line_of(tries: Sequence[Try], now_us: int) -> tuple[int, int]:
    """Return the times at which the line of attempts begins and ends: the first offer, and the last end or now."""
    if not tries:
        return now_us, now_us
    return tries[0].offered_us, max(now_us if one.ended_us is None else one.ended_us for one in tries)


def strips_of(tries: Sequence[Try], now_us: int, moved: Sequence[Transfer] = ()) -> list[AttemptStrip]:
    """Return the attempts on a line from the first offer to the last end, or to now."""
    if not tries:
        return []
    begin_us, end_us = line_of(tries, now_us)
    scale = _WIDTH / max(end_us - begin_us, 1)

    def place(at_us: int) -> float:
        return min((at_us - begin_us) * scale, _WIDTH - _LEAST)

    return [
        AttemptStrip(
            one,
            place(one.offered_us),
            None if one.awarded_us is None else place(one.awarded_us),
            max(place(now_us if one.ended_us is None else one.ended_us), place(one.offered_us) + _LEAST),
            data_of(moved, one.number),
        )
        for one in tries
    ]
