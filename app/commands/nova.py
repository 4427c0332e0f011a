"""The commands `nova`: a real OpenStack cloud whose Nova sells its spare capacity with Tenure."""

from __future__ import annotations

import typer

from app.commands.nova_daemon import run
from app.commands.nova_setup import check, enable
from app.commands.novaexport import export


def register(app: typer.Typer) -> None:
    """Add the commands."""
    nova = typer.Typer(help="OpenStack's Nova: spare capacity sold with Tenure.", no_args_is_help=True)
    nova.callback()(_nova)
    nova.command(epilog="Example: tenure nova run --cloud north --brokers rabbit://tenure:secret@broker:5672/")(run)
    nova.command(epilog="Example: tenure nova enable --cloud north --lifetime 2h --write nova-files")(enable)
    nova.command(epilog="Example: tenure nova check --nova-conf /etc/nova/nova.conf --json")(check)
    nova.command(epilog="Example: tenure nova export --key past.key --out past.jsonl.gz")(export)
    app.add_typer(nova, name="nova")


def _nova() -> None:
    """A real OpenStack cloud whose Nova sells its spare capacity with Tenure."""
