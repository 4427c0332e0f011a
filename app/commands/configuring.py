"""The service's settings as commands read them: options before variables, and a sentence for each bad value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.output import STDERR
from app.domain.inputs import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from app.platform.settings import Settings

OF_NOVA = tuple(
    f"TENURE_NOVA_{name}"
    for name in (
        "API_DATABASE", "BROKERS", "BUILD_TIMEOUT_S", "CELLS", "COMPARE_EVERY_S", "DATABASE", "ENDING", "FORCE_AFTER_S",
        "HOST", "MESSAGING_FILE", "POLL_EVERY_S", "POOL", "PORT", "TOPIC", "TRAIT", "UNPROMISED", "UNPROMISED_AFTER_S",
    )
)  # fmt: skip
_OF_CLIENTS = ("TENURE_URL", "TENURE_TOKEN", "TENURE_CLOUD", *OF_NOVA)
_PREFIX = "TENURE_"
_NEAR = 0.6
"""A guess at a mistyped variable is at least this similar; see difflib."""
_SAID = {
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_parsing": "write a number",
    "bool_parsing": "write true or false",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""The sentence for each kind of error that the settings' validator finds; its own words are for programmers."""

Host = Annotated[str | None, typer.Option(help="Address to listen on, instead of TENURE_HOST.")]
Port = Annotated[str | None, typer.Option(metavar="PORT", help="Port to listen on, instead of TENURE_PORT.")]
WorkerPort = Annotated[
    str | None,
    typer.Option("--port", metavar="PORT", help="Port for health and metrics, instead of TENURE_WORKER_PORT."),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Folder of the data of the service's own PostgreSQL, instead of TENURE_DATA_DIR."
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="PostgreSQL to use. Lists of processes show this option, and not the variable TENURE_DATABASE_URL.",
    ),
]


def read_settings(**options: object) -> Settings:
    """Return the settings from options that are not None, variables and defaults, in this order.

    Raises InputError that names the option or variable with a bad value.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - the service's libraries are slow to load

    from app.platform.settings import Settings  # noqa: PLC0415 - as above

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    _check_not_empty(given)
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise InputError("; ".join(_wrong(one, given) for one in error.errors())) from None
    _check_database(settings, given)
    return settings


def database_words(settings: Settings) -> str:
    """Name the database that the settings lead to, for people; without a password."""
    from app.platform.database.database import shown_url  # noqa: PLC0415 - as above

    if settings.database_url is None:
        return f"the service's own PostgreSQL in {settings.data_dir}"
    return shown_url(settings.database_url)


def database_options(*, data_dir: str | None, database_url: str | None) -> str:
    """Return the options that name the database, for another command on it; without a password."""
    from app.platform.database.database import shown_url  # noqa: PLC0415 - as above

    url = None if database_url is None else shown_url(database_url)
    given = {"--data-dir": data_dir, "--database-url": url}
    return "".join(f" {option} {quote(value)}" for option, value in given.items() if value is not None)


def tell_database(settings: Settings) -> None:
    """Say on standard error which database a command works on."""
    STDERR.print(f"database: {database_words(settings)}", style="dim", markup=False, highlight=False, soft_wrap=True)


def warn_of_unknown_variables() -> None:
    """Warn on standard error of unknown variables with our prefix; name the setting that was probably meant."""
    for name, nearest in unknown_variables(os.environ).items():
        guess = "" if nearest is None else f"; did you mean {nearest}?"
        STDERR.print(
            f"tenure: {name} is not a setting and is ignored{guess}", markup=False, highlight=False, soft_wrap=True
        )


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return variables that have our prefix but are no settings, each with the setting that it resembles, if any."""
    ours = [name for name in environment if name.upper().startswith(_PREFIX) and name.upper() not in _OF_CLIENTS]
    if not ours:
        return {}
    from app.platform.settings import Settings  # noqa: PLC0415 - as above

    known = (*(_variable(name) for name in Settings.model_fields), *_OF_CLIENTS)
    return {name: _nearest(name.upper(), known) for name in ours if name.upper() not in known}


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar name, None if none is similar. The prefix, which all have, does not count."""
    bare = [one.removeprefix(_PREFIX) for one in known]
    found = get_close_matches(name.removeprefix(_PREFIX), bare, n=1, cutoff=_NEAR)
    return _PREFIX + found[0] if found else None


def _variable(name: str) -> str:
    return _PREFIX + name.upper()


def _source(name: str, given: Mapping[str, object]) -> str:
    return f"{_variable(name)} (given as an option)" if name in given else _variable(name)


def _check_not_empty(given: Mapping[str, object]) -> None:
    """Raise InputError for an empty option. A shell makes one of an unset variable, and nobody means one."""
    for name, value in given.items():
        if isinstance(value, str) and not value.strip():
            raise InputError(f"{_source(name, given)}: the value is empty")


def _wrong(error: ErrorDetails, given: Mapping[str, object]) -> str:
    """Return the sentence for an error. Settings that contradict each other have no one place; it names them itself."""
    return f"{_source(str(error['loc'][0]), given)}: {_said(error)}" if error["loc"] else error["msg"]


def _said(error: ErrorDetails) -> str:
    words = _SAID.get(error["type"])
    said = error["msg"].removeprefix("Value error, ")
    return said[:1].lower() + said[1:] if words is None else words.format(**error.get("ctx", {}))


def _check_database(settings: Settings, given: Mapping[str, object]) -> None:
    from app.platform.database.database import parse_url  # noqa: PLC0415 - as above

    if settings.database_url is None:
        _check_folder(settings.data_dir, _source("data_dir", given))
        return
    try:
        parse_url(settings.database_url)
    except ValueError as error:
        raise InputError(f"{_source('database_url', given)}: {error}") from None


def _check_folder(folder: Path, source: str) -> None:
    """Raise InputError if this user cannot have the folder; nothing is created in it before."""
    there = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
    if not there.is_dir():
        raise InputError(f"{source}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{source}: this user may not write in {there}")
