"""The words for a value that a field does not take. Pydantic's own speak of its types and of regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import StringConstraints

from app.domain.values import NAME_PATTERN, OWNER_PATTERN

_WORDS = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number, and not so large",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "string_unicode": "must be a text in UTF-8",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries, not {actual_length}",
    "too_long": "must have at most {max_length} entries, not {actual_length}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}
_BEGINS = "must begin with a letter or digit, and may hold letters, digits"
_PATTERNS = {
    f"^{NAME_PATTERN}$": f"{_BEGINS}, dots, underscores and dashes, at most 255 characters",
    f"^{OWNER_PATTERN}$": f"{_BEGINS}, underscores and dashes",
    "^[!-~]+$": "must be printable ASCII without spaces",
    "^[0-9a-f]{64}$": "must be 64 hexadecimal digits, in small letters",
}


def written(pattern: str, words: str) -> StringConstraints:
    """Return the constraint of a text to a pattern, of which words tell: "must be ..."."""
    _PATTERNS[pattern] = words
    return StringConstraints(pattern=pattern)


def plain(fault: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, by an entry of `ValidationError.errors()`, or pydantic's words."""
    kind, told = fault["type"], fault.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(told["pattern"], f"must have the form {told['pattern']}")
    if kind in ("string_too_short", "too_short") and told["min_length"] == 1:
        return "must not be empty"
    if kind not in _WORDS:
        return str(fault["msg"])
    return _WORDS[kind].format_map({name: _number(value) for name, value in told.items()})


def _number(value: object) -> object:
    """Return 1.0 as 1, as a person would write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
