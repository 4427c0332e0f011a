"""The outcome of a driven workload, printed."""

from __future__ import annotations

from rich.table import Table

from app.commands.output import STDOUT, print_json
from app.commands.tables import numbers_table, ratio
from app.workbench.tally import DrivenScenario


def print_outcome(outcome: DrivenScenario, *, as_json: bool) -> None:
    """Print a driven workload's outcome: one JSON object, or a table of the papers' metrics and the times."""
    if as_json:
        print_json(outcome.report())
        return
    STDOUT.print(_metrics(outcome))
    times = f"{outcome.wall_s:.1f} s"
    if outcome.forecast_s is not None:
        times += f", of it {outcome.forecast_s:.1f} s in forecasts"
    STDOUT.print(f"{len(outcome.tally.epochs)} epochs; {times}")


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
