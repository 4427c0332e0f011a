"""The commands `audit` and `log export`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.commands import options
from app.commands.keeping import telling_kept
from app.commands.options import on_cloud
from app.commands.output import STDOUT, interruptible, print_json, progress_bar
from app.commands.workloads import eviction_policy, writing
from app.domain.inputs import InputError, parse_nodes
from app.domain.names import node_name
from app.workbench.audit import Audit, Totals, audit
from app.workbench.export import export_log
from app.workbench.logcsv import read_log
from tenure_client import TenureClient


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit", epilog="Example: tenure audit log.csv --nodes 31x32")(audit_log)
    log = typer.Typer(help="A running cloud's event log.", no_args_is_help=True)
    log.command(epilog=f"Example: tenure log export --url {options.LOCAL} --cloud c-d --out log.csv")(on_cloud(export))
    app.add_typer(log, name="log")


def audit_log(
    file: Annotated[Path, typer.Argument(metavar="LOG.csv", help="A log that evaluate or log export wrote.")],
    *,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="NxC",
            help="The platform; a log from the cloud's beginning, or that adds its nodes itself, goes before it.",
        ),
    ] = None,
    eviction: Annotated[
        str, typer.Option(metavar="auto|yjf|yjf-global", help="The rule that had to choose victims.")
    ] = "auto",
    as_json: options.Json = False,
) -> None:
    """Check a log against the rules that never break. Name the first event that breaks one, and exit with 1."""
    rows = list(read_log(file))
    platform = [(node_name(index), capacity) for index, capacity in enumerate(parse_nodes(nodes) if nodes else ())]
    is_whole = [(row.seq, row.kind) for row in rows[:1]] == [(1, "cloud_created")]
    if is_whole or any(row.kind == "node_added" for row in rows):
        platform = []
    elif not platform:
        raise InputError(f"{file}: the log adds no nodes; give the platform with --nodes")
    found = audit(rows, platform, None if eviction == "auto" else eviction_policy(eviction))
    _print(found, as_json=as_json)
    if found.finding is not None:
        raise typer.Exit(1)


def _print(found: Audit, *, as_json: bool) -> None:
    finding = found.finding
    if as_json:
        broken = {"seq": finding.seq, "rule": int(finding.rule), "why": finding.why} if finding else None
        print_json(
            {"ok": finding is None, "events": found.event_count, "finding": broken, "totals": _totals(found.totals)}
        )
    elif finding is None:
        STDOUT.print(f"{found.event_count} events: no rule is broken", highlight=False)
        if found.totals is not None:
            STDOUT.print(_in_words(found.totals), highlight=False)
    else:
        STDOUT.print(
            f"event {finding.seq} breaks rule {int(finding.rule)}: {finding.why}", highlight=False, markup=False
        )


def _totals(totals: Totals | None) -> dict[str, object] | None:
    """Return the totals as one JSON object; classes as a list, since a probability is no name."""
    if totals is None:
        return None
    classes = [{"promised": p, "admitted": some, "evicted": lost} for p, (some, lost) in totals.classes.items()]
    return {**asdict(totals), "classes": classes}


def _in_words(totals: Totals) -> str:
    lines = [
        f"{market.replace('_', '-')}: {totals.admitted[market]} of {asked} admitted, {totals.running[market]} running"
        f" on {totals.used_cores[market]} of {totals.capacity_cores} cores"
        for market, asked in totals.requested.items()
    ]
    classes = [f"{lost} of {some} promised {p}" for p, (some, lost) in totals.classes.items()]
    return "\n".join([*lines, f"evicted: {totals.evicted}" + (f" ({', '.join(classes)})" if classes else "")])


def export(client: TenureClient, cloud: str, *, out: options.Out = None, overwrite: options.Overwrite = False) -> None:
    """Write a running cloud's whole event log as CSV."""
    client.cloud(cloud)  # before the file is touched: the service answers and has the cloud
    with (
        interruptible("the log is not whole") if out is None else telling_kept([out]),
        writing(out, overwrite=overwrite) as file,
        progress_bar("exporting") as progress,
    ):
        export_log(client, cloud, file or sys.stdout, progress=progress)
