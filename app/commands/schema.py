"""The commands `db upgrade`, `db downgrade` and `db status`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.commands.changing import was_asked
from app.commands.configuring import DatabaseUrl, DataDir, database_options, read_settings, tell_database
from app.commands.options import Json
from app.commands.output import print_json

Finish = Annotated[
    bool,
    typer.Option("--finish", help="Put the newest log format in force too: from then on no older process may run."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    database = typer.Typer(help="The service's database.", no_args_is_help=True)
    database.command(epilog="Example: TENURE_DATABASE_URL=postgresql://tenure@db/tenure tenure db upgrade")(upgrade)
    database.command(epilog="Example: tenure db downgrade")(downgrade)
    database.command(epilog="Example: tenure db status --json")(status)
    app.add_typer(database, name="db")


def upgrade(*, finish: Finish = False, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Upgrade the database to the newest schema. Processes do this themselves when they start."""
    from app.processes import wiring  # noqa: PLC0415 - the service's libraries are slow to load

    wiring.upgrade_schema(read_settings(data_dir=data_dir, database_url=database_url), finish=finish)


def downgrade(*, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Take the schema one revision back, for the previous version; exit with 1 if that would lose data."""
    from app.processes import wiring  # noqa: PLC0415 - as above

    settings = read_settings(data_dir=data_dir, database_url=database_url)
    tell_database(settings)
    try:
        standing = wiring.downgrade_schema(settings)
    except wiring.DowngradeRefused as error:
        sys.stderr.write(f"tenure: {error}\n")
        raise typer.Exit(1) from None
    was_asked("db status" + database_options(data_dir=data_dir, database_url=database_url))
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
