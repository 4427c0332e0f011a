"""The command `drill`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.commands import options
from app.commands.changing import changing
from app.commands.options import on_cloud
from app.commands.output import INTERRUPTED, STDERR, STDOUT, print_json
from app.commands.words import places
from app.domain.inputs import InputError
from tenure_client import TenureClient, json_of
from tenure_client.forms.answer import Answer
from tenure_client.forms.instances import InstanceAnswer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: tenure drill --cloud north --dry-run")(on_cloud(drill))


def drill(
    client: TenureClient,
    cloud: str,
    instance: Annotated[
        str | None, typer.Argument(metavar="INSTANCE", help="A running spot instance; by default the one started last.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Evict without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the instance that would go; evict none.")] = False,
    as_json: options.Json = False,
) -> None:
    """Evict one spot instance on purpose, to test its consequences. It does not count against the SLA.

    The command names the instance and asks for confirmation. That instance is evicted, or none if it has ended
    meanwhile.
    """
    victim = client.drill_victim(cloud, instance)
    if dry_run:
        _tell(f"would evict {_words(victim)}", victim, as_json=as_json)
        return
    if not yes:
        _ask(cloud, victim)
    with changing(f"explain {victim.id} --cloud {cloud}"):
        evicted = client.drill(cloud, victim.id)
    words = f"evicted {evicted.id} at {evicted.at:%Y-%m-%dT%H:%M:%SZ} (event {evicted.seq}), as a drill"
    _tell(words, evicted, as_json=as_json)


def _ask(cloud: str, victim: InstanceAnswer) -> None:
    """Continue only after a yes."""
    if not sys.stdin.isatty():
        raise InputError(
            f"this would evict {_words(victim)}, in cloud {cloud!r}: there is no terminal to ask on, "
            "so say --yes to evict it, or --dry-run to see it alone"
        )
    try:
        agreed = typer.confirm(f"Evict {_words(victim)}, in cloud {cloud!r}?", err=True)
    except typer.Abort:
        STDERR.print("\nnothing was evicted")
        raise typer.Exit(INTERRUPTED) from None
    if not agreed:
        STDERR.print("nothing was evicted")
        raise typer.Exit(1)


def _words(victim: InstanceAnswer) -> str:
    where = places(victim.node, victim.nodes)
    return f"{victim.id} (flavor {victim.flavor}, on {where}, started {victim.at:%Y-%m-%dT%H:%M:%SZ})"


def _tell(words: str, answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(words, highlight=False, markup=False)
