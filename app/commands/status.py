"""The command `status`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import typer
from rich.text import Text

from app.commands import options
from app.commands.connecting import connect
from app.commands.fitting import Column, print_fitting
from app.commands.output import STDOUT, print_json, print_text
from app.commands.words import length, moment, percent, state, used
from tenure_client import Guarantee, TenureClient, json_of
from tenure_client.forms.clouds import CloudAnswer
from tenure_client.forms.nodes import FlavorAnswer, NodeAnswer
from tenure_client.forms.service import CloudReadinessAnswer, ReadinessAnswer

_AHEAD_S = 5.0
"""A log's time that is further ahead of the server's is told."""
_MOST = 200
"""Clouds, nodes and flavors told at most; --json tells as many."""
_NO_CLOUDS = """no clouds yet, or none that this token may see; one with a past is made on the service's machine by

    tenure import north past.csv --nodes 8x4

and an empty one by POST /v1/clouds, as `tenure run` shows when it is ready"""
_CLOUDS = (
    Column("cloud", 9),
    Column("events", 3, is_number=True),
    Column("last event", 2),
    Column("running", 8, is_number=True),
    Column("on-demand", 5, is_number=True),
    Column("spot", 6, is_number=True),
    Column("evicted", 7, is_number=True),
    Column("SLA", 4),
    Column("table", 1),
)
_TABLES = "table: its age is that of the end of its history, by the cloud's clock"
_LEGEND = "evicted: spot instances, also after their declared lifetime; tenure sla counts those within it"
_NODES = (
    Column("node", 9),
    Column("status", 4),
    Column("cores", 9, is_number=True),
    Column("MiB", 3, is_number=True),
    Column("GiB of disk", 2, is_number=True),
)
_FLAVORS = (
    Column("flavor", 9),
    Column("cores", 3, is_number=True),
    Column("MiB", 2, is_number=True),
    Column("GiB of disk", 1, is_number=True),
    Column("more fit", 9, is_number=True),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=f"Example: tenure status --url {options.LOCAL} --cloud north")(status)


def status(
    *,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Show the health of the service, and the requests and running instances of each cloud; for one cloud its nodes
    too.

    The exit code is 1 if the service is not ready.
    """
    with connect(url, token) as client:
        readiness = client.readiness()
        found = _clouds(client, cloud) if readiness.ready else []
        only = found[0].name if len(found) == 1 else None
        nodes = list(islice(client.nodes(only), _MOST)) if only else []
        flavors = list(islice(client.flavors(only), _MOST)) if only else []
    if as_json:
        print_json(_json(url, readiness, found, nodes, flavors))
    else:
        _print(url, readiness, found)
        if only:
            _print_platform(nodes, flavors)
    if not readiness.ready:
        raise typer.Exit(1)


def _clouds(client: TenureClient, cloud: str | None) -> list[CloudAnswer]:
    names = [cloud] if cloud else [found.name for found in islice(client.clouds(), _MOST)]
    return [client.cloud(name) for name in names]


def _json(
    url: str, readiness: ReadinessAnswer, found: list[CloudAnswer], nodes: list[NodeAnswer], flavors: list[FlavorAnswer]
) -> dict[str, Any]:
    tables = {one.name: json_of(one) for one in readiness.clouds}
    return {
        "url": url,
        "ready": readiness.ready,
        "code": readiness.code,
        "database": readiness.database,
        "log": readiness.log,
        "clouds": [{**json_of(one), "table": tables.get(one.name)} for one in found],
        "nodes": [json_of(node) for node in nodes],
        "flavors": [json_of(flavor) for flavor in flavors],
    }


def _print(url: str, readiness: ReadinessAnswer, found: list[CloudAnswer]) -> None:
    well = Text("ready", style="green") if readiness.ready else Text("not ready", style="bold red")
    print_text(Text.assemble(f"Tenure at {url}: ", well, f"; database {readiness.database}; log {readiness.log}"))
    if not readiness.ready:
        return
    if not found:
        print_text(Text(_NO_CLOUDS))
        return
    tables = {one.name: one for one in readiness.clouds}
    STDOUT.print()
    print_fitting(STDOUT, _CLOUDS, [_cloud(one, tables.get(one.name)) for one in found])
    if any(one.counts.spot_evicted for one in found):
        print_text(Text(_LEGEND, style="dim"))
    if any(one.epoch is not None for one in tables.values()):
        print_text(Text(_TABLES, style="dim"))
    for one in readiness.clouds:
        if (one.log_ahead_s or 0) > _AHEAD_S:
            ahead = f"{length(one.log_ahead_s)} ahead of the database's clock"
            print_text(Text(f"{one.name}: its log's time is {ahead}", style="yellow"))


def _cloud(cloud: CloudAnswer, table: CloudReadinessAnswer | None) -> list[object]:
    counts, policy = cloud.counts, cloud.policy
    evicted = Text(f"{counts.spot_evicted}", style="red" if counts.spot_evicted else "")
    scope = "" if policy.guarantee == Guarantee.PER_INSTANCE else f" {policy.guarantee}"
    kept = f"{percent(policy.eviction_probability)}{scope}"
    return [
        cloud.name,
        cloud.seq,
        moment(cloud.at),
        counts.running,
        f"{counts.on_demand_admitted}/{counts.on_demand_requested}",
        f"{counts.spot_admitted}/{counts.spot_requested}",
        evicted,
        "none" if policy.guarantee == Guarantee.NONE else kept,
        "none yet" if table is None or table.epoch is None else f"epoch {table.epoch}, {length(table.table_age_s)} old",
    ]


def _print_platform(nodes: list[NodeAnswer], flavors: list[FlavorAnswer]) -> None:
    STDOUT.print()
    rows = [(node.name, state(node.status), *used(node.free, node.capacity)) for node in nodes]
    print_fitting(STDOUT, _NODES, rows, "Nodes, what is held of what there is")
    STDOUT.print()
    demands = [(f.name, f.cores, f.memory_mib or "-", f.disk_gib or "-", f.available_slots) for f in flavors]
    print_fitting(STDOUT, _FLAVORS, demands, "Flavors")
