"""`serve`, `worker`, `run` and `db upgrade`: the service's processes. Settings come from the environment."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import schema


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: TENURE_PORT=8081 tenure serve")(serve)
    app.command(epilog="Example: TENURE_FORECAST_THREADS=4 tenure worker")(worker)
    app.command(epilog="Example: TENURE_DATA_DIR=/var/lib/tenure tenure run")(run)
    database = typer.Typer(help="The service's database.", no_args_is_help=True)
    database.command(epilog="Example: TENURE_DATABASE_URL=postgresql://tenure@db/tenure tenure db upgrade")(upgrade)
    database.command(epilog="Example: tenure db downgrade")(schema.downgrade)
    database.command(epilog="Example: tenure db status --json")(schema.status)
    database.callback()(_database)
    app.add_typer(database, name="db")


def serve() -> None:
    """Answer HTTP requests; a worker has to run beside it."""
    from app.commands import service  # noqa: PLC0415 - the service's libraries are slow to load
    from app.settings import Settings  # noqa: PLC0415

    service.serve(Settings(), with_worker=False)


def worker(
    *,
    leave_with_parent: Annotated[
        bool, typer.Option("--leave-with-parent", help="Stop when standard input ends.", hidden=True)
    ] = False,
) -> None:
    """Recompute quantile tables and take snapshots."""
    from app.commands import service  # noqa: PLC0415 - as above
    from app.settings import Settings  # noqa: PLC0415

    service.work(Settings(), leave_with_parent=leave_with_parent)


def run() -> None:
    """Answer HTTP requests, with a worker beside it."""
    from app.commands import service  # noqa: PLC0415 - as above
    from app.settings import Settings  # noqa: PLC0415

    service.serve(Settings(), with_worker=True)


def _database() -> None:
    """The service's database."""


def upgrade(*, finish: schema.Finish = False) -> None:
    """Bring the database to the newest schema; processes do so themselves when they start."""
    from app import wiring  # noqa: PLC0415 - as above
    from app.settings import Settings  # noqa: PLC0415

    wiring.upgrade_schema(Settings(), finish=finish)
