"""Computations that many ask for at once and one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A computation shared by all who wait. A result is good for `good_for_s`; an error is told and forgotten."""

    def __init__(self, compute: Callable[[], Coroutine[Any, Any, T]], good_for_s: float = 0.0) -> None:
        self._compute = compute
        self._good_for_s = good_for_s
        self._done_at = float("-inf")
        self._task: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the result of the computation that goes on or that is still good, or begin one."""
        if self._task is None or (self._task.done() and monotonic() - self._done_at >= self._good_for_s):
            # Its context is its own, because it belongs to all who wait.
            self._task = asyncio.create_task(self._compute(), context=Context())
            self._task.add_done_callback(self._note)
        return await asyncio.shield(self._task)

    def _note(self, task: asyncio.Task[T]) -> None:
        failed = task.cancelled() or task.exception() is not None
        self._done_at = float("-inf") if failed else monotonic()
