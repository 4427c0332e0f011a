"""The command `venue survival`: how long a pool's machines live, under which bids, and which bid a lifetime needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.fitting import Column, figure, print_fitting
from app.commands.options import on_service
from app.commands.output import STDOUT, print_json, print_text
from app.commands.pricefiles import time_of
from app.commands.venue_service import At, VenueName
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US, length_text, to_datetime
from tenure_client import TenureClient, json_of
from tenure_client.forms.venues import PoolAnswer, PoolSurvivalAnswer

_MOST_NAMED = 8
_MOST_BIDS, _MOST_PRICE, _DECIMALS = 4, 100_000.0, 6
_HIGHER_BIDS = (
    "Counted are the starts that a bid could have made. So a higher bid may show a lower survival: it is also counted "
    "over starts at higher prices, which a lower bid could not have made."
)

Kind = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="The pool's machine type.")]
Zone = Annotated[str | None, typer.Option(metavar="ZONE", help="The pool's zone.")]
Product = Annotated[str | None, typer.Option(metavar="NAME", help="What runs on its machines.")]
Bids = Annotated[
    list[float] | None,
    typer.Option("--bid", metavar="PRICE", show_default="the price, twice it, on demand", help="Up to four times."),
]
Lifetime = Annotated[
    str | None, typer.Option("--for", metavar="TIME", show_default="15 min to 7 d", help="This lifetime alone: 6h, 2d.")
]

_COLUMNS = (
    Column("lifetime", 9),
    Column("bid an hour", 9, is_number=True),
    Column("source", 6),
    Column("survival", 9, is_number=True),
    Column("at least", 8, is_number=True),
    Column("windows", 5, is_number=True),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "tenure venue survival aws-east --zone us-east-1a --type c3.xlarge --bid 0.05 --bid 0.21"
    app.command("survival", epilog=f"Example: {example}")(on_service(survival))


def survival(
    client: TenureClient,
    name: VenueName,
    *,
    type_: Kind = None,
    zone: Zone = None,
    product: Product = None,
    bid: Bids = None,
    lifetime: Lifetime = None,
    at: At = None,
    as_json: options.Json = False,
) -> None:
    """Show how many of a pool's machines live by lifetime, with the evidence, and which bid a lifetime needs.

    The options must name one pool of the venue.
    """
    at_us = time_of(at, "--at")
    _check_bids(bid or ())
    pool = _only(name, [*client.pools(name, instance_type=type_, zone=zone)], product)
    answer = client.pool_survival(
        name,
        pool.id,
        bids=bid or (),
        lifetime_s=None if lifetime is None else parse_duration(lifetime) / SECOND_US,
        at=None if at_us is None else to_datetime(at_us),
    )
    if as_json:
        print_json(json_of(answer))
    else:
        _print(answer)
    if answer.why_not is not None:
        raise typer.Exit(1)


def _check_bids(bids: Sequence[float]) -> None:
    """Raise InputError if there are too many, or one is no price."""
    if len(bids) > _MOST_BIDS or not all(0.0 <= one < _MOST_PRICE and round(one, _DECIMALS) == one for one in bids):
        raise InputError(
            "--bid: a price from 0 to below 100000 with at most six decimals, up to four times: --bid 0.05 --bid 0.2"
        )


def _only(venue: str, pools: list[PoolAnswer], product: str | None) -> PoolAnswer:
    """Return the only pool: of several providers the one with the newest price. Raises InputError, which names them."""
    by_age = sorted(pools, key=lambda pool: pool.price_at.timestamp() if pool.price_at else 0.0)
    fit = {f"{one.zone} {one.instance_type} {one.product}": one for one in by_age if product in {None, one.product}}
    if len(fit) == 1:
        return next(iter(fit.values()))
    if not fit:
        raise InputError(f"venue {venue!r} has no such pool")
    named = "; ".join(sorted(fit)[:_MOST_NAMED])
    raise InputError(f"{len(fit)} pools fit; name one with --zone, --type and --product: {named}")


def _print(answer: PoolSurvivalAnswer) -> None:
    pool = f"{answer.pool.zone} {answer.pool.instance_type}"
    title = f"{answer.venue}, {pool}, {answer.currency}, as of {answer.as_of:%Y-%m-%d %H:%M} UTC"
    rows: list[list[object]] = [
        [
            _length(point.lifetime_s),
            figure(curve.bid),
            curve.source.replace("_", " "),
            figure(point.survival),
            figure(point.at_least),
            point.windows,
        ]
        for curve in answer.curves
        for point in curve.points
    ]
    print_fitting(STDOUT, _COLUMNS, rows, title)
    if len({curve.bid for curve in answer.curves}) > 1:
        print_text(Text(_HIGHER_BIDS, style="dim"))
    if answer.why_not is not None:
        STDOUT.print(f"no curve: {answer.why_not.replace('_', ' ')}", highlight=False)
    if answer.least_bids:
        shares = [Column(f"at {one.probability:g}", 8, is_number=True) for one in answer.least_bids]
        lines = [
            [_length(first.lifetime_s), *(figure(one.points[at].bid) for one in answer.least_bids)]
            for at, first in enumerate(answer.least_bids[0].points)
        ]
        title = f"Least bids that reach a survival, {answer.currency} an hour"
        print_fitting(STDOUT, [Column("lifetime", 9), *shares], lines, title)


def _length(seconds: float) -> str:
    return length_text(round(seconds * SECOND_US))
