"""Places on the threads of recomputations, given to clouds in turn.

A table has a task for each flavor. The tasks of clouds stand in a line each, and a place that becomes free goes to the
next cloud's first task: a cloud with few flavors waits for one task of a cloud with many, and not for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from threading import RLock
from typing import Any

_TaskInLine = tuple[Future[Any], Callable[[], Any]]


class Places:
    """So many places on an executor."""

    def __init__(self, executor: Executor, count: int) -> None:
        self._executor = executor
        self._free = count
        self._lines: dict[int, deque[_TaskInLine]] = {}
        self._changing = RLock()

    def of(self, cloud_id: int) -> Executor:
        """Return an executor whose tasks stand in the cloud's line."""
        return _PlacesOfCloud(self, cloud_id)

    def enter(self, cloud_id: int, call: Callable[[], Any]) -> Future[Any]:
        """Put a call at the end of a cloud's line."""
        answered: Future[Any] = Future()
        with self._changing:
            self._lines.setdefault(cloud_id, deque()).append((answered, call))
            self._fill()
        return answered

    def _fill(self) -> None:
        while self._free and self._lines:
            cloud_id = next(iter(self._lines))
            line = self._lines.pop(cloud_id)
            answered, call = line.popleft()
            if line:
                self._lines[cloud_id] = line  # behind all others
            if answered.set_running_or_notify_cancel():
                self._begin(answered, call)

    def _begin(self, answered: Future[Any], call: Callable[[], Any]) -> None:
        try:
            done = self._executor.submit(call)
        except RuntimeError as error:  # the process stops
            answered.set_exception(error)
            return
        self._free -= 1
        done.add_done_callback(partial(self._end, answered))

    def _end(self, answered: Future[Any], done: Future[Any]) -> None:
        with self._changing:
            self._free += 1
            self._fill()
        try:
            answered.set_result(done.result())
        except Exception as error:  # noqa: BLE001 - the caller's, or that the task was cancelled
            answered.set_exception(error)


class _PlacesOfCloud(Executor):
    """One cloud's line, as an executor."""

    def __init__(self, places: Places, cloud_id: int) -> None:
        self._places = places
        self._cloud_id = cloud_id

    def submit(self, fn: Callable[..., Any], /, *args: object, **kwargs: object) -> Future[Any]:
        """Put a call into the line."""
        return self._places.enter(self._cloud_id, partial(fn, *args, **kwargs))
