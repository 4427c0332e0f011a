"""The command `move`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import print_json, print_text
from tenure_client import TenureClient, json_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: tenure move --cloud north i-42 node-7")(on_cloud(move))


def move(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(help="A running instance, which is no group.")],
    node: Annotated[str, typer.Argument(help="The node that it runs on now.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Say that an instance runs on another node now, because you have moved it there. It keeps its promise."""
    with changing(f"explain {instance} --cloud {cloud}"):
        answer = client.move(cloud, instance, node)
    if as_json:
        print_json(json_of(answer))
    elif answer.moved:
        print_text(Text(f"{answer.id} runs on {answer.node} now, and not on {answer.former_node} any more"))
    else:
        print_text(Text(f"{answer.id} ran on {answer.node} already: nothing was to do"))
