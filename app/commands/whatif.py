"""The command `whatif`: a cloud's own log, decided again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.evaluation import each, parse_guarantee, parse_sla
from app.commands.output import STDERR, STDOUT, print_json, progress_bar
from app.commands.tables import numbers_table, ratio
from app.commands.workloads import (
    budget_named,
    eviction_policy,
    forecast_named,
    placement_named,
    strata_of,
)
from app.domain.events import Recorded
from app.domain.inputs import InputError, parse_duration, parse_nodes, platform_text
from app.domain.times import length_text
from app.domain.values import Guarantee

if TYPE_CHECKING:
    from app.workbench.whatif import Account, Changes, Question

T = TypeVar("T")

_EXAMPLE = (
    f"Example: tenure whatif --url {options.LOCAL} --cloud north --sla 0.01,0.05 --nodes 12x32 --flavor small=large"
)

Log = Annotated[
    Path | None, typer.Option(metavar="FILE.csv", help="In place of a running cloud, a log that was written as CSV.")
]
Nodes = Annotated[list[str] | None, typer.Option(metavar="NxC,...", help="The platform, from the beginning on.")]
Sla = Annotated[list[str] | None, typer.Option(metavar="P,...", help="The cloud's eviction probability; none: no SLA.")]
Guarantees = Annotated[list[str] | None, typer.Option("--guarantee", metavar="stratified,...", help=options.SCOPES)]
Eviction = Annotated[list[str] | None, typer.Option(metavar="yjf,yjf-global", help="The rule that chooses victims.")]
Placements = Annotated[
    list[str] | None,
    typer.Option("--placement", metavar="first-fit,best-fit", help="The node that a start takes, of those with room."),
]
Forecasts = Annotated[
    list[str] | None,
    typer.Option("--forecast", metavar="calibrated,replay", help="The forecast that estimates the risk of a start."),
]
BudgetsTried = Annotated[
    list[str] | None,
    typer.Option("--budget", metavar="instances,core-hours", help="What a budget counts by which starts are admitted."),
]
Strata = Annotated[
    str | None, typer.Option(metavar="TIME,...|none", help="Where the next stratum of a stratified budget begins.")
]
Flavor = Annotated[
    list[str] | None, typer.Option(metavar="OLD=NEW", help="Ask for another flavor, or so many cores, instead.")
]
_AS_RECORDED = "as recorded"
_READING = "reading the log"
WarmUp = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        show_default=_AS_RECORDED,
        help="Time after a cloud's creation without promises.",
    ),
]
Every = Annotated[
    str | None,
    typer.Option(metavar="TIME", show_default=_AS_RECORDED, help="Time between two epochs, that is, tables."),
]
Horizon = Annotated[
    str | None,
    typer.Option(metavar="TIME", show_default=_AS_RECORDED, help="Time for which a replay follows an instance."),
]
MinWindows = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1_000_000,
        show_default=_AS_RECORDED,
        help="The least windows, pieces of evidence, that a promise may rest on.",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(min=0, show_default=_AS_RECORDED, help="Samples of each flavor in an epoch."),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, show_default=_AS_RECORDED, help="Seed of the random moments."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLE)(whatif)


def whatif(
    context: typer.Context,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    log: Log = None,
    nodes: Nodes = None,
    sla: Sla = None,
    guarantee: Guarantees = None,
    eviction: Eviction = None,
    placement: Placements = None,
    forecast: Forecasts = None,
    strata: Strata = None,
    budget: BudgetsTried = None,
    flavor: Flavor = None,
    min_windows: MinWindows = None,
    warm_up: WarmUp = None,
    every: Every = None,
    horizon: Horizon = None,
    samples: Samples = None,
    seed: Seed = None,
    as_json: options.Json = False,
) -> None:
    """Decide a cloud's own log again under another SLA, platform or flavors, and compare.

    Everything that was asked for is asked for again, rejected starts included. Instances end at their recorded stop, or
    at their declared lifetime if they were evicted or rejected. Options that are not given stay as recorded. Several
    values, separated by commas, are tried in every combination. A log that an evaluation wrote needs --nodes.
    """
    from app.workbench.whatif import Question, count_log  # noqa: PLC0415 - compiled code is slow to load

    numbers = {"sample_count": samples, "seed": seed, "min_windows": min_windows}
    settings = _chosen(_settings(warm_up, every, horizon, strata, numbers), placement, forecast, budget)
    changed = _changes(nodes, sla, guarantee, eviction, flavor, settings)
    recorded = _of_cloud(url, token, cloud) if log is None else _of_file(log, context)
    questions = [Question(recorded, changes) for changes in changed]
    answers = _decided(questions)
    _print(count_log(recorded), [_told(question.changes) for question in questions], answers, as_json=as_json)
    _warn_of_a_short_log(recorded, questions)


def _settings(
    warm_up: str | None, every: str | None, horizon: str | None, strata: str | None, numbers: dict[str, int | None]
) -> dict[str, Any]:
    """Return the fields of the policy that are given."""
    durations = {"warm_up_us": warm_up, "recompute_every_us": every, "horizon_us": horizon}
    given = {name: parse_duration(text) for name, text in durations.items() if text is not None}
    for name in ("recompute_every_us", "horizon_us"):
        if given.get(name) == 0:
            raise InputError("--every and --horizon must be above 0")
    if numbers["sample_count"] == 0:
        raise InputError("--samples must be above 0")
    in_strata: dict[str, Any] = {} if strata is None else {"strata_us": strata_of(strata)}
    return given | {name: number for name, number in numbers.items() if number is not None} | in_strata


def _chosen(
    settings: dict[str, Any], placements: list[str] | None, forecasts: list[str] | None, budgets: list[str] | None
) -> list[dict[str, Any]]:
    """Return the settings once for each placement with each forecast and each unit of budgets that are given."""
    choices: dict[str, list[Any]] = {
        "placement": each(placements, placement_named),
        "forecast": each(forecasts, forecast_named),
        "budget": each(budgets, budget_named),
    }
    given = {name: values for name, values in choices.items() if values}
    return [settings | dict(zip(given, chosen, strict=True)) for chosen in product(*given.values())]


def _of_file(log: Path, context: typer.Context) -> list[Recorded]:
    """Return the log of a file. Raises InputError if it is damaged, or if a running cloud is named beside it."""
    from app.workbench.wholelog import read_whole_log  # noqa: PLC0415 - only where it is asked for

    sources = {name: context.get_parameter_source(name) for name in ("url", "token", "cloud")}
    named = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if named:
        raise InputError(f"--log is a log in place of a running cloud's: leave {' and '.join(named)} out, or --log")
    with progress_bar(_READING) as progress:
        return read_whole_log(log, progress)


def _of_cloud(url: str, token: str | None, cloud: str | None) -> list[Recorded]:
    """Return the log of a running cloud."""
    from app.domain.events.wire import of_wire  # noqa: PLC0415 - as above

    found = []
    with connect(url, token) as client, progress_bar(_READING) as progress:
        name = cloud_meant(client, cloud)
        last_seq = client.cloud(name).seq
        for item in client.events(name):
            found.append(of_wire(dict(item.fields)))
            progress(item.seq, last_seq)
    return found


def _decided(questions: Sequence[Question]) -> list[Account]:
    from app.workbench.whatif import ask  # noqa: PLC0415 - compiled code is slow to load

    with progress_bar("deciding again") as progress:
        return ask(questions, progress=progress)


def _changes(
    nodes: list[str] | None,
    sla: list[str] | None,
    guarantee: list[str] | None,
    eviction: list[str] | None,
    flavor: list[str] | None,
    settings: list[dict[str, Any]],
) -> list[Changes]:
    """Return every combination of the given options; one without changes if none is given."""
    from app.workbench.whatif import Changes  # noqa: PLC0415 - compiled code is slow to load

    flavors = dict(each(flavor, _renaming))
    platforms, evictions = _or_as_it_was(each(nodes, parse_nodes)), _or_as_it_was(each(eviction, eviction_policy))
    promises = _promises(each(guarantee, parse_guarantee), each(sla, parse_sla))
    return [
        Changes(platform, probability, promise, victims, flavors, own)
        for platform, victims, own, (promise, probability) in product(platforms, evictions, settings, promises)
    ]


def _promises(guarantees: list[Guarantee], slas: list[float | None]) -> list[tuple[Guarantee | None, float | None]]:
    """Return the SLAs with their guarantees; the baseline, if asked for, comes once."""
    own = _or_as_it_was([sla for sla in slas if sla is not None])
    baseline: list[tuple[Guarantee | None, float | None]] = [(Guarantee.NONE, None)] if None in slas else []
    if baseline and own == [None] and not guarantees:
        return baseline
    return [*baseline, *product(_or_as_it_was(guarantees), own)]


def _or_as_it_was(values: Sequence[T]) -> list[T | None]:
    return [*values] or [None]


def _renaming(text: str) -> tuple[str, str]:
    old, found, new = text.partition("=")
    if not (old and found and new):
        raise InputError(f"--flavor {text!r} is not OLD=NEW")
    return old, new


def _told(changes: Changes) -> dict[str, Any]:
    """Return the changes as JSON values."""
    told: dict[str, Any] = {
        "nodes": platform_text(changes.nodes) if changes.nodes else None,
        "eviction_probability": changes.sla,
        "guarantee": changes.guarantee,
        "eviction_policy": changes.eviction,
        "flavors": dict(changes.flavors) or None,
        **changes.settings,
    }
    return {name: value for name, value in told.items() if value is not None}


def _print(was: Account, asked: Sequence[dict[str, Any]], answers: Sequence[Account], *, as_json: bool) -> None:
    if as_json:
        found = [{"changes": told, **account.report()} for told, account in zip(asked, answers, strict=True)]
        print_json({"was": was.report(), "whatif": found})
        return
    numbers = ("on-demand", "spot", "admitted", "evicted", "in time", "core-h")
    table = numbers_table(("what if",), numbers)
    table.add_row("as it was", *_row(was), end_section=True)
    for told, account in zip(asked, answers, strict=True):
        table.add_row(_words(told), *_row(account))
    STDOUT.print(table)
    STDOUT.print(
        "on-demand and spot: admitted / requested; evicted and, of them, in time (within the declared lifetime): "
        "/ admitted;\ncore-h: core-hours of spot not evicted / requested, by declared lifetimes"
    )


def _warn_of_a_short_log(recorded: Sequence[Recorded], questions: Sequence[Question]) -> None:
    intervals_us = [every_us for question in questions if (every_us := question.every_us) is not None]
    if not intervals_us:
        return
    length, every = length_text(recorded[-1].event.at_us - recorded[0].event.at_us), length_text(max(intervals_us))
    STDERR.print(
        f"note: the log is {length} long, and a table is computed every {every}: all was decided by the first table, "
        "which knows nothing of the log. Try a shorter --every.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _row(account: Account) -> list[str]:
    tally = account.tally
    return [
        ratio(tally.on_demand_admitted, tally.on_demand_requested),
        ratio(tally.spot_admitted, tally.spot_requested),
        f"{tally.spot_admitted}",
        ratio(tally.spot_evicted, tally.spot_admitted),
        ratio(account.evicted_in_time, tally.spot_admitted),
        ratio(tally.completed_core_us, tally.requested_core_us),
    ]


def _words(told: dict[str, Any]) -> str:
    """Return the changes in one line."""
    words = []
    for name in (
        "nodes",
        "guarantee",
        "eviction_probability",
        "eviction_policy",
        "placement",
        "forecast",
        "budget",
        "flavors",
    ):
        value = told.get(name)
        if value is None:
            continue
        if name == "flavors":
            words += [f"{old}={new}" for old, new in value.items()]
        elif name == "eviction_probability":
            words.append(f"SLA {value:g}")
        else:
            words.append("no SLA" if value == Guarantee.NONE else f"{value}".replace("_", "-"))
    return ", ".join(words) or "the same again"
