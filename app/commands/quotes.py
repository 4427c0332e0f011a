"""`quote`: what a start would be promised now."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from app.client.answers import Quotes, json_of
from app.client.api import TenureClient
from app.commands import options
from app.commands.output import STDOUT, print_json
from app.domain.times import SECOND_US, length_text
from app.services.inputs import parse_duration

_EXAMPLE = f"Example: tenure quote --url {options.LOCAL} --cloud north --flavor small --probability 0.05 --lifetime 6h"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLE)(quote)


def quote(
    *,
    url: options.Url,
    token: options.Token = None,
    cloud: options.Cloud,
    flavor: Annotated[str | None, typer.Option(help="Only this flavor.")] = None,
    probability: Annotated[
        float | None, typer.Option(metavar="P", help="Eviction probability, between 0 and 1; by default the cloud's.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ask for this lifetime's probability too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Ask what lifetime is guaranteed at an eviction probability, and how probable an eviction within a lifetime is.

    With --lifetime, the exit code is 1 where no flavor asked for would be accepted for that long.
    """
    lifetime_us = None if lifetime is None else parse_duration(lifetime)
    lifetime_s = None if lifetime_us is None else lifetime_us / SECOND_US
    with TenureClient(url, token, retry_s=options.RETRY_S) as client:
        answer = client.quotes(cloud, flavor=flavor, eviction_probability=probability, lifetime_s=lifetime_s)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(_table(answer))
    if lifetime_s is not None and not any((quote.lifetime_s or 0) > lifetime_s for quote in answer.quotes):
        raise typer.Exit(1)


def _table(answer: Quotes) -> Table:
    caption = f"epoch {answer.epoch}, of {answer.epoch_at}; expires {answer.expires_at}"
    table = Table("flavor", "slots", "probability", "lifetime", "asked", "its probability", caption=caption)
    for quote in answer.quotes:
        estimate = quote.estimated_eviction_probability
        table.add_row(
            quote.flavor,
            str(quote.slots),
            f"{quote.eviction_probability:g}",
            _length(quote.lifetime_s),
            _length(quote.asked_lifetime_s),
            "-" if estimate is None else f"{estimate:.4g}",
        )
    return table


def _length(seconds: float | None) -> str:
    return "-" if seconds is None else length_text(round(seconds * SECOND_US))
