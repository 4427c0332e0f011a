"""Files of prices, machine types and gaps on the command line, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.output import STDERR
from app.domain.inputs import InputError
from app.domain.times import from_datetime, time_text

if TYPE_CHECKING:
    from app.venues.rules.history import SilentStretch, VenuePrices
    from app.venues.rules.pricefiles import PriceRows
    from app.venues.rules.types import MachineType

_TOLD_REFUSALS = 5

Types = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", show_default="list prices of 2015", help="Machine types and on-demand prices."),
]
Gaps = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", show_default="what the prices show", help="Times in which nobody collected."),
]


def time_of(text: str | None, option: str) -> int | None:
    """Return the microseconds of a date or of an RFC 3339 time; without a zone it is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        return from_datetime(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InputError(f"{option} {text!r} is no date (2015-06-12) and no RFC 3339 time") from None


def machine_types(path: Path | None) -> dict[str, MachineType]:
    """Return the machine types of a file, none without one."""
    from app.workbench.venues.opening import read_machine_types  # noqa: PLC0415 - compiled code is slow to load

    return read_machine_types(path) if path is not None else {}


def venue_of_file(path: Path, gaps: Path | None = None) -> VenuePrices:
    """Return the prices of a file; what it holds, and which lines are refused, is told on standard error."""
    from app.workbench.venues.opening import read_prices  # noqa: PLC0415 - compiled code is slow to load

    rows = read_prices(path, from_datetime(datetime.now(UTC)))
    venue = rows.venue(read_gap_file(gaps))
    tell_refused(rows)
    first, last, pools = time_text(venue.from_us), time_text(venue.to_us), len(venue.pools)
    told = f"{rows.read_count:,} prices of {pools} pools, {first} to {last}; {len(venue.gaps)} gaps"
    STDERR.print(f"{told}; {rows.refused_count} refused", highlight=False, soft_wrap=True)
    return venue


def read_gap_file(path: Path | None) -> list[SilentStretch]:
    """Return the gaps of a file, none without one."""
    from app.workbench.venues import opening  # noqa: PLC0415 - compiled code is slow to load

    return [] if path is None else opening.read_gap_file(path, from_datetime(datetime.now(UTC)))


def tell_refused(rows: PriceRows) -> None:
    """Tell the first lines that were refused on standard error, and how many more."""
    for one in rows.refused[:_TOLD_REFUSALS]:
        STDERR.print(f"line {one.line}: {one.code}: {one.why}", markup=False, highlight=False, soft_wrap=True)
    if rows.refused_count > _TOLD_REFUSALS:
        STDERR.print(f"and {rows.refused_count - _TOLD_REFUSALS} more lines", highlight=False)
