"""Pages of a list in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from app.domain.errors import MarkerInvalid

T = TypeVar("T")


def page_after(
    items: Sequence[T], marker: str | None, limit: int, name_of: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """Return at most `limit` items after the one named `marker`, and the marker of the next page, if any."""
    begin = 0
    if marker is not None:
        names = [name_of(item) for item in items]
        if marker not in names:
            raise MarkerInvalid(f"{marker!r} is not in this list")
        begin = names.index(marker) + 1
    page = items[begin : begin + limit]
    return page, name_of(page[-1]) if begin + limit < len(items) else None
