"""Readers of bodies and queries, bounded in bytes and in number of values before any form validates them.

Validation takes time for each faulty value. So a cheap count refuses whatever is larger than any reasonable request.
"""

from __future__ import annotations

import json
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
"""The number of query parameters allowed in a request."""


async def read_body(request: Request, form: type[B]) -> B:
    """Return the request's JSON body. Raise RequestInvalid if it does not match the form."""
    check_content_type(request)
    content = await read_content(request, form.most_bytes)
    check_values(content, form.most_values)
    try:
        body = form.model_validate_json(content)
    except ValidationError as error:
        raise RequestInvalid(faults_in(error, form)) from None
    refuse_repeated(content, len(body.model_fields_set))
    return body


def refuse_repeated(content: bytes, field_count: int) -> None:
    """Raise FieldInvalid if an object in this valid JSON has a field twice. `field_count` fields were read from it.

    Each field has a colon: where there are no more colons than fields, none stands twice, and nothing is parsed.
    """
    if content.count(b":") > field_count:
        json.loads(content.decode(), object_pairs_hook=_refuse_twice, parse_int=str, parse_float=str)


def _refuse_twice(fields: list[tuple[str, object]]) -> None:
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldInvalid(f"the field {twice[:100]!r} stands twice")


def read_query(request: Request, form: type[Q]) -> Q:
    """Return the request's query parameters. Raise RequestInvalid if they do not match the form."""
    pairs = request.query_params.multi_items()
    values = dict(pairs)
    if len(values) < len(pairs):
        raise FieldInvalid("a query parameter stands twice")
    try:
        return form.model_validate_strings(values)
    except ValidationError as error:
        raise RequestInvalid(faults_in(error, form)) from None


def check_query(query: bytes) -> None:
    """Raise QueryTooLarge if a query has more parameters than any resource takes."""
    if query.count(b"&") >= MOST_PARAMETERS:
        raise QueryTooLarge(f"a query has up to {MOST_PARAMETERS} parameters")


def check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ContentTypeUnsupported("send the body with Content-Type: application/json")


async def read_content(request: Request, most_bytes: int) -> bytes:
    """Return the body. Reading stops as soon as it is too large. The parser has checked that its length is a number."""
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
    """Raise BodyTooComplex if JSON may hold more values than `most`. Its depth cannot exceed its number of values."""
    if content.count(b",") + content.count(b"{") + content.count(b"[") > most:
        raise BodyTooComplex(f"a body has up to {most} values here")
