"""The commands `job submit`, `job list`, `job show`, `job wait` and `job cancel`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import monotonic, sleep
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.connecting import LOCAL, cloud_meant
from app.commands.faulty import in_options
from app.commands.fitting import Column, print_fitting
from app.commands.options import on_cloud
from app.commands.output import STDERR, STDOUT, interruptible, print_json, print_text, waiting
from app.commands.words import guaranteed
from app.domain.inputs import InputError, parse_bytes, parse_duration
from app.domain.jobs import MOST_JOB_INSTANCES, Federate, OnPreempted
from app.domain.times import SECOND_US
from app.federation.rules.reasons import ToldAttempt, explained
from tenure_client import ServiceUnreachable, TenureClient, json_of
from tenure_client.client import TIMEOUT_S
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
_NOT_WELL = 1
_UNDER_WAY = 4
_OPTIONS = {
    "id": "the job's id",
    "peers": "--peer",
    "inputs": "--input",
    "outputs": "--output",
}
_LOOK_S, _LEAST_ANSWER_S = 1.0, 1.0
_GOES_ON = "the job goes on, whoever waits for it"
Peers = Annotated[
    list[str] | None,
    typer.Option("--peer", metavar="PEER", help="A peer that may be asked, with --federate; again for the next one."),
]
DataIn = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="KEY:BYTES:SHA256", help="An object that a peer gets a copy of; repeatable."),
]
DataOut = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="KEY:BYTES", help="An object to fetch from a peer, of so many bytes at most."),
]
WhenPreempted = Annotated[
    OnPreempted,
    typer.Option(
        help="What follows when a peer needs its room, with --federate: it has failed, or it is offered again. It has"
        " three attempts for each peer in all; they follow each other at once, so a single peer without room uses them"
        " up."
    ),
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    job = typer.Typer(help="Jobs: groups of equal instances that run all or none.", no_args_is_help=True)
    example = "Example: tenure job submit --cloud north job-7 --flavor small --count 4 --for 6h"
    job.command("submit", epilog=f"{example}\n\nExit codes: 0 it runs, or peers are asked; 1 rejected.")(
        on_cloud(submit_job)
    )
    job.command("list", epilog="Example: tenure job list --cloud north")(on_cloud(list_jobs))
    job.command("show", epilog="Example: tenure job show --cloud north job-7")(on_cloud(show_job))
    job.command(
        "wait",
        epilog="Example: tenure job wait --cloud north job-7 --up-to 8h\n\n"
        "Exit codes: 0 it completed, and its outputs are here; 1 it ended otherwise; 4 it is under way still.",
    )(wait_for_job)
    job.command("cancel", epilog="Example: tenure job cancel --cloud north job-7")(on_cloud(cancel_job))
    app.add_typer(job, name="job")


def submit_job(
    client: TenureClient,
    cloud: str,
    job: JobId,
    *,
    flavor: Annotated[str, typer.Option(help="The flavor of its instances.")],
    lifetime: Annotated[str, typer.Option("--for", metavar="TIME", help="The longest that it runs: 6h, 2d.")],
    count: Annotated[int, typer.Option(min=1, max=MOST_JOB_INSTANCES, help="The number of its instances.")] = 1,
    federate: Annotated[Federate, typer.Option(help="Whether other clouds may run it.")] = Federate.NEVER,
    peer: Peers = None,
    on_preempted: WhenPreempted = OnPreempted.FAIL,
    data_in: DataIn = None,
    data_out: DataOut = None,
    as_json: options.Json = False,
) -> None:
    """Submit a job: all its instances start on demand, or none.

    Submitting it again shows it as it is now.
    """
    _check_federates(federate, peer, on_preempted)
    lifetime_s = parse_duration(lifetime) / SECOND_US
    with changing(f"job show --cloud {cloud} {job}"), in_options(_OPTIONS):
        answer = client.submit_job(
            cloud,
            job,
            flavor,
            lifetime_s,
            count=count,
            federate=federate,
            peers=peer,
            on_preempted=on_preempted,
            inputs=None if data_in is None else [_input(one) for one in data_in],
            outputs=None if data_out is None else [_output(one) for one in data_out],
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
        why = f": {_words_of(answer.outputs_reason)}" if answer.outputs_reason else ""
        print_text(Text(f"outputs {answer.outputs_state}{why}"))
    _explain(answer, attempts.attempts)


def wait_for_job(
    job: JobId,
    *,
    url: options.Url = LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    up_to: Annotated[str | None, typer.Option(metavar="TIME", help="The longest to wait: 90s, 8h.")] = None,
    retry_for: Annotated[
        str, typer.Option(metavar="TIME", help="Try again for this long if the service does not answer.")
    ] = "10m",
    as_json: options.Json = False,
) -> None:
    """Wait until a job has ended, and what it left at a peer is here or lost; then show it."""
    until_s = inf if up_to is None else monotonic() + parse_duration(up_to) / SECOND_US
    retry_s = parse_duration(retry_for) / SECOND_US
    with interruptible(_GOES_ON), waiting(f"waiting for {job}"):
        try:
            left_s = until_s - monotonic()
            answer = _looked_at(url, token, cloud, job, retry_s, left_s)
            while _is_under_way(answer) and monotonic() < until_s:
                sleep(_LOOK_S)
                left_s = until_s - monotonic()
                answer = _looked_at(url, token, cloud, job, retry_s, left_s)
        except ServiceUnreachable as error:
            error.add_note(_GOES_ON)
            if left_s > retry_s:
                raise
            STDERR.print(f"{error}; {_GOES_ON}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(_UNDER_WAY) from None
    _show(answer, as_json=as_json)
    if _is_under_way(answer):
        raise typer.Exit(_UNDER_WAY)
    if answer.end != "completed" or answer.outputs_state == "lost":
        raise typer.Exit(_NOT_WELL)


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
        _explain(answer)


def _looked_at(url: str, token: str | None, cloud: str | None, job: str, retry_s: float, left_s: float) -> JobAnswer:
    """Return the job as it is now; each question is tried again for so long by itself, not beyond what is left."""
    tried_s, answer_s = max(min(retry_s, left_s), 0.0), min(max(left_s, _LEAST_ANSWER_S), TIMEOUT_S)
    with TenureClient(url, token, retry_s=tried_s, timeout_s=answer_s) as client:
        return client.job(cloud_meant(client, cloud), job)


def _is_under_way(answer: JobAnswer) -> bool:
    return answer.end is None or answer.outputs_state == "collecting"


def _row(job: JobAnswer) -> list[object]:
    status = job.end or f"{job.status}{', cancelled by its user' if job.cancelled else ''}"
    count = f"{job.running} of {job.count}" if job.status == "running" else str(job.count)
    where = job.where or "-"
    return [
        job.id,
        job.flavor,
        count,
        guaranteed(job.lifetime_s),
        status,
        where,
        job.attempt or "-",
        _words_of(job.reason),
    ]


def _try(one: AttemptAnswer) -> list[object]:
    times = (one.offered_at, one.awarded_at, one.reclaim_at, one.ended_at)
    shown = ["-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}" for time in times]
    return [one.attempt, one.peer, *shown, _words_of(one.outcome or "under way"), _data(one), _words_of(one.why)]


def _data(one: AttemptAnswer) -> str:
    """Return how much has come of the data that is on its way now or was last."""
    moved = one.outputs or one.inputs
    if moved is None:
        return "-"
    word = "out" if one.outputs is not None else "in"
    fault = f", {_words_of(moved.fault)}" if moved.fault else ""
    return f"{word} {decimal(moved.done_bytes)} of {decimal(moved.bytes)}{fault}"


def _input(text: str) -> tuple[str, int, str]:
    key, size, sha256 = _parts("--input", text, 3)
    return key, parse_bytes("--input", size), sha256


def _output(text: str) -> tuple[str, int]:
    key, size = _parts("--output", text, 2)
    return key, parse_bytes("--output", size)


def _check_federates(federate: Federate, peers: list[str] | None, on_preempted: OnPreempted) -> None:
    if federate is Federate.NEVER and (peers or on_preempted is not OnPreempted.FAIL):
        raise InputError(
            "--peer and --on-preempted are of jobs that other clouds may run: add --federate allowed or only"
        )


def _explain(job: JobAnswer, attempts: Sequence[AttemptAnswer] | None = None) -> None:
    tried = None if attempts is None else [_told(one) for one in attempts]
    for sentence in explained(job.reason, job.outputs_reason, tried):
        print_text(Text(sentence))


def _told(one: AttemptAnswer) -> ToldAttempt:
    is_awarded = one.awarded_at is not None
    faults = [None if moved is None else moved.fault for moved in (one.inputs, one.outputs)]
    return ToldAttempt(one.attempt, one.peer, is_awarded, one.outcome, one.why, *faults)


def _words_of(reason: str | None) -> str:
    return (reason or "-").replace("_", " ")


def _parts(option: str, text: str, count: int) -> list[str]:
    parts = text.split(":")
    if len(parts) != count:
        form = "KEY:BYTES:SHA256" if option == "--input" else "KEY:BYTES"
        raise InputError(f"{option} {text!r}: write {form}")
    return parts
