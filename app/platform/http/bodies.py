"""Reading what callers send: bodies and queries, bounded in bytes and in number of values before any form sees them.

A form that finds fault with thousands of values takes its time for each, so what is larger than any good request is
refused on counts that cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, TypeVar

import msgspec
from pydantic import ValidationError
from starlette.requests import Request

from app.platform.http.errors import (
    MOST_FAULTS,
    BodyMalformed,
    BodyTooComplex,
    BodyTooLarge,
    ContentTypeUnsupported,
    FieldInvalid,
    FieldMissing,
    FieldUnknown,
    QueryTooLarge,
    RequestError,
    RequestInvalid,
    faults_in,
)
from app.platform.http.fields import Body, Query
from app.platform.turns import Turns
from app.scheduling.wire.instances import BATCH_MAX, OperationBody

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Query)

MOST_PARAMETERS = 32
"""Query parameters of one request."""
OPERATION_BYTES = 4096
OPERATION_VALUES = 32
"""Of one operation in a batch."""

_BATCH = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPERATIONS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_body(request: Request, form: type[B]) -> B:
    """The request's JSON body; RequestInvalid where it has not this form."""
    _check_content_type(request)
    content = await _content(request, form.most_bytes)
    _check_values(content, form.most_values)
    try:
        return form.model_validate_json(content)
    except ValidationError as error:
        raise RequestInvalid(faults_in(error)) from None


async def read_batch(request: Request) -> list[OperationBody]:
    """The operations of a batch's body, read one by one so that others get their turns; RequestInvalid as above."""
    _check_content_type(request)
    content = await request.body()
    _check_values(content, BATCH_MAX * OPERATION_VALUES)
    parts = _parts(content)
    read: list[OperationBody] = []
    faults: list[RequestError] = []
    turns = Turns()
    for number, part in enumerate(parts):
        try:
            read.append(_operation(bytes(part)))
        except ValidationError as error:
            faults.extend(faults_in(error, "operations", str(number)))
        if len(faults) >= MOST_FAULTS:
            break
        if turns.is_due():
            await turns.give()
    if faults:
        raise RequestInvalid(faults)
    return read


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


def _check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ContentTypeUnsupported("send the body with Content-Type: application/json")


async def _content(request: Request, most_bytes: int) -> bytes:
    """The body, which is given up as soon as it is too large. Its declared length is a number: the parser saw to it."""
    if int(request.headers.get("content-length", 0)) > most_bytes:
        raise _too_large(most_bytes)
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
    return b"".join(parts)


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body takes up to {most_bytes} bytes here")


def _check_values(content: bytes, most: int) -> None:
    """BodyTooComplex where JSON may hold more values than `most`; nothing can be nested deeper than it has values."""
    if content.count(b",") + content.count(b"{") + content.count(b"[") > most:
        raise BodyTooComplex(f"a body has up to {most} values here")


def _operation(content: bytes) -> OperationBody:
    if len(content) > OPERATION_BYTES:
        raise BodyTooLarge(f"an operation takes up to {OPERATION_BYTES} bytes")
    _check_values(content, OPERATION_VALUES)
    return OperationBody.model_validate_json(content)


def _parts(content: bytes) -> list[msgspec.Raw]:
    """The operations as JSON; they are looked for, and counted, but not read."""
    try:
        fields = _BATCH.decode(content)
        if fields.keys() != {"operations"}:
            raise RequestInvalid(_wrong_fields(fields))
        parts = _OPERATIONS.decode(fields["operations"])
    except (msgspec.DecodeError, RecursionError) as error:
        _raise_malformed(error)
    if not 1 <= len(parts) <= BATCH_MAX:
        raise FieldInvalid(f"operations: List should have 1 to {BATCH_MAX} items, not {len(parts)}")
    return parts


def _wrong_fields(fields: dict[str, msgspec.Raw]) -> Iterator[RequestError]:
    if "operations" not in fields:
        yield FieldMissing("operations: Field required")
    for name in fields:
        if name != "operations":
            yield FieldUnknown(f"{name[:100]}: Extra inputs are not permitted")


def _raise_malformed(error: Exception) -> NoReturn:
    if isinstance(error, RecursionError):
        raise BodyTooComplex("the body is nested too deeply") from None
    if isinstance(error, msgspec.ValidationError):
        raise FieldInvalid(f"a batch is an object, and its operations are an array: {error}") from None
    raise BodyMalformed(str(error)) from None
