"""The command `quote`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.faulty import in_options, options_of
from app.commands.fitting import Column, print_fitting
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import estimated, guaranteed, moment, percent
from app.domain.inputs import InputError, parse_duration, probability_fault
from app.domain.risks import windows_text
from app.domain.times import SECOND_US
from tenure_client import json_of
from tenure_client.forms.forecasts import FlavorQuoteAnswer, QuotesAnswer

_EXAMPLE = f"Example: tenure quote --url {options.LOCAL} --cloud north --flavor small --probability 0.05 --lifetime 6h"

_GUARANTEED = (
    Column("flavor", 9),
    Column("slots", 4, is_number=True),
    Column("promised", 6, is_number=True),
    Column("guaranteed", 9, is_number=True),
)
_BOUND = Column("bound", 8, is_number=True)
_ASKED = (Column("declared", 5, is_number=True), Column("estimate", 7, is_number=True))
_WINDOWS = Column("windows", 3, is_number=True)
_SAMPLES = (Column("samples", 3, is_number=True), Column("ever evicted", 2, is_number=True))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLE)(quote)


def quote(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    flavor: Annotated[str | None, typer.Option(help="Only this flavor.")] = None,
    probability: Annotated[
        str | None, typer.Option(metavar="P", help="Eviction probability, between 0 and 1; by default the cloud's.")
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Ask for this lifetime's probability too: 90m, 6h; a bare number means seconds."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Ask which lifetime is guaranteed at an eviction probability, or how probable an eviction within a lifetime is.

    With --lifetime, the exit code is 1 if no flavor asked for is guaranteed that long. A quote is not the decision: the
    guarantee of the cloud may accept a start beyond its quote, or refuse one within it.
    """
    share = None if probability is None else _share(probability)
    lifetime_us = None if lifetime is None else parse_duration(lifetime)
    lifetime_s = None if lifetime_us is None else lifetime_us / SECOND_US
    with connect(url, token) as client, in_options(options_of(quote)):
        answer = client.quotes(
            cloud_meant(client, cloud), flavor=flavor, eviction_probability=share, lifetime_s=lifetime_s
        )
    if as_json:
        print_json(json_of(answer))
    else:
        _print(answer)
    if lifetime_s is not None and not any(_is_guaranteed(quote) for quote in answer.quotes):
        raise typer.Exit(1)


def _share(text: str) -> float:
    """Return an eviction probability."""
    try:
        share = float(text)
    except ValueError:
        raise InputError(f"--probability {text!r} is not a number between 0 and 1, such as 0.01") from None
    if (fault := probability_fault(share)) is not None:
        raise InputError(f"--probability {text} {fault}")
    return share


def _is_guaranteed(quote: FlavorQuoteAnswer) -> bool:
    """Return True if the asked lifetime is guaranteed: the guaranteed one is longer."""
    return bool(quote.slots) and (quote.lifetime_s or 0) > (quote.asked_lifetime_s or 0)


def _print(answer: QuotesAnswer) -> None:
    asked = any(quote.asked_lifetime_s is not None for quote in answer.quotes)
    sampled = any(quote.evidence for quote in answer.quotes)
    columns = (*_GUARANTEED, *(_ASKED if asked else ()), _BOUND, _WINDOWS, *(_SAMPLES if sampled else ()))
    print_fitting(STDOUT, columns, [row_of(quote, asked=asked)[: len(columns)] for quote in answer.quotes])
    for quote in answer.quotes:
        if quote.displaced_count:
            print_text(Text(_displaced_in_words(quote)))
    if asked:
        print_text(Text(_guaranteed_in_words(answer)))
    of = "declared" if asked else "guaranteed"
    followed = "ever evicted: of the samples, at any time that they were followed, not only within a lifetime\n"
    caption = (
        f"bound: what the history certifies for the {of} lifetime; windows: how many independent pieces of evidence "
        f"that rests on\n{followed if sampled else ''}"
        f"epoch {answer.epoch}, of {moment(answer.epoch_at)} UTC; expires {moment(answer.expires_at)} UTC"
    )
    print_text(Text(caption, style="dim"))


def _guaranteed_in_words(answer: QuotesAnswer) -> str:
    """Say which flavors are guaranteed the lifetime asked for."""
    names = ", ".join(quote.flavor for quote in answer.quotes if _is_guaranteed(quote)) or "no flavor"
    asked_s = next(quote.asked_lifetime_s for quote in answer.quotes if quote.asked_lifetime_s is not None)
    others = "; a start may be accepted beyond its quote, or refused within it"
    has_room = any(quote.slots for quote in answer.quotes)
    return f"guaranteed for {guaranteed(asked_s)}: {names}{others if has_room else ''}"


def _displaced_in_words(quote: FlavorQuoteAnswer) -> str:
    """Say whose room a start would take. It is quoted as if they were gone."""
    them = "an overrunning instance" if quote.displaced_count == 1 else f"{quote.displaced_count} overrunning instances"
    return f"{quote.flavor}: no slot is free; a start would take the room of {them}, and is quoted without"


def row_of(quote: FlavorQuoteAnswer, *, asked: bool) -> list[object]:
    """Return a row of the table. Where there is no room, there is nothing that a bound and its windows would be of."""
    estimate = "no room" if not quote.slots else estimated(quote.estimated_eviction_probability)
    declared = [guaranteed(quote.asked_lifetime_s), estimate] if asked else []
    bound = quote.eviction_probability_bound if asked else quote.lifetime_bound
    windows = quote.windows if asked else quote.lifetime_windows
    return [
        quote.flavor,
        quote.slots,
        percent(quote.eviction_probability),
        guaranteed(quote.lifetime_s) if quote.slots else "no room",
        *declared,
        percent(bound) if quote.slots else "-",
        _windows(windows) if quote.slots else "-",
        sum(bucket.sample_count for bucket in quote.evidence),
        sum(bucket.evicted_count for bucket in quote.evidence),
    ]


def _windows(windows: float | None) -> str:
    return "-" if windows is None else windows_text(windows)
