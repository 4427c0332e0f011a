"""Arguments of commands stand in the help as `INSTANCE`, wherever they come from."""

from __future__ import annotations

import typer
from typer.core import TyperArgument, TyperGroup

from app.cli import command_line


def unlike_others(command: object, path: str) -> list[str]:
    """Return the arguments of a command and of those under it that the help does not call in capitals."""
    if isinstance(command, TyperGroup):
        return [one for name, under in command.commands.items() for one in unlike_others(under, f"{path} {name}")]
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]  # type: ignore[attr-defined]
    return [f"{path}: {one.name}" for one in arguments if not (one.metavar or "").lstrip("[")[:1].isupper()]


def test_arguments_are_written_in_capitals() -> None:
    assert unlike_others(typer.main.get_command(command_line()), "tenure") == []
