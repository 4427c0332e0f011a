"""The commands `venue import`, `venue list`, `venue quote` and `venue remove`, on prices in the service's database."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing, was_asked
from app.commands.configuring import DatabaseUrl, DataDir, read_settings, tell_database
from app.commands.fitting import Column, figure, print_fitting
from app.commands.options import on_service
from app.commands.output import STDERR, STDOUT, interruptible, print_json, print_text, waiting
from app.commands.pricefiles import Gaps, machine_types, read_gap_file, tell_refused, time_of
from app.commands.words import length, moment
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US, from_datetime, to_datetime
from app.domain.values import NAME_PATTERN
from tenure_client import TenureClient, json_of
from tenure_client.forms.venues import VenueQuoteAnswer, VenueQuotesAnswer

if TYPE_CHECKING:
    from app.platform.settings import Settings
    from app.processes.import_wiring import ImportedPrices
    from app.venues.rules.history import SilentStretch
    from app.venues.rules.pricefiles import PriceRows
    from app.venues.rules.rates import RevokedBy
    from app.venues.rules.types import MachineType

_NAME = re.compile(NAME_PATTERN)
_NOTHING = "nothing was written"

VenueName = Annotated[str, typer.Argument(metavar="NAME", help="The venue.")]
Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Prices: CSV, Parquet, JSON of AWS, Azure, GCP; gzip, zstd.")
]
Types = Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Machine types and on-demand prices.")]
Lifetime = Annotated[str, typer.Option("--for", metavar="TIME", help="The time that a machine is to live: 6h, 2d.")]
Probability = Annotated[float, typer.Option(help="The share of machines that are to live so long under the bid.")]
Kind = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this machine type.")]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="Only this zone.")]
At = Annotated[str | None, typer.Option(metavar="TIME", show_default="now", help="Answer as of this time.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many pools, the cheapest.")]

RevokedByOption = Annotated[
    str | None,
    typer.Option(
        metavar="price|capacity", show_default="as it was; else price", help="What ends machines of this venue."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    example = "tenure venue import aws-east history.json prices.csv.gz --types types.csv"
    app.command("import", epilog=f"Example: {example}")(import_prices)
    app.command("list", epilog="Example: tenure venue list")(on_service(list_venues))
    example = "tenure venue quote aws-east --for 6h --probability 0.95"
    app.command("quote", epilog=f"Example: {example}")(on_service(quote))
    app.command("remove", epilog="Example: tenure venue remove aws-east")(on_service(remove))


def import_prices(
    name: VenueName,
    files: Files,
    *,
    types: Types = None,
    gaps: Gaps = None,
    revoked_by: RevokedByOption = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: options.Json = False,
) -> None:
    """Add recorded prices to a venue, which is made if it is not there.

    Lines that cannot be taken are refused and told; a file whose form is broken changes nothing. All is written in one
    transaction, and the same prices twice change nothing. The command works on the service's database, with the
    settings of `tenure run`, whether or not the service runs.
    """
    check_name(name)
    if revoked_by not in {None, "price", "capacity"}:
        raise InputError(f"--revoked-by {revoked_by!r} is neither price nor capacity")
    settings = read_settings(data_dir=data_dir, database_url=database_url)
    with interruptible(_NOTHING), waiting("reading"):
        rows, machines, known = _read(files), machine_types(types), read_gap_file(gaps)
    tell_refused(rows)
    tell_database(settings)
    with interruptible(_NOTHING), waiting("writing"):
        done = asyncio.run(_import(settings, name, rows, (machines, known, revoked_by)))
    was_asked("venue list")
    told = _told(rows, done)
    if as_json:
        print_json(told)
    else:
        span = f"{told['first_price_at']} to {told['last_price_at']}"
        line = (
            f"{name}: {told['new']:,} new of {told['read']:,} prices, {told['repeated']:,} known, {told['refused']:,}"
        )
        more = f"{told['other']:,} of other products, {told['rates']:,} rates"
        STDOUT.print(f"{line} refused, {more}; {told['pools']} pools, {span}", highlight=False, soft_wrap=True)


def check_name(name: str) -> None:
    """Raise InputError if it cannot be the name of a venue."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a venue's name: letters, digits, dots, dashes and underscores")


def _read(files: list[Path]) -> PriceRows:
    from app.workbench.venues.opening import read_price_files  # noqa: PLC0415 - compiled code is slow to load

    return read_price_files(files, from_datetime(datetime.now(UTC)))


async def _import(
    settings: Settings,
    name: str,
    rows: PriceRows,
    more: tuple[dict[str, MachineType], list[SilentStretch], str | None],
) -> ImportedPrices:
    from app.processes.import_wiring import open_venue_imports  # noqa: PLC0415 - the service's libraries are slow to load

    types, gaps, revoked_by = more
    async with open_venue_imports(settings) as imports:
        return await imports.run(name, rows, types, gaps, _revoked_by(rows, revoked_by))


def _revoked_by(rows: PriceRows, told: str | None) -> RevokedBy | None:
    """Return what revokes machines, if it is told, or known: of these providers no price ever did."""
    from app.venues.rules.rates import RevokedBy  # noqa: PLC0415 - as above

    if told is not None:
        return RevokedBy(told)
    names = [*rows.rows, *rows.rates]
    return RevokedBy.CAPACITY if all(name.provider in {"azure", "gcp"} for name in names) else None


