"""Tables of several evaluations, and of promises against outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.commands.fitting import Column, print_fitting
from app.commands.words import percent
from app.domain.inputs import platform_text
from app.domain.values import Guarantee
from app.workbench.tally import DrivenScenario

if TYPE_CHECKING:
    from app.workbench.standings import RuleOutcome

JsonObject = Mapping[str, Any]


def numbers_table(names: Sequence[str], numbers: Sequence[str], title: str | None = None) -> Table:
    """Return a table whose last columns hold numbers, aligned to the right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


_CALIBRATION = (
    Column("admitted", 6, is_number=True),
    Column("running", 2, is_number=True),
    Column("evicted", 8, is_number=True),
    Column("promised", 5, is_number=True),
    Column("bound", 1, is_number=True),
    Column("happened", 7, is_number=True),
    Column("between", 4, is_number=True),
)


def matrix_table(outcomes: Sequence[DrivenScenario]) -> Table:
    """Return a table with a row for each evaluation.

    The columns are: the settings that vary; admitted / requested of on-demand and of spot; evicted / admitted;
    completed / requested core-hours; the share used of what the SLA allows; the time it took.
    """
    victims = {str(outcome.scenario.policy.eviction_policy).replace("_", "-") for outcome in outcomes}
    placements = {outcome.scenario.policy.placement for outcome in outcomes}
    rules = [*(["victims"] if len(victims) > 1 else []), *(["placement"] if len(placements) > 1 else [])]
    if len({outcome.scenario.policy.budget for outcome in outcomes}) > 1:
        rules.append("counts")
    names = ("nodes", *rules, "guarantee", "SLA")
    table = numbers_table(names, ("on-demand", "spot", "evicted", "core-h", "budget", "s"))
    for outcome in outcomes:
        varied = _varied(outcome)
        table.add_row(*(varied[name] for name in names), *_ratios(outcome), f"{outcome.wall_s:.0f}")
    return table


MATRIX_LEGEND = (
    "on-demand and spot: admitted / requested; evicted: / admitted; core-h: core-hours of spot completed / requested;\n"
    "budget: evicted / (SLA x admitted)"
)


def _varied(outcome: DrivenScenario) -> dict[str, str]:
    policy = outcome.scenario.policy
    kept = policy.guarantee is not Guarantee.NONE
    return {
        "nodes": platform_text(outcome.scenario.nodes),
        "victims": policy.eviction_policy.replace("_", "-"),
        "placement": policy.placement.replace("_", "-"),
        "guarantee": policy.guarantee.replace("_", "-"),
        "counts": policy.budget.replace("_", "-") if kept else "-",
        "SLA": f"{policy.eviction_probability:g}" if kept else "-",
    }


def _ratios(outcome: DrivenScenario) -> Iterator[str]:
    tally, policy = outcome.tally, outcome.scenario.policy
    yield ratio(tally.on_demand_admitted, tally.on_demand_requested)
    yield ratio(tally.spot_admitted, tally.spot_requested)
    evicted = ratio(tally.spot_evicted, tally.spot_admitted)
    budget = policy.eviction_probability * tally.spot_admitted if policy.guarantee is not Guarantee.NONE else 0
    missed = budget and tally.spot_evicted > budget
    yield f"[bold red]{evicted}[/]" if missed else evicted
    yield ratio(tally.completed_core_us, tally.requested_core_us)
    yield f"{100 * tally.spot_evicted / budget:.0f} %" if budget else "-"


def print_reliability(console: Console, report: JsonObject, title: str, *, by_epoch: bool) -> None:
    """Print tables by class, by estimate, and on request by epoch; `report` is the service's JSON answer."""
    classes = [(percent(line["promised"]), line) for line in report["classes"]]
    _print_calibrations(console, f"{title}: by promise", "class", classes)
    estimates = [
        (f"{percent(line['estimate_from'])} to {percent(line['estimate_to'])}", line) for line in report["estimates"]
    ]
    _print_calibrations(console, f"{title}: by the table's estimate", "estimate", estimates)
    _print_truths(console, report.get("truths", []), title)
    if by_epoch:
        epochs = [(f"{line['epoch'] or '-'}", line) for line in report["epochs"]]
        _print_calibrations(console, f"{title}: by epoch", "epoch", epochs)


