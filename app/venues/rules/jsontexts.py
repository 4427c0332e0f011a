"""JSON files of providers, read one entry at a time within bounds.

A file is one object. Its first field that is a list or an object tells its form; the fields before and after it are
plain values. Lists of entries are never in memory as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from app.domain.inputs import InputError

_VALUE = r'(?:"[^"\\]{0,10000}"|-?[0-9.]{1,30}|null|true|false)'
_HEAD = re.compile(rf'\ufeff?\s*\{{\s*(?:"\w{{1,64}}"\s*:\s*{_VALUE}\s*,\s*){{0,20}}"(\w{{1,64}})"\s*:\s*(?=[\[{{])')
_END = re.compile(rf'\s*(?:,\s*"\w{{1,64}}"\s*:\s*{_VALUE}\s*){{0,20}}\}}\s*')
_LONGEST_ENTRY = 10_000
MOST_WHOLE = 16_000_000
"""The most characters of a file that is read as a whole."""


@dataclass(slots=True)
class OpenedJson:
    """A JSON file of which `buffer` was read. Its first field that is no plain value is `name`, and begins at `at`."""

    name: str
    buffer: str
    at: int
    rest: Iterator[str]


def opened_json(chunks: Iterable[str]) -> OpenedJson:
    """Return a file as far as its form is known. Raise InputError if it is no object with a list or an object in it."""
    texts, buffer = iter(chunks), ""
    while not (head := _HEAD.match(buffer)):
        more = next(texts, "")
        if not more or len(buffer) > 2 * _LONGEST_ENTRY:
            raise InputError("the JSON has no form that is known here")
        buffer += more
    return OpenedJson(head[1], buffer, head.end(), texts)


def entries(opened: OpenedJson, decoder: json.JSONDecoder) -> Iterator[Any]:
    """Yield the entries of the list that tells the form, one after another. Raise InputError where the form breaks."""
    texts, buffer, at, count = opened.rest, opened.buffer, opened.at + 1, 0
    if buffer[opened.at] != "[":
        raise InputError(f"{opened.name} is no list")
    while True:
        if len(buffer) - at < _LONGEST_ENTRY:
            buffer, at = buffer[at:] + next(texts, ""), 0
        rest = _after_spaces(buffer, at)
        if buffer[rest : rest + 1] == "]":
            break
        if count:
            if buffer[rest : rest + 1] != ",":
                raise _broken(count)
            rest = _after_spaces(buffer, rest + 1)
        try:
            entry, at = decoder.raw_decode(buffer, rest)
        except (ValueError, RecursionError):
            raise _broken(count) from None
        count += 1
        yield entry
    _check_end(texts, buffer[rest + 1 :], count)


def whole(opened: OpenedJson, decoder: json.JSONDecoder) -> dict[str, Any]:
    """Return the object of a small file. Raise InputError if it is large, or broken."""
    parts, count = [opened.buffer.removeprefix("\ufeff")], len(opened.buffer)
    for text in opened.rest:
        parts.append(text)
        count += len(text)
        if count > MOST_WHOLE:
            raise InputError(f"holds more than {MOST_WHOLE} characters, which files of this form never do")
    try:
        found = decoder.decode("".join(parts))
    except (ValueError, RecursionError):
        raise InputError("the JSON is broken or cut short") from None
    if not isinstance(found, dict):
        raise InputError("the JSON is no object")
    return found


def _after_spaces(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _broken(count: int) -> InputError:
    return InputError(f"after entry {count}: the JSON is broken or cut short")


def _check_end(texts: Iterator[str], rest: str, count: int) -> None:
    for text in texts:
        rest += text
        if len(rest) > 2 * _LONGEST_ENTRY + len(text):
            break
    if not _END.fullmatch(rest):
        raise _broken(count)
