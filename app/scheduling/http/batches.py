"""Bodies of batches, read one operation at a time and each bounded, so that other tasks get turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import msgspec
from pydantic import ValidationError
from starlette.requests import Request

from app.domain.requests import Operation
from app.platform.http.bodies import check_content_type, check_values, refuse_repeated
from app.platform.http.errors import (
    MOST_FAULTS,
    BodyMalformed,
    BodyTooComplex,
    BodyTooLarge,
    FieldInvalid,
    FieldMissing,
    FieldUnknown,
    RequestError,
    RequestInvalid,
    faults_in,
)
from app.platform.turns import Turns
from app.scheduling.wire.batches import read_valid
from app.scheduling.wire.operations import BATCH_MAX, OperationBody

FEW = 100
"""Operations that are read and answered at once; more take turns with other long work from the start."""
OPERATION_BYTES = 4096


OPERATION_VALUES = 32
"""The number of values allowed in one operation of a batch."""


_BATCH = msgspec.json.Decoder(dict[str, msgspec.Raw])


_OPERATIONS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_batch(request: Request, owner: str | None) -> list[Operation]:
    """Return the operations of a batch's body, with turns for other tasks. Raise RequestInvalid if one is invalid."""
    check_content_type(request)
    content = await request.body()
    check_values(content, BATCH_MAX * OPERATION_VALUES)
    array, parts = _parts(content)
    with Turns() as turns:
        if len(parts) > FEW:
            await turns.give()
        return read_valid(array, parts, owner) or await _read_by_forms(parts, owner, turns)


async def _read_by_forms(parts: Sequence[msgspec.Raw], owner: str | None, turns: Turns) -> list[Operation]:
    read: list[Operation] = []
    faults: list[RequestError] = []
    for number, part in enumerate(parts):
        try:
            read.append(_operation(bytes(part)).request(owner))
        except ValidationError as error:
            faults.extend(faults_in(error, None, "operations", str(number)))
        except FieldInvalid as error:
            faults.append(FieldInvalid(f"operations.{number}: {error}"))
        if len(faults) >= MOST_FAULTS:
            break
        if turns.is_due():
            await turns.give()
    if faults:
        raise RequestInvalid(faults)
    return read


def _operation(content: bytes) -> OperationBody:
    if len(content) > OPERATION_BYTES:
        raise BodyTooLarge(f"an operation takes up to {OPERATION_BYTES} bytes")
    check_values(content, OPERATION_VALUES)
    read = OperationBody.model_validate_json(content)
    chosen = read.chosen
    refuse_repeated(content, 1 + len(chosen.model_fields_set if chosen else ()))
    return read


def _parts(content: bytes) -> tuple[msgspec.Raw, list[msgspec.Raw]]:
    """Return the array of operations, and each of them, as JSON; they are located and counted, but not parsed."""
    try:
        fields = _BATCH.decode(content)
        if fields.keys() != {"operations"}:
            raise RequestInvalid(_wrong_fields(fields))
        array = fields["operations"]
        if content.count(b":") - bytes(array).count(b":") > 1:
            raise FieldInvalid("the field 'operations' stands twice")
        parts = _OPERATIONS.decode(array)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _raise_malformed(error)
    if not 1 <= len(parts) <= BATCH_MAX:
        raise FieldInvalid(f"operations: must have 1 to {BATCH_MAX} entries, not {len(parts)}")
    return array, parts


def _wrong_fields(fields: dict[str, msgspec.Raw]) -> Iterator[RequestError]:
    if "operations" not in fields:
        yield FieldMissing("operations: is missing")
    for name in fields:
        if name != "operations":
            yield FieldUnknown(f"{name[:100]}: there is no such field; there are: operations")


def _raise_malformed(error: Exception) -> NoReturn:
    if isinstance(error, RecursionError):
        raise BodyTooComplex("the body is nested too deeply") from None
    if isinstance(error, msgspec.ValidationError):
        raise FieldInvalid(f"a batch is an object, and its operations are an array: {error}") from None
    raise BodyMalformed(str(error)) from None
