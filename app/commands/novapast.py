"""Options of commands that read the past of a real OpenStack: from Nova's databases, or by its interface."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from app.commands.options import with_options
from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.times import MAX_TIME_US, from_datetime

if TYPE_CHECKING:
    from pathlib import Path

    from app.nova.past.source import ServerPieces

Source = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="nova|openstack", help="Read Nova's databases, or Nova's interface, instead of files."
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TENURE_NOVA_DATABASE",
        show_envvar=True,
        help="Nova's database of a cell, PostgreSQL or MySQL; a replica is best. The variable shows in no list of "
        "processes.",
    ),
]
Cells = Annotated[
    list[str] | None,
    typer.Option(
        "--cell",
        metavar="URL",
        envvar="TENURE_NOVA_CELLS",
        show_envvar=True,
        help="A further database of Nova's: another cell, or cell0, which holds what found no host.",
    ),
]
ApiDatabase = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TENURE_NOVA_API_DATABASE",
        show_envvar=True,
        help="Nova's API database, which knows the sizes of flavors that no server has any more.",
    ),
]
OsCloud = Annotated[
    str | None,
    typer.Option(metavar="NAME", envvar="OS_CLOUD", show_envvar=True, help="The cloud's name in clouds.yaml."),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        show_default="the first recorded end",
        help="The time from which the record of servers is whole, such as 2026-01-31T00:00:00Z.",
    ),
]


_OPTIONS_OF = {
    "database": ("nova",),
    "cell": ("nova",),
    "api_database": ("nova",),
    "os_cloud": ("openstack",),
    "since": ("nova", "openstack"),
}
"""The sources that read an option. Files tell what they need themselves."""


class NovaAsked(NamedTuple):
    """The options that name the parts of an OpenStack. `source`: nova or openstack; None if files are read."""

    source: str | None
    database: str | None
    cells: list[str]
    api_database: str | None
    os_cloud: str | None
    since: str | None


class NovaPast(NamedTuple):
    """A past of Nova's that can be read: its source, and the function that reads it."""

    name: str
    pieces: Callable[[Progress | None], ServerPieces]


def of_nova(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of a past of Nova's, which give it its first argument."""

    def told(
        *,
        context: typer.Context,
        source: Source = None,
        database: Database = None,
        cell: Cells = None,
        api_database: ApiDatabase = None,
        os_cloud: OsCloud = None,
        since: Since = None,
        **given: Any,  # noqa: ANN401 - as the command
    ) -> None:
        _check_contradictions(source, context)
        command(NovaAsked(source, database, cell or [], api_database, os_cloud, since), **given)

    return with_options(told, command, 1)


def _check_contradictions(source: str | None, context: typer.Context) -> None:
    """Raise InputError for an option of another source. A variable is none: it may be set for other commands."""
    for name, sources in _OPTIONS_OF.items():
        told_by = context.get_parameter_source(name)
        if source not in sources and told_by is not None and told_by.name == "COMMANDLINE":
            option, of = name.replace("_", "-"), " or ".join(f"--from {one}" for one in sources)
            raise InputError(f"--{option} is for {of}: leave it out")


def nova_past(asked: NovaAsked, files: list[Path] | None) -> NovaPast | None:
    """Return the past that is asked for; None if it is in files. Raises InputError if it is neither, or both."""
    if asked.source is None:
        if not files:
            raise InputError("give the files of the past, or --from nova or --from openstack")
        return None
    if files:
        raise InputError("a past is in files, or comes --from somewhere: give one of the two")
    if asked.source == "openstack":
        return _by_interface(asked)
    if asked.source != "nova":
        raise InputError(f"--from {asked.source!r} is unknown: write nova or openstack")
    return from_databases(asked)


def from_databases(asked: NovaAsked) -> NovaPast:
    """Return the past in Nova's databases. Raises InputError for an address that cannot be one."""
    if asked.database is None:
        raise InputError("give the database of a cell of Nova's, with --database or TENURE_NOVA_DATABASE")
    from app.nova.past.store.databases import NovaDatabases, check_url  # noqa: PLC0415 - a database's libraries are slow

    cells = [check_url(url) for url in (asked.database, *asked.cells)]
    api = None if asked.api_database is None else check_url(asked.api_database)
    return NovaPast("nova", NovaDatabases(cells, api, parse_since(asked.since)).pieces)


def _by_interface(asked: NovaAsked) -> NovaPast:
    try:
        from app.nova.past.interface import NovaInterface  # noqa: PLC0415 - OpenStack's libraries are slow to load
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: install tenure[openstack]") from error

    return NovaPast("openstack", NovaInterface(asked.os_cloud, parse_since(asked.since)).pieces)


def parse_since(text: str | None) -> int | None:
    """Return the microseconds since 1970 of a time, UTC unless it says otherwise. Raises InputError if it is none."""
    if text is None:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--since {text!r} is no time: write 2026-01-31T00:00:00Z") from error
    at_us = from_datetime(told if told.tzinfo else told.replace(tzinfo=UTC))
    if not 0 <= at_us <= MAX_TIME_US:
        raise InputError(f"--since {text!r} is before 1970")
    return at_us
