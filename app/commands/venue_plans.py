"""The commands `venue plan`, `venue plans`, `venue outcome` and `venue reliability`."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import typer

from app.commands import options
from app.commands.changing import changing, was_asked
from app.commands.evaluation import each
from app.commands.faulty import in_options
from app.commands.fitting import Column, figure, print_fitting
from app.commands.options import on_service
from app.commands.output import STDERR, STDOUT, print_json
from app.commands.pricefiles import time_of
from app.commands.words import percent
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US, age_text, from_datetime, seconds, to_datetime
from tenure_client import TenureClient, json_of
from tenure_client.forms.plans import PlanAnswer, PlannedJobAnswer, VenueRecordAnswer

_MOST_BYTES = 1_000_000
_NEARLY_SURE = 1.0 - 1e-9
"""A mean of shares that are 1, but for what adding them loses."""
_KNOWN = {
    "jobs": (
        "id", "work_s", "deadline", "deadline_after_s", "on_type", "compute_units", "memory_mib", "value", "penalty",
        "parallelism", "sigma",
    ),
    "rates": ("name", "zone", "price", "on_demand_price", "lost_in_a_month", "compute_units", "memory_mib"),
}  # fmt: skip
"""The columns of files, as the service names the fields of an entry."""
_WORDS = {"id", "on_type", "deadline", "name", "zone"}
_WHOLE = {"memory_mib"}
_ENDS = {"deadline", "deadline_after_s", "value"}
"""Any of these says until when a job may run."""

JobFiles = Annotated[list[Path], typer.Argument(metavar="JOBS...", help="Jobs: CSV or JSON with work_s and deadline.")]
Venues = Annotated[list[str], typer.Option("--venues", metavar="NAME,...", help="Venues whose pools may run them.")]
Clouds = Annotated[
    list[str], typer.Option("--clouds", metavar="CLOUD:FLAVOR[:PRICE],...", help="Own clouds, price per core and hour.")
]
Peers = Annotated[
    list[str], typer.Option("--peers", metavar="PEER:CORES[xMIB][:PRICE],...", help="Clouds of peers, priced likewise.")
]
Rates = Annotated[Path | None, typer.Option(metavar="FILE", help="Machines with a provider's rate: CSV or JSON.")]
Probability = Annotated[float, typer.Option(help="Each first machine lives at least this probably.")]
Deadline = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Of jobs that have none: a time, or how long after the plan's, like 18h."),
]
Checkpoint = Annotated[str | None, typer.Option(metavar="WRITE,READ", help="Times of a checkpoint, like 60s,45s.")]
Launch = Annotated[str, typer.Option(metavar="TIME", help="How long a machine takes to begin.")]
Most = Annotated[int | None, typer.Option("--most-per-pool", min=1, help="The most jobs that begin in one pool.")]
Share = Annotated[float, typer.Option("--zone-share", help="The largest share of jobs that begin in one zone.")]
Risk = Annotated[float | None, typer.Option("--zone-risk", help="The largest probability of a loss in a zone.")]
Budget = Annotated[float | None, typer.Option(help="The largest expected cost of all jobs.")]
At = Annotated[str | None, typer.Option(metavar="TIME", show_default="now", help="Plan as of this time.")]
PlanId = Annotated[str | None, typer.Option("--id", show_default="a new one", help="The plan's name: safe to repeat.")]
Plan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id in the plan.")]
Cost = Annotated[float, typer.Option(min=0, help="What was paid for it.")]
Ended = Annotated[str | None, typer.Option(metavar="TIME", help="When it was done.")]
Failed = Annotated[bool, typer.Option("--failed", help="It was never done.")]
Lost = Annotated[int, typer.Option(min=0, help="Machines that it lost.")]
OnDemand = Annotated[bool, typer.Option("--on-demand", help="It used a machine on demand.")]
VenueName = Annotated[str, typer.Argument(metavar="NAME", help="The venue, or the peer.")]
IsPeer = Annotated[bool, typer.Option("--peer", help="NAME is a peer.")]

_COLUMNS = (
    Column("job", 9),
    Column("where", 9),
    Column("bid an hour", 8, is_number=True),
    Column("checkpoint", 5, is_number=True),
    Column("leave for on-demand at", 7),
    Column("cost", 8, is_number=True),
    Column("50 %", 6, is_number=True),
    Column("95 %", 6, is_number=True),
    Column("on demand", 5, is_number=True),
    Column("in time", 6, is_number=True),
    Column("all spot", 4, is_number=True),
)
_RECORD_COLUMNS = (
    Column("pool", 9),
    Column("jobs", 8, is_number=True),
    Column("promised", 8, is_number=True),
    Column("lived", 8, is_number=True),
    Column("interval", 6),
    Column("said", 5, is_number=True),
    Column("paid", 5, is_number=True),
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    example = "tenure venue plan jobs.csv --venues aws-east --deadline 18h --checkpoint 60s,45s"
    app.command("plan", epilog=f"Example: {example}")(on_service(plan))
    app.command("plans", epilog="Example: tenure venue plans --json")(on_service(list_plans))
    example = "tenure venue outcome nightly-1 render --cost 0.42 --ended 2026-11-28T12:00:00Z"
    app.command("outcome", epilog=f"Example: {example}")(on_service(outcome))
    app.command("reliability", epilog="Example: tenure venue reliability aws-east")(on_service(reliability))


def plan(
    client: TenureClient,
    jobs: JobFiles,
    *,
    venues: Venues = [],  # noqa: B006 - Typer copies it
    clouds: Clouds = [],  # noqa: B006 - as above
    peers: Peers = [],  # noqa: B006 - as above
    rates: Rates = None,
    deadline: Deadline = None,
    probability: Probability = 0.95,
    checkpoint: Checkpoint = None,
    launch: Launch = "0s",
    most_per_pool: Most = None,
    zone_share: Share = 0.6,
    zone_risk: Risk = None,
    budget: Budget = None,
    at: At = None,
    id_: PlanId = None,
    as_json: options.Json = False,
) -> None:
    """Plan jobs: for each the pool, the bid, the checkpoints, the latest moment to go on demand. Nothing is bought."""
    at_us = time_of(at, "--at")
    entries = [one for path in jobs for one in _entries(path, "jobs")]
    told = [] if rates is None else _entries(rates, "rates")
    with changing("venue plans"), in_options(_lines("jobs", entries) | _lines("rates", told)):
        answer = client.make_plan(
            id_ or f"plan-{uuid4().hex[:12]}",
            _with_deadline([one.body for one in entries], deadline),
            **_places(venues, clouds, peers, told),
            probability=probability,
            checkpoint=None if checkpoint is None else _checkpoint(checkpoint),
            launch_s=parse_duration(launch) / SECOND_US,
            most_per_pool=most_per_pool,
            zone_share=zone_share,
            zone_risk=zone_risk,
            budget=budget,
            at=None if at_us is None else to_datetime(at_us),
        )
    _print(answer, as_json=as_json)


def list_plans(client: TenureClient, *, as_json: options.Json = False) -> None:
    """List plans, the newest first."""
    found = [*client.plans()]
    if as_json:
        print_json({"plans": [json_of(one) for one in found]})
        return
    columns = [Column("plan", 9), Column("as of", 7), Column("jobs", 5, is_number=True)]
    rows = [
        [one.id, f"{one.as_of:%Y-%m-%d %H:%M}", one.job_count, figure(one.expected_cost), figure(one.on_demand_cost)]
        for one in found
    ]
    more = [Column("cost", 6, is_number=True), Column("on demand", 4, is_number=True)]
    print_fitting(STDOUT, [*columns, *more], rows)


def outcome(
    client: TenureClient,
    plan: Plan,
    job: Job,
    *,
    cost: Cost,
    ended: Ended = None,
    failed: Failed = False,
    lost: Lost = 0,
    on_demand: OnDemand = False,
    as_json: options.Json = False,
) -> None:
    """Tell what came of a plan's job, so that later plans are calibrated and reliability is shown.

    Either --ended says when it was done, or --failed that it never was.
    """
    if failed == (ended is not None):
        raise InputError("say either --ended TIME, when the job was done, or --failed")
    ended_us = time_of(ended, "--ended")
    ended_at = None if ended_us is None else to_datetime(ended_us)
    answer = client.tell_outcome(plan, job, cost, ended_at=ended_at, lost=lost, on_demand=on_demand)
    was_asked("venue reliability NAME")
    if as_json:
        print_json(json_of(answer))
    else:
        end = "failed" if answer.ended_at is None else f"done at {answer.ended_at:%Y-%m-%d %H:%M} UTC"
        STDOUT.print(
            f"{plan}, {job}: {end}; said {figure(answer.said_cost)}, paid {figure(answer.cost)}", highlight=False
        )


def reliability(client: TenureClient, name: VenueName, *, peer: IsPeer = False, as_json: options.Json = False) -> None:
    """Show how true plans were for the jobs that began in a venue: promised against happened, said against paid."""
    answer = client.peer_reliability(name) if peer else client.venue_reliability(name)
    if as_json:
        print_json(json_of(answer))
        return
    rows = [_record_row(one) for one in [answer.all, *answer.pools]] if answer.all.count else []
    jobs = f"{answer.all.count} job{'' if answer.all.count == 1 else 's'}"
    print_fitting(STDOUT, _RECORD_COLUMNS, rows, f"{name}, first machines and costs of {jobs}")


class _Entry(NamedTuple):
    """An entry of a file, and where it stands there, as people count."""

    place: str
    body: dict[str, Any]


def _entries(path: Path, name: str) -> list[_Entry]:
    """Return the objects of a JSON list (or of an object that holds one), or the rows of a CSV with a header."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: holds more than {_MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    if text.lstrip().startswith(("[", "{")):
        return [_Entry(f"{path}, number {place}", one) for place, one in enumerate(_of_json(path, text, name), 1)]
    rows = csv.DictReader(io.StringIO(text))
    _check_header(path, rows.fieldnames or (), name)
    found = [_Entry(f"{path}, line {rows.line_num}", _of_row(path, rows.line_num, row)) for row in rows]
    if not found:
        raise InputError(f"{path}: holds no {name}")
    return found


def _lines(field: str, entries: Sequence[_Entry]) -> dict[str, str]:
    """Return where the entries stand, by the fields of the request that they become."""
    return {f"{field}.{number}": one.place for number, one in enumerate(entries)}


def _of_json(path: Path, text: str, name: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON: {error}") from error
    found = found.get(name) if isinstance(found, dict) else found
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{path}: expected a list of {name}, each an object")
    return found


def _of_row(path: Path, number: int, row: dict[Any, Any]) -> dict[str, Any]:
    if None in row or None in row.values():
        raise InputError(f"{path}, line {number}: has not as many values as the header")
    return {name: _value(f"{path}, line {number}", name, text) for name, text in row.items() if text != ""}


def _value(place: str, name: str, text: str) -> str | float | int:
    if name in _WORDS:
        return text
    try:
        return int(text) if name in _WHOLE else float(text)
    except ValueError:
        kind = "whole number" if name in _WHOLE else "number"
        raise InputError(f"{place}: {name} {text!r} is no {kind}") from None


def _check_header(path: Path, names: Sequence[str], kind: str) -> None:
    """Raise InputError with the columns that entries do not have."""
    unknown = [name for name in names if name not in _KNOWN[kind]]
    if unknown:
        known = ", ".join(_KNOWN[kind])
        raise InputError(f"{path}, line 1: unknown column {unknown[0]!r}; {kind} have the columns {known}")


def _with_deadline(jobs: list[dict[str, Any]], deadline: str | None) -> list[dict[str, Any]]:
    """Return the jobs with ids and, where they have neither deadline nor value, the one that was given."""
    given = {} if deadline is None else _deadline(deadline)
    return [
        {"id": f"job-{number}", **({} if _ENDS & job.keys() else given), **job} for number, job in enumerate(jobs, 1)
    ]


def _deadline(text: str) -> dict[str, Any]:
    """Return the field of a deadline that is a time, or so long after the plan.

    The service counts from its plan's time: the same words again are the same request.
    """
    try:
        return {"deadline_after_s": seconds(parse_duration(text))}
    except InputError:
        at_us = time_of(text, "--deadline")
        assert at_us is not None
        return {"deadline": to_datetime(at_us).isoformat()}


def _places(venues: list[str], clouds: list[str], peers: list[str], rates: Sequence[_Entry]) -> dict[str, Any]:
    return {
        "venues": each(venues, str),
        "clouds": [_cloud(text) for text in each(clouds, str)],
        "peers": [_peer(text) for text in each(peers, str)],
        "rates": [one.body for one in rates] or None,
    }


def _cloud(text: str) -> dict[str, Any]:
    cloud, _, rest = text.partition(":")
    flavor, _, price = rest.partition(":")
    try:
        if cloud and flavor:
            return {"cloud": cloud, "flavor": flavor, "price_per_core_hour": float(price or 0)}
    except ValueError:
        pass
    raise InputError(f"--clouds {text!r}: write CLOUD:FLAVOR[:PRICE]")


def _peer(text: str) -> dict[str, Any]:
    peer, _, rest = text.partition(":")
    size, _, price = rest.partition(":")
    cores, _, memory = size.partition("x")
    try:
        demand = {"cores": int(cores), "memory_mib": int(memory or 0)}
        return {"peer": peer, **demand, "price_per_core_hour": float(price or 0)}
    except ValueError:
        raise InputError(f"--peers {text!r}: write PEER:CORES[xMIB][:PRICE]") from None


def _checkpoint(text: str) -> dict[str, float]:
    write, _, read = text.partition(",")
    if not read:
        raise InputError(f"--checkpoint {text!r} is no WRITE,READ like 60s,45s")
    return {"write_s": parse_duration(write) / SECOND_US, "read_s": parse_duration(read) / SECOND_US}


def _print(answer: PlanAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
        return
    title = f"{answer.id}, as of {answer.as_of:%Y-%m-%d %H:%M} UTC, {answer.currency or 'costs'}"
    print_fitting(STDOUT, _COLUMNS, [_row(job) for job in answer.jobs], title)
    cost = (
        ""
        if answer.cost is None
        else f"; replays cost {figure(answer.cost.mean)} in the mean, half of them up to {figure(answer.cost.p50)}, "
        f"95 % up to {figure(answer.cost.p95)}"
    )
    fixed = "" if answer.on_demand_cost is None else f"; on demand {figure(answer.on_demand_cost)}"
    STDOUT.print(f"all jobs: expected {figure(answer.expected_cost)}{cost}{fixed}", highlight=False, soft_wrap=True)
    for venue in answer.venues:
        if venue.is_stale:
            when, age = f"{venue.as_of:%Y-%m-%d %H:%M} UTC", from_datetime(answer.as_of) - from_datetime(venue.as_of)
            line = f"{venue.name}: its newest price is of {when}, {age_text(age)} before the plan"
            STDERR.print(line, highlight=False, soft_wrap=True)
    for one in answer.left_out:
        if one.detail is not None:
            line = f"{one.place}, {one.pool}: {one.why.replace('_', ' ')}, {one.detail}"
            STDERR.print(line, markup=False, highlight=False, soft_wrap=True)
    if answer.left_out_count:
        reasons = Counter(one.why.replace("_", " ") for one in answer.left_out)
        told = ", ".join(f"{count} {why}" for why, count in reasons.most_common())
        STDERR.print(f"{answer.left_out_count} pools were left out: {told}", highlight=False, soft_wrap=True)


def _row(job: PlannedJobAnswer) -> list[object]:
    way, fixed = job.ways[0] if job.ways else None, job.on_demand
    where = {"not_at_all": "not at all"}.get(job.runs, "on demand")
    if way is not None:
        where = " ".join(word for word in (way.zone or way.place, way.instance_type) if word)
    leave = fixed.leave_at if fixed is not None and way is not None else None
    every = way.checkpoint_every_s if way is not None else None
    return [
        job.id,
        where,
        figure(way.bid if way is not None else None),
        "-" if every is None else f"{every / 3600:.1f} h",
        "-" if leave is None else f"{leave:%Y-%m-%d %H:%M}",
        figure(job.expected_cost),
        figure(None if job.cost is None else job.cost.p50),
        figure(None if job.cost is None else job.cost.p95),
        figure(None if fixed is None else fixed.cost),
        figure(job.in_time, 3),
        figure(job.all_spot, 3),
    ]


def _record_row(one: VenueRecordAnswer) -> list[object]:
    pool = "all" if one.zone is None else f"{one.zone} {one.instance_type}".strip()
    interval = f"{percent(one.lived_low)} to {percent(one.lived_high)}"
    costs = figure(one.said_cost), figure(one.paid_cost)
    promised = (
        "100 % of past starts" if one.promised is not None and one.promised > _NEARLY_SURE else percent(one.promised)
    )
    return [pool, one.count, promised, percent(one.lived), interval, *costs]