_TRUTHS = (
    Column("of", 9),
    Column("cases", 6, is_number=True),
    Column("evicted", 5, is_number=True),
    Column("said and happened", 8, is_words=True),
    Column("beside a constant", 3, is_words=True),
    Column("bound", 2, is_words=True),
)


def _print_truths(console: Console, truths: Sequence[JsonObject], title: str) -> None:
    words = ("sentence", "loss_sentence", "coverage_sentence")
    rows = [[one["name"], one["cases"], one["evicted"], *(one[name] for name in words)] for one in truths]
    if rows:
        print_fitting(console, _TRUTHS, rows, f"{title}: was it true?")


def _print_calibrations(console: Console, title: str, first: str, lines: Sequence[tuple[str, JsonObject]]) -> None:
    rows = [[Text(name), *_calibration(line)] for name, line in lines]
    for line, row in zip((line for _, line in lines), rows, strict=True):
        if line["promised"] is not None and line["low"] > line["promised"]:
            for cell in row:
                cell.stylize("red")
    print_fitting(console, (Column(first, 9), *_CALIBRATION), rows, title)


def _calibration(line: JsonObject) -> list[Text]:
    counts = (str(line[count]) for count in ("admitted", "running", "evicted"))
    shares = (percent(line[share]) for share in ("promised", "bound", "happened"))
    return [Text(value) for value in (*counts, *shares, f"{percent(line['low'])} to {percent(line['high'])}")]


def calibration_table(report: JsonObject, title: str) -> Table:
    """Return a table with a row for each forecast and stratum; `report` holds the followed starts' calibrations."""
    table = numbers_table(
        ("forecast", "lifetime"),
        ("starts", "evicted", "said", "happened", "log loss", "constant's", "AUC"),
        f"{title}: every quoted start, followed to its end",
    )
    for block in (report["calibration"], report["calibration_beside"]):
        if block is not None and block["cases"]:
            rows = {"all": block, **block["strata"]}
            for number, (name, row) in enumerate(rows.items()):
                first = "" if number else block["forecast"]
                counts, shares = (str(row["cases"]), str(row["evicted"])), (row["said"], row["happened"])
                losses = f"{row['log_loss']:.4f}", f"{row['constant_log_loss']:.4f}", _share(row.get("auc"))
                table.add_row(first, name, *counts, *map(_share, shares), *losses)
    return table


CALIBRATION_LEGEND = (
    "said: the mean estimate; happened: the share evicted; constant's: the log loss of the best constant, which is\n"
    "known in hindsight only; AUC: how often an evicted start had a higher estimate than one that was not"
)


def baselines_table(standings: Sequence[RuleOutcome]) -> Table:
    """Return a table with a row for each promise and baseline, platform by platform."""
    several = len({one.victims for one in standings}) > 1
    names = ("nodes", *(["rules"] if several else []), "rule")
    table = numbers_table(names, ("spot", "evicted", "core-h", "lost", "of clairvoyant's"))
    for one in standings:
        tally = one.tally
        place = (one.platform, *([one.victims.replace("_", "-")] if several else []), one.rule)
        table.add_row(
            *place,
            ratio(tally.spot_admitted, tally.spot_requested),
            ratio(tally.spot_evicted, tally.spot_admitted),
            ratio(tally.completed_core_us, tally.requested_core_us),
            ratio(one.lost_core_us(), one.core_us()),
            ratio(tally.completed_core_us, one.best_core_us),
        )
    return table


BASELINES_LEGEND = (
    "admit-all: no SLA; head-room: spot leaves room for 1.2 times the highest on-demand load of the last such\n"
    "lifetime; clairvoyant: knows what comes; lost: core-hours evicted / admitted; of clairvoyant's: core-hours\n"
    "completed / those it completed"
)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def ratio(count: float, of: float) -> str:
    """Return a ratio with four digits; None is a dash."""
    return f"{count / of:.4f}" if of else "-"
