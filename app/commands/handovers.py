"""The commands `handover list` and `handover confirm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_list
from app.commands.tables import numbers_table
from app.commands.words import places
from tenure_client import TenureClient
from tenure_client.forms.instances import HandoverAnswer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    handovers = typer.Typer(help="Evictions that no controller has confirmed.", no_args_is_help=True)
    common = f"--url {options.LOCAL} --cloud north"
    handovers.command("list", epilog=f"Example: tenure handover list {common}")(on_cloud(list_handovers))
    handovers.command("confirm", epilog=f"Example: tenure handover confirm i-1 {common}")(on_cloud(confirm))
    app.add_typer(handovers, name="handover")


def list_handovers(client: TenureClient, cloud: str, *, as_json: options.Json = False) -> None:
    """List evictions that no controller has confirmed, with their deadlines."""
    print_list("handovers", list(client.handovers(cloud)), _table, as_json=as_json)


def confirm(
    client: TenureClient,
    cloud: str,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="An evicted instance.")],
) -> None:
    """Confirm that an evicted instance is stopped, so that its room is free. Repeating it changes nothing."""
    with changing(f"handover list --cloud {cloud}"):
        client.confirm_handover(cloud, instance)
    STDOUT.print(f"confirmed {instance}", highlight=False)


def _table(found: Sequence[HandoverAnswer]) -> Table:
    table = numbers_table(("instance", "node", "reason", "status", "deadline"), (), "handovers")
    for handover in found:
        overdue = handover.status == "overdue"
        deadline = f"{handover.deadline:%Y-%m-%dT%H:%M:%SZ}"
        table.add_row(
            handover.id,
            places(handover.node, handover.nodes),
            handover.reason,
            handover.status,
            deadline,
            style="red" if overdue else "",
        )
    return table
