"""Tables of several evaluations, and of promises against outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

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


def matrix_table(outcomes: Sequence[DrivenScenario]) -> Table:
    """Return a table with a row for each evaluation.

    The columns are: the settings that vary; admitted / requested of on-demand and of spot; evicted / admitted;
    completed / requested core-hours; the share used of what the SLA allows; the time it took.
    """
    victims = {str(outcome.scenario.policy.eviction_policy).replace("_", "-") for outcome in outcomes}
    placements = {outcome.scenario.policy.placement for outcome in outcomes}
    rules = [*(["victims"] if len(victims) > 1 else []), *(["placement"] if len(placements) > 1 else [])]
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
    yield f"{tally.spot_evicted / budget:.0%}" if budget else "-"


def reliability_tables(report: JsonObject, title: str, *, by_epoch: bool) -> Iterator[Table]:
    """Return tables by class, by estimate, and on request by epoch; `report` is the service's JSON answer."""
    classes = [(_share(line["promised"]), line) for line in report["classes"]]
    yield _calibrations(f"{title}: by promise", "class", classes)
    estimates = [(f"{line['estimate_from']:g} to {line['estimate_to']:g}", line) for line in report["estimates"]]
    yield _calibrations(f"{title}: by the table's estimate", "estimate", estimates)
    if by_epoch:
        epochs = [(f"{line['epoch'] or '-'}", line) for line in report["epochs"]]
        yield _calibrations(f"{title}: by epoch", "epoch", epochs)


def _calibrations(title: str, first: str, lines: Iterable[tuple[str, JsonObject]]) -> Table:
    numbers = ("admitted", "running", "evicted", "promised", "bound", "happened", "between")
    table = numbers_table((first,), numbers, title)
    for name, line in lines:
        between = f"{line['low']:.4f}-{line['high']:.4f}"
        counts = (str(line[count]) for count in ("admitted", "running", "evicted"))
        exceeded = line["promised"] is not None and line["low"] > line["promised"]
        table.add_row(
            name,
            *counts,
            *(_share(line[share]) for share in ("promised", "bound", "happened")),
            between,
            style="red" if exceeded else "",
        )
    return table


def calibration_table(report: JsonObject, title: str) -> Table:
    """Return a table with a row for each forecast and stratum; `report` holds the followed starts' calibrations."""
    table = numbers_table(
        ("forecast", "lifetime"),
        ("starts", "evicted", "said", "happened", "log loss", "constant's", "AUC"),
        f"{title}: every quoted start, followed to its end",
    )
    for block in (report["calibration"], report["calibration_beside"]):
        if block is not None:
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
