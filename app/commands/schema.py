"""The commands `db downgrade` and `db status`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.commands.configuring import DatabaseUrl, DataDir, read_settings, tell_database
from app.commands.options import Json
from app.commands.output import print_json

Finish = Annotated[
    bool,
    typer.Option("--finish", help="Put the newest log format in force too: from then on no older process may run."),
]


def downgrade(*, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Take the schema one revision back, for the previous version; exit with 1 if that would lose data."""
    from app.processes import wiring  # noqa: PLC0415 - the service's libraries are slow to load

    settings = read_settings(data_dir=data_dir, database_url=database_url)
    tell_database(settings)
    try:
        standing = wiring.downgrade_schema(settings)
    except wiring.DowngradeRefused as error:
        sys.stderr.write(f"tenure: {error}\n")
        raise typer.Exit(1) from None
    typer.echo(f"schema {standing.revision}")


def status(*, as_json: Json = False, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Show the database's schema and log format, and those that this program knows."""
    import migrations  # noqa: PLC0415 - as above
    from app.processes import wiring  # noqa: PLC0415

    settings = read_settings(data_dir=data_dir, database_url=database_url)
    tell_database(settings)
    standing = wiring.database_standing(settings)
    found = {
        "schema": standing.revision,
        "runs_from": standing.runs_from,
        "log_format": standing.log_format,
        "schema_known": migrations.newest(),
        "log_format_known": wiring.LOG_FORMAT,
    }
    if as_json:
        print_json(found)
        return
    typer.echo(f"schema {found['schema'] or 'none'}; this program knows {found['schema_known']}")
    typer.echo(f"programs may run that know schema {found['runs_from']} or a newer one")
    typer.echo(f"log format {found['log_format']} may be written; this program knows {found['log_format_known']}")
