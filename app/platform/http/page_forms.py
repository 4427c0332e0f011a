"""Pages of a list: each has at most `limit` items and a link to the next one, if any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request

from app.domain.errors import MarkerInvalid
from app.platform.http.fields import Name, Query
from tenure_client.forms.answer import Link

T = TypeVar("T")
Limit = Annotated[int, Field(ge=1, le=1000, description="The most items in a page.")]


class PageQuery(Query):
    limit: Limit = 100
    marker: Name | None = Field(
        None, description="The last item of the previous page. The link to the next page contains it."
    )


class NumberedPageQuery(Query):
    limit: Limit = 100
    marker: Annotated[int, Field(ge=1, lt=1 << 31)] | None = Field(
        None, description="The last item of the previous page. The link to the next page contains it."
    )


def next_link(request: Request, marker: object, name: str = "marker") -> list[Link]:
    """Return the link to the page that follows the item named by `marker`, or nothing if that is None."""
    if marker is None:
        return []
    parameters = {**request.query_params, name: str(marker)}
    return [Link(rel="next", href=f"{request.url.path}?{urlencode(parameters)}")]


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
