"""Readings of a state that stands still, each made once.

A pass over all rows of a large cloud takes a good part of a millisecond. A decision may ask for many lifetimes of one
start, and for each of them the same passes would be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Readings:
    """The readings of a block within which nothing is folded; none outside of one."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] | None = None
        self._gone: tuple[str, ...] = ()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Keep what is read within the block: nothing may be folded there."""
        if self._known is not None:
            yield
            return
        self._known = {}
        try:
            yield
        finally:
            self._known = None

    def once(self, read: Callable[P, T]) -> Callable[P, T]:
        """Return the function, but within a block its earlier answer to the same question."""

        def reading(*args: P.args, **named: P.kwargs) -> T:
            if self._known is None:
                return read(*args, **named)
            question = (read, self._gone, args, *named.items())
            if question not in self._known:
                self._known[question] = read(*args, **named)
            answer: T = self._known[question]
            return answer

        return reading

    def apart(
        self, without: Callable[[Iterable[str]], AbstractContextManager[None]]
    ) -> Callable[[Iterable[str]], AbstractContextManager[None]]:
        """Return `without`, which frees the room of instances within a block; what is read there is kept apart."""

        @contextmanager
        def leaving_out(names: Iterable[str]) -> Iterator[None]:
            gone, before = tuple(names), self._gone
            with without(gone):
                self._gone = (*before, *gone)
                try:
                    yield
                finally:
                    self._gone = before

        return leaving_out
