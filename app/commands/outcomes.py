"""The outcome of a driven workload, printed."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from app.commands.output import STDOUT, print_json
from app.commands.tables import numbers_table, ratio
from app.workbench.tally import DrivenScenario


def print_outcome(outcome: DrivenScenario, *, as_json: bool) -> None:
    """Print a driven workload's outcome: one JSON object, or the papers' metrics, the verdicts and the times."""
    if as_json:
        print_json(outcome.report())
        return
    from app.workbench.kept import kept_by_lifetime  # noqa: PLC0415 - the intervals' library is slow to load

    STDOUT.print(_metrics(outcome))
    verdicts = list(kept_by_lifetime(outcome))
    widest = max((len(one.of) for one in verdicts), default=0)
    for one in verdicts:
        STDOUT.print(f"{one.of:{widest}}  {one.sentence}", highlight=False, soft_wrap=True)
    times = f"{outcome.wall_s:.1f} s"
    if outcome.forecast_s is not None:
        times += f", of it {outcome.forecast_s:.1f} s in forecasts"
    STDOUT.print(f"{len(outcome.tally.epochs)} epochs; {times}")
    print_left_out(outcome)


def print_left_out(outcome: DrivenScenario) -> None:
    """Print how many spot starts of the trace were not requested; nothing if all were."""
    left_out = outcome.scenario.workload.left_out
    if left_out:
        told = "from the end of the on-demand trace on, left out of those requested"
        STDOUT.print(f"spot starts {told}: {left_out}", highlight=False, soft_wrap=True)


def print_above(outcomes: Mapping[str, DrivenScenario]) -> None:
    """Print where more was evicted than promised, evaluation by evaluation; nothing if none of them promised."""
    from app.workbench.kept import kept_by_lifetime  # noqa: PLC0415 - as above

    judged = [(name, kept) for name, one in outcomes.items() for kept in kept_by_lifetime(one)]
    above = [(name, kept) for name, kept in judged if kept.is_above]
    if judged:
        STDOUT.print(f"declared lifetimes of which more was evicted than promised:{'' if above else ' none'}")
    for name, kept in above:
        STDOUT.print(f"{name}, {kept.of}: {kept.sentence}", highlight=False, soft_wrap=True)


def _metrics(outcome: DrivenScenario) -> Table:
    tally, hour_us = outcome.tally, 3_600_000_000
    table = numbers_table(("metric",), ("count", "of", "ratio"))
    rows = (
        ("on-demand admitted / requested", tally.on_demand_admitted, tally.on_demand_requested),
        ("spot admitted / requested", tally.spot_admitted, tally.spot_requested),
        ("spot evicted / admitted", tally.spot_evicted, tally.spot_admitted),
        ("spot completed / admitted", tally.spot_completed, tally.spot_admitted),
    )
    for name, count, of in rows:
        table.add_row(name, str(count), str(of), ratio(count, of))
    done, asked = tally.completed_core_us, tally.requested_core_us
    table.add_row(
        "spot core-hours completed / requested", f"{done / hour_us:.1f}", f"{asked / hour_us:.1f}", ratio(done, asked)
    )
    return table
