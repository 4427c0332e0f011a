"""The command `cluster policies`: what each policy of checkpoints would have cost a job on recorded prices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import advising, costing, managing, reshaping
from app.commands.fitting import Column, print_fitting
from app.commands.options import Json, Seed
from app.commands.output import STDOUT, print_json, progress_bar
from app.commands.pricefiles import Types, machine_types, time_of, venue_of_file
from app.domain.inputs import InputError, parse_duration
from app.domain.times import DAY_US, SECOND_US

LONGEST_US = 3650 * DAY_US

Prices = Annotated[
    Path, typer.Argument(metavar="PRICES", help="Prices: CSV or AWS' price history as JSON, plain or gzip.")
]
Work = Annotated[str, typer.Option(metavar="TIME", help="The job's work. A bare number means seconds, here and below.")]
Pause = Annotated[str, typer.Option(metavar="TIME", help="How long a checkpoint stops the job.")]
Write = Annotated[str, typer.Option(metavar="TIME", help="After this a checkpoint is written and counts.")]
Recover = Annotated[str, typer.Option(metavar="TIME", help="How long a job takes to load a checkpoint.")]
Boot = Annotated[str, typer.Option(metavar="TIME", help="How long an instance takes to be ready.")]
OnDemandBoot = Annotated[str, typer.Option(metavar="TIME", help="The same of the on-demand machine compared with.")]
Grace = Annotated[str, typer.Option(metavar="TIME", help="The notice before an eviction, which auto goes by.")]
Bid = Annotated[str, typer.Option(metavar="on-demand|4x|DOLLARS", help="The bid: on-demand, a multiple, or dollars.")]
Starts = Annotated[int, typer.Option(min=1, max=100_000, help="Random starts in each pool.")]
StartsFrom = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", show_default="the middle of a pool's prices", help="Starts lie after this."),
]
RunsTo = Annotated[
    str | None, typer.Option("--to", metavar="TIME", show_default="the last price", help="Runs end before this.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    clusters = typer.Typer(help="Clusters: jobs on machines that may be lost.", no_args_is_help=True)
    example = "tenure cluster policies prices.csv.gz --work 53h --write 160 --json"
    clusters.command(epilog=f"Example: {example}")(policies)
    advising.register(clusters)
    managing.register(clusters)
    costing.register(clusters)
    reshaping.register(clusters)
    clusters.callback()(_clusters)
    app.add_typer(clusters, name="cluster")


def _clusters() -> None:
    """Jobs on machines that may be lost."""


def policies(
    prices: Prices,
    *,
    work: Work = "191407",
    pause: Pause = "160",
    write: Write = "160",
    recover: Recover = "74",
    boot: Boot = "672",
    on_demand_boot: OnDemandBoot = "277",
    grace: Grace = "120",
    bid: Bid = "on-demand",
    starts: Starts = 200,
    from_: StartsFrom = None,
    to: RunsTo = None,
    types: Types = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a job from random past moments of each pool under every policy of checkpoints, and tell what it cost."""
    from app.clusters.rules.runs import RunTerms  # noqa: PLC0415 - compiled code is slow to load
    from app.workbench.clusters.comparing import ComparedJob, check_bid, compare_policies  # noqa: PLC0415 - as above

    named = {"--work": work, "--pause": pause, "--write": write, "--recover": recover, "--boot": boot}
    terms = RunTerms(*(_length(option, text) for option, text in named.items()))
    if terms.work_us < SECOND_US:
        raise InputError("--work must be at least a second")
    check_bid(bid)
    others = _length("--on-demand-boot", on_demand_boot), _length("--grace", grace)
    job = ComparedJob(terms, *others, bid, starts, seed)
    span = time_of(from_, "--from"), time_of(to, "--to")
    with progress_bar("comparing policies") as progress:
        answer = compare_policies(venue_of_file(prices), machine_types(types), span, job, progress)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _length(option: str, text: str) -> int:
    """Return the microseconds of an option's length of time."""
    try:
        length_us = parse_duration(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
    if length_us > LONGEST_US:
        raise InputError(f"{option} {text!r} is more than ten years")
    return length_us


def _print(answer: dict[str, dict[str, Any]]) -> None:
    from app.workbench.clusters.comparing import over_all  # noqa: PLC0415 - as above

    rows = over_all(answer)
    columns = [Column("policy", 9), *(Column(name, 5, is_number=True) for name in next(iter(rows.values())))]
    shown = [[name, *(f"{value:.4f}" for value in row.values())] for name, row in rows.items()]
    print_fitting(STDOUT, columns, shown, "all pools, mean over runs")
    columns = [
        Column("pool", 9),
        Column("runs", 4, is_number=True),
        *(Column(name, 5, is_number=True) for name in rows),
    ]
    shown = [
        [pool, str(one["none"]["starts"]), *(_percent(record["overhead_mean"]) for record in one.values())]
        for pool, one in answer.items()
    ]
    print_fitting(STDOUT, columns, shown, "mean overhead")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"
