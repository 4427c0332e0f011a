"""The links between pages of a list: each has at most `limit` items and a link to the next one, if any."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request

from app.platform.http.fields import Name, Query
from tenure_client.forms.answer import Link

Limit = Annotated[int, Field(ge=1, le=1000, description="The number of items in a page.")]


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
