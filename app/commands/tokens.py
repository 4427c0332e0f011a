"""The commands `token create`, `token list` and `token revoke`. They work on the database, without any token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.commands.changing import changing
from app.commands.configuring import DatabaseUrl, DataDir, database_options, read_settings, tell_database
from app.commands.fitting import Column, print_fitting
from app.commands.options import Json
from app.commands.output import STDOUT, print_json
from app.domain.inputs import InputError, parse_duration
from app.domain.values import NAME_PATTERN, Role
from tenure_client import json_of

if TYPE_CHECKING:
    from datetime import datetime

    from app.identity.service import Token, TokenKeeper

T = TypeVar("T")

_PAGE = 1000
_REVOKE = "; its value is lost: `tenure token revoke {}` ends it"
_COLUMNS = (
    Column("name", 9),
    Column("role", 8),
    Column("cloud", 7),
    Column("status", 6),
    Column("last used", 1),
    Column("expires", 4),
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tokens = typer.Typer(help="Access tokens: their roles, clouds and ends.", no_args_is_help=True)
    tokens.command(epilog="Example: tenure token create pages --role reader --cloud north --expires 90d")(create)
    tokens.command("list", epilog="Example: tenure token list --json")(list_tokens)
    tokens.command(epilog="Example: tenure token revoke pages")(revoke)
    app.add_typer(tokens, name="token")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of its holder; no other valid token has it.")],
    *,
    role: Annotated[Role, typer.Option(help="The role, that is, the purpose of the token.")],
    cloud: Annotated[str | None, typer.Option(help="The only cloud that it is for.", show_default="all")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Its length of validity: 24h, 90d.", show_default="until revoked")
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Create a token and print it. It is shown only this once."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InputError(f"{name!r} is not a name: letters, digits, dots, dashes and underscores")
    expires_us = None if expires is None else parse_duration(expires)
    if expires_us == 0:
        raise InputError("--expires must be longer than nothing")
    of = database_options(data_dir=data_dir, database_url=database_url)
    made = _with_keeper(
        _changing(lambda keeper: keeper.create(name, role, cloud, expires_us), of, _REVOKE.format(name + of)),
        data_dir=data_dir,
        database_url=database_url,
    )
    if as_json:
        print_json({**_fields(made.token), "token": made.secret})
    else:
        typer.echo(made.secret)


def list_tokens(*, data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: Json = False) -> None:
    """List tokens, newest first, expired and revoked ones included."""
    found = _with_keeper(_all_tokens, data_dir=data_dir, database_url=database_url)
    if as_json:
        print_json({"tokens": [_fields(token) for token in found]})
    else:
        _print(found)


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a valid token.")],
    *,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a token. A running process may still accept it for a few seconds."""
    of = database_options(data_dir=data_dir, database_url=database_url)
    revoking = _changing(lambda keeper: keeper.revoke_named(name), of)
    _with_keeper(revoking, data_dir=data_dir, database_url=database_url)


def _changing(
    use: Callable[[TokenKeeper], Awaitable[T]], of: str, then: str = ""
) -> Callable[[TokenKeeper], Awaitable[T]]:
    async def change(keeper: TokenKeeper) -> T:
        with changing(f"token list{of}", then):
            return await use(keeper)

    return change


async def _all_tokens(keeper: TokenKeeper) -> list[Token]:
    page = await keeper.list(None, _PAGE)
    found = [*page.items]
    while page.marker is not None:
        page = await keeper.list(int(page.marker), _PAGE)
        found += page.items
    return found


def _with_keeper(use: Callable[[TokenKeeper], Awaitable[T]], *, data_dir: str | None, database_url: str | None) -> T:
    from app.processes.wiring import open_tokens  # noqa: PLC0415 - the service's libraries are slow to load

    settings = read_settings(data_dir=data_dir, database_url=database_url)
    tell_database(settings)

    async def with_keeper() -> T:
        async with open_tokens(settings) as keeper:
            return await use(keeper)

    return asyncio.run(with_keeper())


def _fields(token: Token) -> dict[str, Any]:
    """Return the fields that the HTTP interface returns, without its links."""
    from app.identity.wire import token_answer  # noqa: PLC0415 - as above

    fields = json_of(token_answer(token))
    del fields["links"]
    return fields


def _print(found: Sequence[Token]) -> None:
    if not found:
        STDOUT.print("no tokens")
        return
    dates = [(_minute(token.last_used_at, "never"), _minute(token.expires_at, "-")) for token in found]
    rows = [
        (token.name, token.role, token.cloud or "all", token.status, *of)
        for token, of in zip(found, dates, strict=True)
    ]
    print_fitting(STDOUT, _COLUMNS, rows)


def _minute(at: datetime | None, otherwise: str) -> str:
    return otherwise if at is None else f"{at:%Y-%m-%d %H:%M}"
