"""Runs several long tasks over all cores, one task per process, with one account of progress.

A single task runs in this process with threads on all cores; several tasks share the cores among their processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawArray
from typing import Any, Protocol, TypeVar

from app.domain.inputs import WorkEnded
from app.domain.progress import Progress
from app.workbench.endings import end_children, end_with_parent, ending_in_order


class EvaluationTask(Protocol):
    """A unit of work that goes to another process; the task and its result must be picklable."""

    @property
    def size(self) -> int:
        """Number of its steps."""


T = TypeVar("T", bound=EvaluationTask)
R = TypeVar("R")
Work = Callable[[T, Executor, Progress], R]
"""Does a task with an executor of threads, telling its own steps; a function at the top of a module."""

_POLL_S = 0.2
_shared: dict[str, Any] = {}


def run_side_by_side(
    work: Work[T, R], tasks: Sequence[T], *, progress: Progress | None = None, cores: int | None = None
) -> list[R]:
    """Return the results of all tasks, in their order; raise the first error when it happens."""
    told = progress or (lambda *_: None)
    cores = cores or os.cpu_count() or 1
    if len(tasks) == 1:
        return [_run(work, tasks[0], cores, told)]
    workers = max(1, min(cores, len(tasks)))
    context, done = get_context("spawn"), RawArray("q", max(1, len(tasks)))
    begun = ProcessPoolExecutor(workers, mp_context=context, initializer=_share, initargs=(done,))
    with ending_in_order(), begun as pool:
        numbered = enumerate(tasks)
        try:
            futures = [pool.submit(_run_shared, work, task, cores // workers, number) for number, task in numbered]
            _watch(futures, lambda: told(sum(done), sum(task.size for task in tasks)))
        except BaseException as error:
            end_children()
            if isinstance(error, BrokenProcessPool):
                raise WorkEnded("a process of this command was ended, perhaps for want of memory") from error
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


def _watch(futures: list[Future[R]], tell: Callable[[], None]) -> None:
    """Wait until all are done or one has failed; raise its error."""
    left: set[Future[R]] = set(futures)
    while left:
        finished, left = wait(left, _POLL_S, FIRST_EXCEPTION)
        for future in finished:
            future.result()
        tell()


def _run(work: Work[T, R], task: T, threads: int, progress: Progress) -> R:
    with ThreadPoolExecutor(threads) as executor:
        return work(task, executor, progress)


def _share(done: Any) -> None:  # noqa: ANN401 - ctypes arrays have no public type
    """Tell a new process where to report the progress of its tasks. It ends with the one that began it."""
    _shared["done"] = done
    end_with_parent()


def _run_shared(work: Work[T, R], task: T, threads: int, number: int) -> R:
    return _run(work, task, threads, partial(_tell_shared, number))


def _tell_shared(number: int, done: int, _total: int) -> None:
    _shared["done"][number] = done
