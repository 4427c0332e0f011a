"""Pages of lists that are too long for one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the marker that the next page follows; None on the last."""

    items: Sequence[T]
    marker: str | None
