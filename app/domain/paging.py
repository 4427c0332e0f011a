"""Pages of lists that are too long for one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and the marker that asks for the next part; None on the last one."""

    items: Sequence[T]
    marker: str | None
