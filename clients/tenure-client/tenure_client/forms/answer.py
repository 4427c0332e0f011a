"""The parts of all forms."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, to_builtins

Json = dict[str, Any]
Seconds = int | float
Moment = Annotated[datetime, Meta(tz=True)]
"""A time with an offset."""


class Answer(Struct):
    """The root of all answers. The service writes every field, including those with a default for older services."""


A = TypeVar("A", bound=Answer)


class Link(Answer, kw_only=True):
    rel: str
    href: str


def json_of(answer: Answer) -> Json:
    """Return the answer as JSON values, in the fields of the HTTP interface."""
    found: Json = to_builtins(answer)
    return found


def answer_of(form: type[A], value: object, **others: Any) -> A:  # noqa: ANN401 - fields of the form
    """Return the answer with the fields that the value has under the same names, and these others."""
    same = {name: getattr(value, name) for name in form.__struct_fields__ if name not in others}
    return form(**same, **others)


def one_of(words: Iterable[str], description: str | None = None) -> Meta:
    """Describe the words that a field has at present. They are documented, but any string is read."""
    return Meta(description=description, extra_json_schema={"enum": [str(word) for word in words]})
