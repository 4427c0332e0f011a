"""The commands `move` and `proposals`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import print_json, print_list, print_text
from app.commands.tables import numbers_table
from tenure_client import TenureClient, json_of
from tenure_client.forms.instances import ProposalAnswer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: tenure move --cloud north i-42 node-7")(on_cloud(move))
    app.command(epilog="Example: tenure proposals --cloud north")(on_cloud(proposals))


def move(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="A running instance, which is no group.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node that it runs on now.")],
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


def proposals(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """Tell which moves would keep the next on-demand starts from evicting spot instances. Nothing is changed."""
    print_list("proposals", client.proposals(cloud).proposals, _table, as_json=as_json)


def _table(found: Sequence[ProposalAnswer]) -> Table:
    table = numbers_table(("room for", "instance", "node", "to"), (), "proposals")
    for proposal in found:
        for move in proposal.moves:
            table.add_row(proposal.flavor, move.id, move.node, move.to)
    return table
