"""Pages of lists whose items may be large: bounded in bytes too, and made a few items in a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.json import Encoder

from app.platform.turns import Turns

T = TypeVar("T")

MOST_BYTES = 1 << 20
"""The bytes of the items in a page, unless a single one has more. What is not taken stays in memory."""
_encode = Encoder().encode


async def every_answer(items: Sequence[T], answer_of: Callable[[T], object]) -> list[Any]:
    """Return the answers to all items of what is no page, as JSON that takes its place in an answer."""
    return await _answers(items, answer_of, inf)


async def first_answers(items: Sequence[T], answer_of: Callable[[T], object]) -> list[Any]:
    """Return the answers to the first items, as JSON that takes its place in an answer: as many as a page may have."""
    return await _answers(items, answer_of, MOST_BYTES)


def marker_after(items: Sequence[T], count: int, name_of: Callable[[T], str], marker: str | None) -> str | None:
    """Return the marker of the next page if this one has the first `count` items: `marker` if these are all of them."""
    return marker if count == len(items) else name_of(items[count - 1])


async def _answers(items: Sequence[T], answer_of: Callable[[T], object], most_bytes: float) -> list[Any]:
    answers, size = list[Any](), 0
    with Turns() as turns:
        for item in items:
            answer = _encode(answer_of(item))
            size += len(answer)
            if answers and size > most_bytes:
                break
            answers.append(Raw(answer))
            if turns.is_due():
                await turns.give()
    return answers
