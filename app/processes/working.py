"""Runs a worker, alone or beside an API process."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

import uvicorn

from app.commands.beside import FAILED, READY, report
from app.commands.steps import Steps
from app.domain.errors import TenureError
from app.domain.inputs import InputError
from app.platform.background import begun
from app.platform.settings import Settings
from app.processes.around import SIGNALS, heed_no_more, listen, traced
from app.processes.worker import run_worker
from app.processes.worker_wiring import WorkerParts


def work(settings: Settings, steps: Steps, *, leave_with_parent: bool) -> None:
    """Run a worker until it is interrupted, or until its parent process is gone and standard input ends.

    The parent is told when the worker is ready, and the reason if it fails.
    """
    ready = partial(report, READY) if leave_with_parent else partial(steps.say, "the worker is ready")
    with _reported(told=leave_with_parent), traced("worker"):
        port, beside = settings.worker_port, None
        if port is not None:
            beside = partial(_answering, settings, listen(settings.host, port, "TENURE_WORKER_PORT"))
        working = run_worker(settings, beside, ready)
        asyncio.run(_until_told(working, settings, None if leave_with_parent else steps))


@contextmanager
def _reported(*, told: bool) -> Iterator[None]:
    """Tell the parent process why this one fails; expected errors need no traceback."""
    try:
        yield
    except Exception as error:
        if not told:
            raise
        report(f"{FAILED}{error or type(error).__name__}")
        if isinstance(error, TenureError | InputError | OSError):
            raise SystemExit(1) from None
        raise


@asynccontextmanager
async def _answering(settings: Settings, listener: socket.socket, parts: WorkerParts) -> AsyncIterator[None]:
    """Serve a worker's health and metrics on its own event loop, so that a worker that hangs does not answer."""
    from app.processes.api import create_worker_app  # noqa: PLC0415 - most workers do not answer, and start sooner
    from app.processes.run import server_config  # noqa: PLC0415 - as above

    server = _ServerBeside(server_config(create_worker_app(settings, parts), settings, lifespan="off"))
    serving = begun(server.serve(sockets=[listener]), "worker_answers")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _ServerBeside(uvicorn.Server):
    """A server that leaves signals to the program around it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until_told(work: Coroutine[None, None, None], settings: Settings, steps: Steps | None) -> None:
    """Work until a signal; if `steps` is None (a parent process started this), until standard input ends."""
    working = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def leave() -> None:
        if not working.cancelling():  # only once: another cancellation would interrupt the cleanup
            working.cancel()
            if steps is not None:
                steps.stopping()
        elif settings.database_url is not None:  # a database server that this process started must be stopped in order
            os._exit(1)

    for number in SIGNALS:
        loop.add_signal_handler(number, leave)
    if steps is None:
        loop.add_reader(sys.stdin, working.cancel)  # nothing more is written there: it becomes readable at its end
    with suppress(asyncio.CancelledError):
        await working
    for number in SIGNALS:
        loop.remove_signal_handler(number)
    heed_no_more()
