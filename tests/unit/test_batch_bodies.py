"""The quick reader of batches accepts nothing that the forms refuse, and reads it to the same operations."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest
from pydantic import ValidationError

from app.domain.requests import Operation, StartRequest, StopRequest
from app.domain.values import Market
from app.platform.http.errors import RequestError
from app.scheduling.http.batches import OPERATION_BYTES, OPERATION_VALUES, _operation
from app.scheduling.wire.batches import MOST_BYTES, read_valid

START = '{"start":{"id":"a","market":"on_demand","flavor":"f"%s}}'
STRANGE = [
    START % ',"lifetime_s":3600',
    START % ',"lifetime_s":3600.0',
    START % ',"lifetime_s":0.1',
    START % ',"lifetime_s":0.1234567',
    START % ',"lifetime_s":1e3',
    START % ',"lifetime_s":-0',
    START % ',"lifetime_s":-1',
    START % ',"lifetime_s":1e400',
    START % ',"lifetime_s":99999999999999999999999',
    START % ',"lifetime_s":true',
    START % ',"lifetime_s":"3600"',
    START % ',"lifetime_s":null',
    START % ',"eviction_probability":0.01',
    START % ',"eviction_probability":0.30000000000000004',
    START % ',"eviction_probability":1',
    START % ',"eviction_probability":0',
    START % ',"eviction_probability":null',
    START % ',"at":"1970-01-02T00:00:00Z"',
    START % ',"at":"1970-01-02T00:00:00.1234567Z"',
    START % ',"at":"1970-02-30T00:00:00Z"',
    START % ',"at":"1960-01-01T00:00:00Z"',
    START % ',"at":null',
    START % ',"more":1',
    START % ',"id":"b"',
    START % ',"id":"a"',
    START % ',"lifetime_s":1,"lifetime_s":1',
    START % ',"lifetime_s":null,"lifetime_s":1',
    START % ',"lifetime_s":1,"lifetime_s":null',
    START % ',"at":"1970-01-02T00:00:00Z","at":"1970-01-02T00:00:00+00:00"',
    START % ',"\\u0069d":"a"',
    '{"stop":{"id":"a","id":"a"}}',
    '{"stop":{"id":"a"},"stop":{"id":"a"}}',
    START % ',"id":7',
    START % ',"market":"spot"',
    START % ',"market":"SPOT"',
    START % ',"market":null',
    '{"start":{"id":"a\\n","market":"spot","flavor":"f"}}',
    '{"start":{"id":"\\u0061","market":"spot","flavor":"f"}}',
    '{"start":{"id":"","market":"spot","flavor":"f"}}',
    '{"start":{"id":"ä","market":"spot","flavor":"f"}}',
    '{"start":{"market":"spot","flavor":"f"}}',
    '{"stop":{"id":"a"}}',
    '{"stop":{"id":"a","at":"1970-01-02T00:00:00Z"}}',
    '{"stop":{"id":"a","market":"spot"}}',
    '{"stop":{"id":"a"},"start":null}',
    '{"stop":{"id":"a"},"stop":null}',
    '{"stop":{"id":"a"},"start":{"id":"a","market":"spot","flavor":"f"}}',
    '{"stop":null}',
    "{}",
    "null",
    "[]",
    "7",
    '{"halt":{"id":"a"}}',
    '{"stop":{"id":"%s"}}' % ("a" * MOST_BYTES),
]


def by_forms(text: str) -> Operation | None:
    """Return what the forms read, None where they refuse it."""
    try:
        return _operation(text.encode()).request("owner")
    except (ValidationError, RequestError):
        return None


def quickly(text: str) -> list[Operation] | None:
    """Return what the quick reader reads from an array of this operation alone."""
    array = f"[{text}]".encode()
    return read_valid(msgspec.Raw(array), msgspec.json.decode(array, type=list[msgspec.Raw]), "owner")


@pytest.mark.parametrize("text", STRANGE)
def test_the_quick_reader_agrees_or_refuses(text: str) -> None:
    assert quickly(text) in (None, [by_forms(text)])
    assert by_forms(text) is not None or quickly(text) is None


@pytest.mark.parametrize("text", [text for text in STRANGE if text.count("lifetime_s") > 1 or text.count('"id"') > 1])
def test_no_reader_takes_a_field_that_stands_twice(text: str) -> None:
    assert (quickly(text), by_forms(text)) == (None, None)


def test_ordinary_operations_are_read_quickly() -> None:
    """If it always refused, the test above would hold too."""
    assert quickly(START % ',"lifetime_s":3600') == [
        StartRequest("a", Market.ON_DEMAND, "f", 3_600_000_000, None, None, "owner")
    ]
    assert quickly(START % ',"lifetime_s":0.5,"eviction_probability":0.1,"at":"1970-01-01T00:00:01Z"') == [
        StartRequest("a", Market.ON_DEMAND, "f", 500_000, 0.1, 1_000_000, "owner")
    ]
    assert quickly('{"stop":{"id":"a"}}') == [StopRequest("a", None, "owner")]


def test_both_read_mutated_operations_alike() -> None:
    """Operations with characters changed, left out or doubled: whatever the quick one reads, the forms read too."""
    random, read = Random(1), 0
    for _ in range(20_000):
        text = list(random.choice(STRANGE[:36]))
        for _ in range(random.randrange(3)):
            at = random.randrange(len(text))
            text[at : at + random.randrange(2)] = random.choice([text[at] * 2, random.choice('0a,.-"{}:eE \t'), ""])
        mutated = "".join(text)
        try:
            found = quickly(mutated)
        except msgspec.DecodeError:  # not JSON, or more than one; found before either reader is asked
            continue
        if found is not None and len(found) == 1:
            read += 1
            assert found == [by_forms(mutated)], mutated
    assert read > 1000


def test_a_short_operation_cannot_hold_too_many_values() -> None:
    """The shortest member of an operation that can be valid, as often as it fits."""
    member = '"id":"a",'
    text = '{"stop":{' + member * ((MOST_BYTES - 16) // len(member)) + '"id":"a"}}'
    assert len(text) <= MOST_BYTES < OPERATION_BYTES
    assert (by_forms(text), quickly(text)) == (None, None)
    assert sum(text.count(one) for one in ",{[") < OPERATION_VALUES
    assert json.loads(text) == {"stop": {"id": "a"}}
