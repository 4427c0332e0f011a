"""The command `venue advise`: when a job on a machine under a bid should be checkpointed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from app.commands.options import Json, on_service
from app.commands.output import print_json, print_text
from app.commands.pricefiles import time_of
from app.commands.words import length
from app.domain.inputs import InputError, parse_duration
from app.domain.times import SECOND_US, to_datetime
from tenure_client import TenureClient, json_of
from tenure_client.forms.advice import BidAdviceAnswer

_EXAMPLE = "tenure venue advise aws-east --type m3.medium --zone us-east-1e --bid 0.067 --for 6h --pause 30"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise", epilog=f"Example: {_EXAMPLE}")(on_service(advise))


def advise(
    client: TenureClient,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The venue.")],
    *,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="The machine type.")],
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Its zone.")],
    bid: Annotated[float, typer.Option(min=0.0, help="The bid an hour.")],
    lifetime: Annotated[str, typer.Option("--for", metavar="TIME", help="For how long it is wanted: 6h, 2d.")],
    pause: Annotated[str, typer.Option(metavar="TIME", help="How long a checkpoint stops the job.")],
    write: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="the pause", help="After this it is written and counts.")
    ] = None,
    restore: Annotated[str, typer.Option(metavar="TIME", help="How long the job takes to load one.")] = "0",
    age: Annotated[str, typer.Option(metavar="TIME", help="For how long the machine has run.")] = "0",
    at_risk: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="the age", help="The work since the last checkpoint.")
    ] = None,
    notice: Annotated[str, typer.Option(metavar="TIME", help="How long before its end the provider tells.")] = "120",
    product: Annotated[str, typer.Option(help="The system, as the provider names it.")] = "Linux/UNIX",
    at: Annotated[str | None, typer.Option(metavar="TIME", show_default="now", help="Answer as of this time.")] = None,
    as_json: Json = False,
) -> None:
    """Tell when a job on a machine under a bid should be checkpointed, by how such bids fared in the pool's past."""
    told = {"age": age, "notice": notice, "write": write, "restore": restore, "at_risk": at_risk}
    lengths: dict[str, Any] = {
        f"{one}_s": _seconds(f"--{one.replace('_', '-')}", text) for one, text in told.items() if text is not None
    }
    wanted_s, pause_s = _seconds("--for", lifetime), _seconds("--pause", pause)
    at_us = time_of(at, "--at")
    as_of = None if at_us is None else to_datetime(at_us)
    _tell(
        client.venue_checkpoint_advice(name, type_, zone, bid, wanted_s, pause_s, product=product, at=as_of, **lengths),
        as_json=as_json,
    )


def _tell(answer: BidAdviceAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
        return
    print_text(Text(answer.sentence))
    facts = (
        f"the price is {answer.price:g} an hour, the bid {answer.bid:g}; hazard now "
        f"{answer.survival[0].hazard_per_hour:.2g} an hour ({answer.source.replace('_', ' ')})\n"
        f"expected: {answer.expected_overhead:.2%} of the time lost, of that {length(answer.expected_lost_s)} of work; "
        f"{answer.checkpoint_count} checkpoints if nothing happens"
    )
    print_text(Text(facts, style="dim"))


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text) / SECOND_US
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