def _told(rows: PriceRows, done: ImportedPrices) -> dict[str, Any]:
    venue = done.venue
    return {
        "venue": venue.name,
        "read": rows.read_count,
        "new": done.new,
        "repeated": sum(len(at_us) for at_us, _ in rows.rows.values()) - done.new,
        "refused": rows.refused_count,
        "other": rows.other_count,
        "rates": len(rows.rates),
        "refusals": [one._asdict() for one in rows.refused],
        "pools": venue.pool_count,
        "prices": venue.price_count,
        "first_price_at": None if venue.first_us is None else to_datetime(venue.first_us).isoformat(),
        "last_price_at": None if venue.last_us is None else to_datetime(venue.last_us).isoformat(),
    }


def remove(client: TenureClient, name: VenueName) -> None:
    """Remove a venue with its pools, prices and observations, which no other place keeps."""
    with interruptible(f"{name!r} may or may not have been removed"), changing("venue list"):
        client.remove_venue(name)
    STDOUT.print(f"removed {name}", highlight=False)


def list_venues(client: TenureClient, *, as_json: options.Json = False) -> None:
    """List the venues of a running service."""
    venues = [*client.venues()]
    if as_json:
        print_json({"venues": [json_of(venue) for venue in venues]})
        return
    columns = [Column("venue", 9), Column("pools", 5, is_number=True), Column("prices", 4, is_number=True)]
    rows = [
        [one.name, one.pool_count, f"{one.price_count:,}", moment(one.last_price_at), one.currency] for one in venues
    ]
    print_fitting(STDOUT, [*columns, Column("newest price", 7), Column("currency", 2)], rows)


def quote(
    client: TenureClient,
    name: VenueName,
    *,
    lifetime: Lifetime,
    probability: Probability = 0.95,
    type_: Kind = None,
    zone: Zone = None,
    at: At = None,
    limit: Limit = 20,
    as_json: options.Json = False,
) -> None:
    """Ask each pool of a venue for the least bid under which so many machines live so long, and for its usual cost.

    `expected`: the share that is expected to live, by the `source`: counted from past starts (price crossing), by the
    venue's model (learned), by what was observed or the provider tells. `counted`: of past starts under the bid. Where
    these refute what the model expects, the last column says so.
    Price and bid are for an hour, the cost (the usual one of a run that completes) and on demand for the whole time.
    """
    at_us = time_of(at, "--at")
    answer = client.venue_quotes(
        name,
        parse_duration(lifetime) / SECOND_US,
        probability=probability,
        instance_type=type_,
        zone=zone,
        at=None if at_us is None else to_datetime(at_us),
        limit=limit,
    )
    if as_json:
        print_json(json_of(answer))
    else:
        _print_quotes(answer)
        if not answer.pool_count:
            STDERR.print(_no_pool(name, type_, zone), markup=False, highlight=False)
        elif len(answer.quotes) < answer.pool_count:
            STDERR.print(f"and {answer.pool_count - len(answer.quotes)} more pools", highlight=False)
    if all(one.why_not is not None for one in answer.quotes):
        raise typer.Exit(1)


def _print_quotes(answer: VenueQuotesAnswer) -> None:
    asked, currency = length(answer.lifetime_s), answer.currency
    title = f"{answer.venue}, {asked} at {answer.probability:g}, {currency}, as of {answer.as_of:%Y-%m-%d %H:%M} UTC"
    print_fitting(STDOUT, _quote_columns(asked), [_row(one) for one in answer.quotes], title)
    if answer.quotes:
        note = f"price and bid are {currency} an hour, cost and on demand {currency} for the {asked}"
        print_text(Text(note, style="dim"))


def _quote_columns(asked: str) -> list[Column]:
    """Return the columns of quotes for a length of time."""
    return [
        Column("pool", 9),
        Column("price an hour", 6, is_number=True),
        Column("bid an hour", 8, is_number=True),
        Column("expected", 7, is_number=True),
        Column("counted", 5, is_number=True),
        Column("at least", 5, is_number=True),
        Column("windows", 2, is_number=True),
        Column(f"cost of {asked}", 8, is_number=True),
        Column(f"on demand for {asked}", 4, is_number=True),
        Column("source", 3),
        Column("", 8),
    ]


def _no_pool(name: str, type_: str | None, zone: str | None) -> str:
    asked = [f"{word} {value}" for word, value in (("type", type_), ("zone", zone)) if value is not None]
    return f"{name} has no pool of {' in '.join(asked)}" if asked else f"{name} has no pool"


def _row(one: VenueQuoteAnswer) -> list[object]:
    pool = f"{one.zone} {one.instance_type}"
    why = "refuted by counted" if one.refuted else ""
    why = why if one.why_not is None else one.why_not.replace("_", " ")
    numbers = (one.price, one.bid, one.survival, one.counted, one.at_least)
    shown = [figure(value) for value in numbers]
    costs = [figure(value) for value in (one.cost, one.on_demand_cost)]
    return [pool, *shown, one.windows, *costs, (one.source or "-").replace("_", " "), why]
