"""Parts that every report is made of: the document around it, and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from app.workbench.report.drawing import Numbers
from app.workbench.report.look import CSS


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
    """Align the first `words` columns to the left, and the others as numbers to the right."""
    head = "".join(f"<th scope=col{_align(at, words)}>{escape(name)}</th>" for at, name in enumerate(numbers.columns))
    rows = "\n".join(f"<tr>{''.join(_cells(row, words))}</tr>" for row in numbers.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _cells(row: Iterable[str], words: int) -> Iterator[str]:
    for at, cell in enumerate(row):
        tag = "th scope=row" if at == 0 else "td"
        yield f"<{tag}{_align(at, words)}>{escape(cell)}</{tag[:2]}>"


def _align(at: int, words: int) -> str:
    return "" if at < words else " class=number"
