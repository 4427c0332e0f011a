"""Running the service: the API, the worker, or both with one command."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI

from app.main import connections, create_app, create_worker_app, end_streams
from app.settings import Settings
from app.telemetry.logs import start_logging
from app.telemetry.tracing import TracingImpossible, tracing
from app.wiring import WorkerParts, database_url, prepare

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOP_S = 30
_RESTART_S = 1.0


def server_config(app: FastAPI, settings: Settings, **changed: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own
    """How uvicorn runs an application; nothing of ours depends on who a proxy says the caller is."""
    options: dict[str, Any] = {
        "loop": "uvloop",
        "http": connections(app, settings),
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "proxy_headers": False,
        "server_header": False,
    }
    return uvicorn.Config(app, **options | changed)


def serve(settings: Settings, *, with_worker: bool) -> None:
    """Run the API until it is interrupted, and with it a worker process if asked for."""
    start_logging("serve", settings.log_level, settings.log_format, requests=settings.log_requests)
    # Until the server has the signals, both of them unwind in good order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logger.info("starting; a first start compiles the engine, which may take a minute")
    with _traced("serve"), suppress(KeyboardInterrupt), database_url(settings) as url:
        here = settings.model_copy(update={"database_url": url})
        new_token = asyncio.run(prepare(here))
        listener = _listen(settings.host, settings.port)
        greeting = _greeting(settings, listener.getsockname()[1], new_token)
        app = create_app(here)
        with _Worker(url) if with_worker else nullcontext():
            Server(server_config(app, settings), partial(end_streams, app), greeting).run(sockets=[listener])
    _heed_no_more()


class Server(uvicorn.Server):
    """Says where it is when it is ready, not before; and stops in good order, however often it is told."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None], greeting: str = "") -> None:
        super().__init__(config)
        self._end_streams = end_streams
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if threading.current_thread() is threading.main_thread():
            # What is there by now stays, so the collector need not look through it again every few thousand requests.
            gc.collect()
            gc.freeze()
        if self.started:
            sys.stdout.write(self._greeting)
            sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would never end by itself, wait for the rest, and close what the lifespan opened in any case."""
        self._end_streams()
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """For good: uvicorn would raise them again when it has stopped, and so break off what is tidied up then."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's own
        """Stop; at another Ctrl-C do not wait for requests."""
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True


def work(settings: Settings, *, leave_with_parent: bool) -> None:
    """Run a worker until it is interrupted, or until the process at the other end of its standard input is gone."""
    from app.worker.main import run_worker  # noqa: PLC0415 - an API process starts sooner without the worker's room

    start_logging("worker", settings.log_level, settings.log_format, requests=settings.log_requests)
    beside = None if settings.worker_port is None else partial(_answering, settings, settings.worker_port)
    with _traced("worker"):
        asyncio.run(_until_told(run_worker(settings, beside), leave_with_parent=leave_with_parent))


@contextmanager
def _traced(process: str) -> Iterator[None]:
    try:
        with tracing(process):
            yield
    except TracingImpossible as error:
        raise SystemExit(f"tenure: {error}") from None


@asynccontextmanager
async def _answering(settings: Settings, port: int, parts: WorkerParts) -> AsyncIterator[None]:
    """A worker's answers to who asks how it is, on its own event loop: a worker that hangs does not answer."""
    listener = _listen(settings.host, port)
    server = _Beside(server_config(create_worker_app(settings, parts), settings, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _Beside(uvicorn.Server):
    """A server that leaves signals to whoever runs beside it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until_told(work: Coroutine[None, None, None], *, leave_with_parent: bool) -> None:
    working = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def leave() -> None:
        if not working.cancelling():  # once: the next one would break off the tidying up
            working.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, leave)
    if leave_with_parent:
        loop.add_reader(sys.stdin, leave)  # nothing is ever written there: it is readable when it ends
    with suppress(asyncio.CancelledError):
        await working
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
    _heed_no_more()


def _heed_no_more() -> None:
    """All is over: another signal would only break off the interpreter's own leave."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _listen(host: str, port: int) -> socket.socket:
    """The socket to serve on, bound before anything is promised. SystemExit where the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"tenure: cannot listen on {host}:{port}: {error.strerror}") from error
    listener.set_inheritable(True)
    return listener


class _Worker:
    """A worker on the same database, in a process of its own: its work never delays an answer.

    It has its own process group, so that Ctrl-C reaches this process alone, which then stops it in good order; it
    watches its standard input, so that it leaves as well when this process is killed; and if it dies it is replaced.
    """

    def __init__(self, url: str) -> None:
        self._environment = os.environ | {"TENURE_DATABASE_URL": url}
        self._stopping = threading.Event()
        self._process = self._start()
        self._watch = threading.Thread(target=self._replace_when_dead, name="worker-watch", daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "app.cli", "worker", "--leave-with-parent"]
        return subprocess.Popen(command, env=self._environment, process_group=0, stdin=subprocess.PIPE)  # noqa: S603

    def _replace_when_dead(self) -> None:
        while not self._stopping.is_set():
            status = self._process.wait()
            if not self._stopping.wait(_RESTART_S):
                logger.error("the worker ended and is started again", extra={"status": status})
                self._process = self._start()


def _greeting(settings: Settings, port: int, new_token: str | None) -> str:
    host = "localhost" if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.host  # noqa: S104
    url = f"http://{host}:{port}"
    lines = [f"Tenure is ready at {url}  (pages: {url}/ui, documentation: {url}/docs)"]
    if new_token is not None:
        lines += ["", "The admin token, shown this once:", "", f"    export TENURE_TOKEN={new_token}"]
    else:
        lines += ["", "Your admin token is the one shown at first start, or TENURE_ADMIN_TOKEN if you set it."]
    lines += [
        "",
        "The first request:",
        "",
        f'    curl -s {url}/v1/clouds -H "X-Auth-Token: $TENURE_TOKEN" '
        "-H 'Content-Type: application/json' -d '{\"name\": \"first\"}'",
        "",
    ]
    return "\n".join(lines)
