"""The commands `handover list` and `handover confirm`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.output import STDOUT, print_json
from app.commands.tables import numbers_table
from tenure_client import json_of
from tenure_client.forms.instances import HandoverAnswer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    handovers = typer.Typer(help="Evictions that no controller has confirmed.", no_args_is_help=True)
    common = f"--url {options.LOCAL} --cloud north"
    handovers.command("list", epilog=f"Example: tenure handover list {common}")(list_handovers)
    handovers.command("confirm", epilog=f"Example: tenure handover confirm i-1 {common}")(confirm)
    app.add_typer(handovers, name="handover")


def list_handovers(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """List evictions that no controller has confirmed, with their deadlines."""
    with connect(url, token) as client:
        found = list(client.handovers(cloud_meant(client, cloud)))
    if as_json:
        print_json({"handovers": [json_of(handover) for handover in found]})
    else:
        STDOUT.print(_table(found) if found else "no handovers")


def confirm(
    instance: Annotated[str, typer.Argument(help="An evicted instance.")],
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
) -> None:
    """Confirm that an evicted instance is stopped, so that its room is free. Repeating it changes nothing."""
    with connect(url, token) as client:
        client.confirm_handover(cloud_meant(client, cloud), instance)
    STDOUT.print(f"confirmed {instance}", highlight=False)


def _table(found: list[HandoverAnswer]) -> Table:
    table = numbers_table(("instance", "node", "reason", "status", "deadline"), (), "handovers")
    for handover in found:
        overdue = handover.status == "overdue"
        deadline = f"{handover.deadline:%Y-%m-%dT%H:%M:%SZ}"
        table.add_row(
            handover.id, handover.node, handover.reason, handover.status, deadline, style="red" if overdue else ""
        )
    return table
