"""Parts that every report is made of: the document around it, and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from app.workbench.report.drawing import Numbers
from app.workbench.report.look import CSS

_SENTENCE = 28
"""A text that is longer wraps, so that a table is no wider than the page."""


def document(title: str, parts: Iterable[str]) -> str:
    """Return a page that needs nothing else, of parts in HTML."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light">\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def table_html(numbers: Numbers, words: int = 1) -> str:
    """Align the first `words` columns to the left, and the others as numbers to the right. Sentences wrap."""
    kinds = [_kind(at, words, [row[at] for row in numbers.rows]) for at in range(len(numbers.columns))]
    head = "".join(
        f"<th scope=col{kind}>{escape(name)}</th>" for kind, name in zip(kinds, numbers.columns, strict=True)
    )
    rows = "\n".join(f"<tr>{''.join(_cells(row, kinds))}</tr>" for row in numbers.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _cells(row: Iterable[str], kinds: Iterable[str]) -> Iterator[str]:
    for at, (cell, kind) in enumerate(zip(row, kinds, strict=True)):
        tag = "th scope=row" if at == 0 else "td"
        yield f"<{tag}{kind}>{escape(cell)}</{tag[:2]}>"


def _kind(at: int, words: int, cells: Iterable[str]) -> str:
    """Return the class of a column: one with a long text holds sentences."""
    if any(len(cell) > _SENTENCE for cell in cells):
        return " class=said"
    return "" if at < words else " class=number"
