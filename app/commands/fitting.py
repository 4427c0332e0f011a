"""Tables that fit the terminal: less important columns are left out, and a line names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.domain.numbers import figure_text

_GAP = 2  # the box draws one of them
_NARROWEST_WORDS = 24
"""Columns that a column of words needs to be read."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and place. Columns of the lowest `weight` go first if there is no room; words may wrap."""

    name: str
    weight: int = 1
    is_number: bool = False
    is_words: bool = False


def print_fitting(
    console: Console, columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = ""
) -> None:
    """Print the rows as a table, or each row as a list if even the most important columns do not fit.

    If the output is no terminal, nothing is left out and no line is wrapped.
    """
    cells = [[_text(value) for value in row] for row in rows]
    if title:
        console.print(Text(title, style="bold"), soft_wrap=not console.is_terminal)
    if not cells:
        console.print(Text("none", style="dim"))
        return
    header = [Text(column.name) for column in columns]
    widths = [max(cell_len(line[at].plain) for line in [*cells, header]) for at in range(len(columns))]
    room = console.width if console.is_terminal else sum(widths) + _GAP * len(columns)
    kept = _fitting(columns, widths, room)
    if kept is None:
        _print_lists(console, columns, cells)
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for at in kept:
        column = columns[at]
        table.add_column(
            column.name, justify="right" if column.is_number else "left", no_wrap=not column.is_words, overflow="fold"
        )
    for line in cells:
        table.add_row(*(line[at] for at in kept))
    console.print(table, width=room, soft_wrap=False)
    left_out = [column.name for at, column in enumerate(columns) if at not in kept]
    if left_out:
        console.print(Text(f"too narrow for: {', '.join(left_out)}", style="dim"), soft_wrap=False)


def _fitting(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int] | None:
    """Return the columns that fit side by side, in their order; None if the most important ones do not."""
    kept = list(range(len(columns)))
    needed = [
        min(width, _NARROWEST_WORDS) if column.is_words else width
        for column, width in zip(columns, widths, strict=True)
    ]
    heaviest = max(column.weight for column in columns)
    while sum(needed[at] + _GAP for at in kept) - _GAP > room:
        lightest = min(kept, key=lambda at: (columns[at].weight, -at))
        if columns[lightest].weight == heaviest:
            return None
        kept.remove(lightest)
    return kept


def _print_lists(console: Console, columns: Sequence[Column], cells: Sequence[Sequence[Text]]) -> None:
    for number, line in enumerate(cells):
        if number:
            console.print()
        for column, value in zip(columns, line, strict=True):
            if value.plain not in ("", "-"):
                console.print(Text.assemble((f"{column.name}: ", "dim"), value), overflow="fold", soft_wrap=False)


def _text(value: object) -> Text:
    return value if isinstance(value, Text) else Text("-" if value is None else str(value))


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number for a table; a dash if there is none."""
    return "-" if value is None else figure_text(value, digits)
