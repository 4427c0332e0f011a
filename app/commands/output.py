"""How commands show what they do: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from app.commands.tables import numbers_table, ratio
from app.services.tally import Outcome

_PIPED_WIDTH = 1000
STDOUT = Console(soft_wrap=True)
if not STDOUT.is_terminal:
    STDOUT.width = max(STDOUT.width, _PIPED_WIDTH)  # no terminal: nothing is cut short
STDERR = Console(stderr=True)


def print_text(text: Text) -> None:
    """A line or more for people, wrapped between words where there is a terminal."""
    STDOUT.print(text, soft_wrap=not STDOUT.is_terminal)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """One JSON value on a line of its own."""
    STDOUT.file.write(json.dumps(value) + "\n")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to be told how much of how much is done; it draws on a terminal only."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=STDERR, transient=True, disable=not STDERR.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield told


def print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    """The outcome of a driven workload: one JSON object, or the table of the seeds' metrics and the times it took."""
    if as_json:
        print_json(outcome.report())
        return
    STDOUT.print(_metrics(outcome))
    times = f"{outcome.wall_s:.1f} s"
    if outcome.forecast_s is not None:
        times += f", of it {outcome.forecast_s:.1f} s in forecasts"
    STDOUT.print(f"{len(outcome.tally.epochs)} epochs; {times}")


def _metrics(outcome: Outcome) -> Table:
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
