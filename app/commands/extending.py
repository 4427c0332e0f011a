"""The command `extend`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import print_json, print_text
from app.domain.inputs import parse_duration
from app.domain.times import SECOND_US
from tenure_client import TenureClient, json_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: tenure extend --cloud north i-42 --lifetime 12h --dry-run")(on_cloud(extend))


def extend(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="A running spot instance.")],
    *,
    lifetime: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The new lifetime, counted from the instance's start: 90m, 6h; a bare number means seconds.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be decided; change nothing.")] = False,
    as_json: options.Json = False,
) -> None:
    """Promise a running spot instance a longer lifetime. If that is refused, it keeps the promise that it has.

    The exit code is 1 if it is refused.
    """
    lifetime_s = parse_duration(lifetime) / SECOND_US
    if dry_run:
        answer = client.extension_quote(cloud, instance, lifetime_s)
    else:
        with changing(f"explain {instance} --cloud {cloud}"):
            answer = client.extend(cloud, instance, lifetime_s)
    if as_json:
        print_json(json_of(answer))
    else:
        print_text(Text(f"{'If asked for now: ' if dry_run else ''}{answer.sentence}"))
    if not answer.accepted:
        raise typer.Exit(1)
