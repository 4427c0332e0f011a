"""The commands `nova`: a real OpenStack cloud whose Nova sells its spare capacity with Tenure."""

from __future__ import annotations

import typer

from app.commands.nova_daemon import run


def register(app: typer.Typer) -> None:
    """Add the commands."""
    nova = typer.Typer(help="OpenStack's Nova: spare capacity sold with Tenure.", no_args_is_help=True)
    nova.callback()(_nova)
    nova.command(epilog="Example: tenure nova run --cloud north --brokers rabbit://tenure:secret@broker:5672/")(run)
    app.add_typer(nova, name="nova")


def _nova() -> None:
    """A real OpenStack cloud whose Nova sells its spare capacity with Tenure."""
