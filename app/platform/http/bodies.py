"""Reading what callers send: bodies and queries, bounded in bytes and in number of values before any form sees them.

A form that finds fault with thousands of values takes its time for each, so what is larger than any good request is
refused on counts that cost next to nothing.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from app.platform.http.errors import (
    BodyTooComplex,
    BodyTooLarge,
    ContentTypeUnsupported,
    FieldInvalid,
    QueryTooLarge,
    RequestInvalid,
    faults_in,
)
from app.platform.http.fields import Body, Query

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Query)

MOST_PARAMETERS = 32
"""Query parameters of one request."""


async def read_body(request: Request, form: type[B]) -> B:
    """The request's JSON body; RequestInvalid where it has not this form."""
    check_content_type(request)
    content = await read_content(request, form.most_bytes)
    check_values(content, form.most_values)
    try:
        return form.model_validate_json(content)
    except ValidationError as error:
        raise RequestInvalid(faults_in(error)) from None


def read_query(request: Request, form: type[Q]) -> Q:
    """The request's query parameters; RequestInvalid where they have not this form."""
    pairs = request.query_params.multi_items()
    values = dict(pairs)
    if len(values) < len(pairs):
        raise FieldInvalid("a query parameter stands twice")
    try:
        return form.model_validate_strings(values)
    except ValidationError as error:
        raise RequestInvalid(faults_in(error)) from None


def check_query(query: bytes) -> None:
    """QueryTooLarge where a query has more parameters than any resource takes."""
    if query.count(b"&") >= MOST_PARAMETERS:
        raise QueryTooLarge(f"a query has up to {MOST_PARAMETERS} parameters")


def check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ContentTypeUnsupported("send the body with Content-Type: application/json")


async def read_content(request: Request, most_bytes: int) -> bytes:
    """The body, which is given up as soon as it is too large. Its declared length is a number: the parser saw to it."""
    if int(request.headers.get("content-length", 0)) > most_bytes:
        raise too_large(most_bytes)
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise too_large(most_bytes)
    return b"".join(parts)


def too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body takes up to {most_bytes} bytes here")


def check_values(content: bytes, most: int) -> None:
    """BodyTooComplex where JSON may hold more values than `most`; nothing can be nested deeper than it has values."""
    if content.count(b",") + content.count(b"{") + content.count(b"[") > most:
        raise BodyTooComplex(f"a body has up to {most} values here")
