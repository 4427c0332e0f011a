"""`drill`: evict one spot instance on purpose."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.output import STDOUT, print_json
from tenure_client import json_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: tenure drill --url {options.LOCAL} --cloud north")(drill)


def drill(
    instance: Annotated[
        str | None, typer.Argument(help="A running spot instance; by default the one started last.")
    ] = None,
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Evict one spot instance on purpose, to try out what follows; it does not count against the SLA."""
    with connect(url, token) as client:
        answer = client.drill(cloud_meant(client, cloud), instance)
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(
            f"evicted {answer.id} at {answer.at:%Y-%m-%dT%H:%M:%SZ} (event {answer.seq}), as a drill", highlight=False
        )
