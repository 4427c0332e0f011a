"""`drill`: evict one spot instance on purpose."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.commands import options
from app.commands.connecting import cloud_meant, connect
from app.commands.output import STDERR, STDOUT, print_json
from app.domain.inputs import InputError
from tenure_client import json_of
from tenure_client.forms.answer import Answer
from tenure_client.forms.instances import InstanceAnswer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: tenure drill --cloud north --dry-run")(drill)


def drill(
    instance: Annotated[
        str | None, typer.Argument(help="A running spot instance; by default the one started last.")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Evict without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the instance that would go; evict none.")] = False,
    url: options.Url = options.LOCAL,
    token: options.Token = None,
    cloud: options.Cloud = None,
    as_json: options.Json = False,
) -> None:
    """Evict one spot instance on purpose, to try out what follows; it does not count against the SLA.

    The instance is named, and you are asked. What you say yes to is evicted, or nothing where it has ended meanwhile.
    """
    with connect(url, token) as client:
        name = cloud_meant(client, cloud)
        victim = client.drill_victim(name, instance)
        if dry_run:
            _tell(f"would evict {_words(victim)}", victim, as_json=as_json)
            return
        if not yes:
            _ask(name, victim)
        evicted = client.drill(name, victim.id)
    words = f"evicted {evicted.id} at {evicted.at:%Y-%m-%dT%H:%M:%SZ} (event {evicted.seq}), as a drill"
    _tell(words, evicted, as_json=as_json)


def _ask(cloud: str, victim: InstanceAnswer) -> None:
    """Go on after a yes only."""
    if not sys.stdin.isatty():
        raise InputError(
            f"this would evict {_words(victim)}, in cloud {cloud!r}: there is no terminal to ask on, "
            "so say --yes to evict it, or --dry-run to see it alone"
        )
    if not typer.confirm(f"Evict {_words(victim)}, in cloud {cloud!r}?", err=True):
        STDERR.print("nothing was evicted")
        raise typer.Exit(1)


def _words(victim: InstanceAnswer) -> str:
    return f"{victim.id} (flavor {victim.flavor}, on {victim.node}, started {victim.at:%Y-%m-%dT%H:%M:%SZ})"


def _tell(words: str, answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print_json(json_of(answer))
    else:
        STDOUT.print(words, highlight=False, markup=False)
