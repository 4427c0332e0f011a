"""The commands `job submit`, `job list`, `job show` and `job cancel`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import length
from app.domain.inputs import InputError, parse_bytes, parse_duration
from app.domain.jobs import Federate, OnPreempted
from app.domain.times import SECOND_US
from tenure_client import TenureClient, json_of
from tenure_client.forms.jobs import AttemptAnswer, JobAnswer

_COLUMNS = (
    Column("job", 10),
    Column("flavor", 6),
    Column("count", 8, is_number=True),
    Column("lifetime", 4, is_number=True),
    Column("status", 9),
    Column("where", 7),
    Column("attempt", 3, is_number=True),
    Column("why", 2),
)
_TRIES = (
    Column("attempt", 6, is_number=True),
    Column("peer", 7),
    Column("offered", 5),
    Column("awarded", 4),
    Column("reclaimed from", 2),
    Column("ended", 3),
    Column("outcome", 8),
    Column("data", 1),
    Column("why", 4),
)
_REJECTED = 1
_MEGABYTE = 10**6
DataIn = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="KEY:BYTES:SHA256", help="An object that a peer gets a copy of; repeatable."),
]
DataOut = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="KEY:BYTES", help="An object to fetch from a peer, of so many bytes at most."),
]
JobId = Annotated[str, typer.Argument(help="The job's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    job = typer.Typer(help="Jobs: groups of equal instances that run all or none.", no_args_is_help=True)
    example = "Example: tenure job submit --cloud north job-7 --flavor small --count 4 --for 6h"
    job.command("submit", epilog=f"{example}\n\nExit codes: 0 it runs, or peers are asked; 1 rejected.")(
        on_cloud(submit_job)
    )
    job.command("list", epilog="Example: tenure job list --cloud north")(on_cloud(list_jobs))
    job.command("show", epilog="Example: tenure job show --cloud north job-7")(on_cloud(show_job))
    job.command("cancel", epilog="Example: tenure job cancel --cloud north job-7")(on_cloud(cancel_job))
    app.add_typer(job, name="job")


def submit_job(
    client: TenureClient,
    cloud: str,
    job: JobId,
    *,
    flavor: Annotated[str, typer.Option(help="The flavor of its instances.")],
    lifetime: Annotated[str, typer.Option("--for", metavar="TIME", help="The longest that it runs: 6h, 2d.")],
    count: Annotated[int, typer.Option(min=1, help="The number of its instances.")] = 1,
    federate: Annotated[Federate, typer.Option(help="Whether other clouds may run it.")] = Federate.NEVER,
    peer: Annotated[list[str] | None, typer.Option(help="A peer that may be asked; again for the next one.")] = None,
    on_preempted: Annotated[
        OnPreempted, typer.Option(help="What follows when a peer needs its room.")
    ] = OnPreempted.FAIL,
    data_in: DataIn = None,
    data_out: DataOut = None,
    as_json: options.Json = False,
) -> None:
    """Submit a job: all its instances start on demand, or none.

    Submitting it again shows it as it is now.
    """
    lifetime_s = parse_duration(lifetime) / SECOND_US
    inputs = None if data_in is None else [_input(one) for one in data_in]
    outputs = None if data_out is None else [_output(one) for one in data_out]
    with changing(f"job show --cloud {cloud} {job}"):
        answer = client.submit_job(
            cloud,
            job,
            flavor,
            lifetime_s,
            count=count,
            federate=federate,
            peers=peer,
            on_preempted=on_preempted,
            inputs=inputs,
            outputs=outputs,
        )
    _show(answer, as_json=as_json)
    if answer.end == "rejected":
        raise typer.Exit(_REJECTED)


def list_jobs(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """List the jobs in the order of their submission."""
    jobs = [*client.jobs(cloud)]
    if as_json:
        print_json({"jobs": [json_of(job) for job in jobs]})
        return
    print_fitting(STDOUT, _COLUMNS, [_row(job) for job in jobs])


def show_job(client: TenureClient, cloud: str, job: JobId, *, as_json: options.Json = False) -> None:
    """Show a job, and the attempts to run it at other clouds."""
    answer, attempts = client.job(cloud, job), client.attempts(cloud, job)
    if as_json:
        print_json(json_of(answer) | json_of(attempts))
        return
    print_fitting(STDOUT, _COLUMNS, [_row(answer)])
    if attempts.attempts:
        print_fitting(STDOUT, _TRIES, [_try(one) for one in attempts.attempts])
    if answer.outputs_state is not None:
        why = f": {answer.outputs_reason.replace('_', ' ')}" if answer.outputs_reason else ""
        print_text(Text(f"outputs {answer.outputs_state}{why}"))


def cancel_job(client: TenureClient, cloud: str, job: JobId) -> None:
    """Stop all instances of a job. One that runs at a peer has ended once the peer says so."""
    before = client.job(cloud, job)
    with changing(f"job show --cloud {cloud} {job}"):
        client.cancel_job(cloud, job)
    found = client.job(cloud, job)
    if before.end is not None:
        told = f"had ended before: {before.end}"
    elif found.end is None and found.where != "here":
        told = f"is to be cancelled: it ends once {found.where or 'a peer'} says so, or with its lease"
    else:
        told = "is cancelled"
    print_text(Text(f"{job} {told}"))


def _show(answer: JobAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
    else:
        print_fitting(STDOUT, _COLUMNS, [_row(answer)])


def _row(job: JobAnswer) -> list[object]:
    status = job.end or job.status
    count = f"{job.running} of {job.count}" if job.status == "running" else str(job.count)
    where, why = job.where or "-", (job.reason or "-").replace("_", " ")
    return [job.id, job.flavor, count, length(job.lifetime_s), status, where, job.attempt or "-", why]


def _try(one: AttemptAnswer) -> list[object]:
    times = (one.offered_at, one.awarded_at, one.reclaim_at, one.ended_at)
    shown = ["-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}" for time in times]
    why = (one.why or "-").replace("_", " ")
    return [one.attempt, one.peer, *shown, (one.outcome or "under way").replace("_", " "), _data(one), why]


def _data(one: AttemptAnswer) -> str:
    """Return how much has come of the data that is on its way now or was last."""
    moved = one.outputs or one.inputs
    if moved is None:
        return "-"
    word = "out" if one.outputs is not None else "in"
    fault = f", {moved.fault.replace('_', ' ')}" if moved.fault else ""
    return f"{word} {moved.done_bytes / _MEGABYTE:.1f} of {moved.bytes / _MEGABYTE:.1f} MB{fault}"


def _input(text: str) -> tuple[str, int, str]:
    key, size, sha256 = _parts("--input", text, 3)
    return key, parse_bytes("--input", size), sha256


def _output(text: str) -> tuple[str, int]:
    key, size = _parts("--output", text, 2)
    return key, parse_bytes("--output", size)


def _parts(option: str, text: str, count: int) -> list[str]:
    parts = text.split(":")
    if len(parts) != count:
        form = "KEY:BYTES:SHA256" if option == "--input" else "KEY:BYTES"
        raise InputError(f"{option} {text!r}: write {form}")
    return parts
