"""Long work that regularly lets other tasks run.

The event loop does one slice of all long work in a pass, however many tasks do such work. A request that asks for
little waits for a few slices, not for as many as there are requests that ask for much.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

TURN_S = 0.005
"""The time that work may take before others get a turn."""
_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""The lock that long work takes for each slice, by event loop."""


class Turns:
    """Tells when other tasks need a turn, and gives it to them. The first slice needs no turn of its own."""

    def __init__(self) -> None:
        self._since = perf_counter()
        self._line: asyncio.Lock | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next one go on."""
        self._leave()

    def is_due(self) -> bool:
        """Return True if this work has had its time."""
        return perf_counter() - self._since > TURN_S

    async def give(self) -> None:
        """Let all other ready tasks run first, and the long work that waits already."""
        self._leave()
        await asyncio.sleep(0)
        line = _LINES.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        await line.acquire()
        self._line, self._since = line, perf_counter()

    def _leave(self) -> None:
        if self._line is not None:
            asyncio.get_running_loop().call_soon(self._line.release)  # not now: the next slice is of another pass
            self._line = None


async def in_turns(work: Generator[None, None, T]) -> T:
    """Return what the work returns. It yields wherever others may have a turn, at least every millisecond or so."""
    with Turns() as turns:
        while True:
            try:
                next(work)
            except StopIteration as done:
                found: T = done.value
                return found
            if turns.is_due():
                await turns.give()


class Rounds:
    """Calls that wait for their turn: one in each pass of the event loop."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()

    def add(self, call: Callable[[], None]) -> None:
        """Make the call when its turn comes."""
        self._calls.append(call)
        if len(self._calls) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            self._calls[0]()
        finally:
            self._calls.popleft()
            if self._calls:
                asyncio.get_running_loop().call_soon(self._next)


class Collector:
    """Python's garbage collector, which can wait while very many objects are made that stay.

    It looks through all objects each time their number has grown by a quarter, and nothing else runs meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Collect nothing until this block is over, and those of other threads that began meanwhile.

        Objects that are there at the end are not looked through again, until `looks_again`.
        """
        self._change(+1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._blocks += by
            if self._blocks:
                gc.disable()
            else:
                gc.freeze()
                gc.enable()

    def looks_again(self) -> None:
        """Look through all objects again, because some of those that should have stayed were given up."""
        gc.unfreeze()


COLLECTOR = Collector()
