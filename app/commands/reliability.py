"""The command `reliability`."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import options
from app.commands.options import on_cloud
from app.commands.output import STDOUT, print_json
from app.commands.tables import print_reliability
from tenure_client import TenureClient, json_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: tenure reliability --url {options.LOCAL} --cloud north --by-epoch")(
        on_cloud(reliability)
    )


def reliability(
    client: TenureClient,
    cloud: str,
    *,
    after_seq: Annotated[
        int | None, typer.Option(min=0, help="Look at the log after this event; by default at its newest stretch.")
    ] = None,
    by_epoch: options.ByEpoch = False,
    as_json: options.Json = False,
) -> None:
    """Compare the eviction probabilities that a running cloud promised with what happened."""
    answer = json_of(client.reliability(cloud, after_seq=after_seq))
    if as_json:
        print_json(answer)
        return
    print_reliability(STDOUT, answer, cloud, by_epoch=by_epoch)
    STDOUT.print(f"events {answer['first_seq']} to {answer['last_seq']}, as of {answer['as_of']}", highlight=False)
