"""The command `cluster cost`: what the nodes of a cluster cost, from the logs of its clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from app.commands.fitting import Column, print_fitting
from app.commands.options import Json, on_service
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import length
from app.managing.declared import read_cluster
from tenure_client import TenureClient, json_of
from tenure_client.forms.clusters import ClusterCostAnswer, ClusterPoolAnswer

_COLUMNS = (
    Column("pool", 9),
    Column("instances", 5, is_number=True),
    Column("time", 7, is_number=True),
    Column("cost", 9, is_number=True),
    Column("on demand", 8, is_number=True),
)


def register(clusters: typer.Typer) -> None:
    """Add the command."""
    clusters.command(epilog="Example: tenure cluster cost lab")(on_service(cost))


def cost(
    client: TenureClient,
    cluster: Annotated[str, typer.Argument(metavar="FILE|NAME", help="The cluster file, or the cluster's name.")],
    *,
    as_json: Json = False,
) -> None:
    """Add up what a cluster's nodes cost so far, and would have cost on demand, by the service's logs and its prices.

    The service knows the prices once the cluster's manager has run with them.
    """
    is_file = cluster.endswith(".toml") or "/" in cluster or Path(cluster).is_file()
    name = read_cluster(Path(cluster)).name if is_file else cluster
    found = client.cluster_cost(name)
    if as_json:
        print_json(json_of(found))
    else:
        _print(found, {pool.name for pool in client.cluster(name).pools if _is_priced(pool)})


def _is_priced(pool: ClusterPoolAnswer) -> bool:
    return pool.market == "bid" or pool.price_per_hour > 0


def _print(found: ClusterCostAnswer, priced: set[str]) -> None:
    rows = [
        (
            row.pool,
            row.instance_count,
            length(row.used_s),
            money(row.cost) if row.pool in priced else "no price",
            money(row.on_demand_cost),
        )
        for row in found.pools
    ]
    print_fitting(STDOUT, _COLUMNS, rows)
    without = [row.pool for row in found.pools if row.pool not in priced]
    if without:
        pools = ", ".join(without)
        print_text(Text(f"no price is set for {pools}: price_per_hour of a pool in the cluster file says it"))
    if not priced:
        return
    whole = f"in all {money(found.cost)}, on demand {money(found.on_demand_cost)}"
    if found.on_demand_cost and not without:
        whole += f": {1 - found.cost / found.on_demand_cost:.1%} saved"
    print_text(Text(whole))


def money(amount: float | None) -> str:
    """Return an amount to the cent; where it is not known, a dash."""
    return "-" if amount is None else f"{amount:.2f}"
