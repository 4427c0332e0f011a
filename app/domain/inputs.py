"""Parsers for values given on the command line and in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby

from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import LEAST_PROBABILITY, Resources

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(s|m|min|h|d)?", re.ASCII)
_BYTES = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(kB|KB|MB|GB|TB)?", re.ASCII)
_NODES = re.compile(r"(\d{1,6})x(\d{1,6})", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A number as JSON has it. Python's and pydantic's readers of text take `1_0`, `+5` and blanks too."""
_PLATFORM = "both from 1 to 999999"
_UNIT_US = {"s": SECOND_US, "m": 60 * SECOND_US, "min": 60 * SECOND_US, "h": HOUR_US, "d": DAY_US, None: SECOND_US}

_UNIT_BYTES = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, None: 1}

NO_TEXT = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""The characters that no text of a caller may hold, as a class of a regular expression: those that command a terminal,
and those that turn the direction of the text around them.
"""


class InputError(ValueError):
    """A file or an option is unreadable. The message says where and why."""


class NoDatabase(Exception):
    """A command found no database of this service, or one of another version. Requests never raise it."""


class OutputLost(Exception):
    """A command could not write what it was to write. The message says where and why. It is nobody's bad input."""


class ReaderGone(OutputLost):
    """Nobody reads any more what a command writes, as after `| head`."""


class WorkEnded(Exception):
    """A process that did a part of a command's work was ended from outside. Requests never raise it."""


def output_lost(place: object, error: OSError, state: str) -> OutputLost:
    """Return the error for a place that could not be written; `state` is what is there now."""
    kind = ReaderGone if isinstance(error, BrokenPipeError) else OutputLost
    return kind(f"{place}: {error.strerror or error}; {state}")


def parse_whole(text: str) -> int:
    """Return the whole number that a cell of a file has. Raise ValueError if it has none."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def parse_number(text: str) -> float:
    """Return the number, written as in JSON, that a cell of a file has. Raise ValueError if it has none."""
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def parse_duration(text: str) -> int:
    """Return the microseconds of a duration such as 45s, 90m or 90min, 24h, 30d. A bare number means seconds."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise InputError(f"{text!r} is not a duration: write 45s, 90m, 24h or 30d; a bare number means seconds")
    return int(Decimal(found[1]) * _UNIT_US[found[2]])


def parse_told_duration(option: str, text: str) -> int:
    """Return the microseconds of a duration that must tell its unit, unless it is 0."""
    duration_us = parse_duration(text)
    if duration_us and not text.strip()[-1].isalpha():
        raise InputError(f"{option} {text} has no unit: write {text.strip()}s for seconds or {text.strip()}h for hours")
    return duration_us


def parse_bytes(option: str, text: str) -> int:
    """Return the bytes of a size such as 64kB, 125MB or 1.25GB, in powers of ten. A bare number means bytes."""
    found = _BYTES.fullmatch(text.strip())
    if not found:
        raise InputError(f"{option} {text!r} is no number of bytes: write 500, 64kB, 125MB or 1.25GB")
    return round(Decimal(found[1]) * _UNIT_BYTES[found[2]])


def parse_nodes(text: str) -> tuple[Resources, ...]:
    """Return the capacities that a text like 31x32 describes: 31 nodes with 32 cores each."""
    found = _NODES.fullmatch(text.strip())
    if not found or not int(found[1]) or not int(found[2]):
        raise InputError(f"{text!r} is not a platform: write 31x32 for 31 nodes with 32 cores each; {_PLATFORM}")
    return (Resources(int(found[2])),) * int(found[1])


def platform_text(nodes: Sequence[Resources]) -> str:
    """Return the text from which `parse_nodes` reads this platform. A plus joins runs of nodes of different size."""
    return "+".join(f"{len(list(equal))}x{cores}" for cores, equal in groupby(node.cores for node in nodes))


def probability_fault(probability: float) -> str | None:
    """Return what is wrong with a probability that is to be promised, as the end of a sentence; None: nothing."""
    if not 0 < probability < 1:
        return "is not between 0 and 1"
    if probability < LEAST_PROBABILITY:
        return f"is below {LEAST_PROBABILITY:g}, the least that can be promised"
    return None
