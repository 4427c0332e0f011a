"""`quote`: what a start would be promised now."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from app.client.api import TenureClient
from app.commands import options
from app.commands.output import STDOUT, print_json
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
    query: dict[str, str | float] = {}
    if flavor is not None:
        query["flavor"] = flavor
    if probability is not None:
        query["eviction_probability"] = probability
    lifetime_us = None if lifetime is None else parse_duration(lifetime)
    if lifetime_us is not None:
        query["lifetime_s"] = lifetime_us / 1e6
    with TenureClient(url, token) as client:
        answer = client.quotes(cloud, query)
    if as_json:
        print_json(answer)
    else:
        STDOUT.print(_table(answer))
    if lifetime_us is not None and not any(
        (quote["lifetime_s"] or 0) > lifetime_us / 1e6 for quote in answer["quotes"]
    ):
        raise typer.Exit(1)


def _table(answer: dict[str, Any]) -> Table:
    caption = f"epoch {answer['epoch']}, of {answer['epoch_at']}; expires {answer['expires_at']}"
    table = Table("flavor", "slots", "probability", "lifetime", "asked", "its probability", caption=caption)
    for quote in answer["quotes"]:
        table.add_row(
            quote["flavor"],
            str(quote["slots"]),
            f"{quote['eviction_probability']:g}",
            _length(quote["lifetime_s"]),
            _length(quote["asked_lifetime_s"]),
            "-"
            if quote["estimated_eviction_probability"] is None
            else f"{quote['estimated_eviction_probability']:.4g}",
        )
    return table


def _length(seconds: float | None) -> str:
    """A length of time in the unit that suits it."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
