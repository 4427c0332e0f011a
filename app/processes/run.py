"""Runs the API, alone or with a worker beside it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from shutil import which
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.commands.beside import WorkerBeside
from app.commands.configuring import database_words, unknown_variables
from app.commands.steps import Steps
from app.identity.service import AdminOrigin, AdminToken
from app.platform.database.migrating import at_last, upgrade
from app.platform.settings import Settings
from app.processes.api import connections, create_app, end_waits
from app.processes.around import SIGNALS, hear, heed_no_more, listen, traced
from app.processes.warming import warm_up
from app.processes.wiring import database_url

_EARS = 16
_SWITCH_S = 0.0005
"""A thread that counts lets a request go on after this time, which asks for its turn many times until it is answered.

With Python's own 5 ms the slowest starts beside quotes of a large venue take half as long again (`make hostile`).
"""
_YOUNG = 20_000
"""New objects before the collector looks through them. A batch makes thousands, which nearly all go without it."""
_TOKENS = frozenset({"TENURE_ADMIN_TOKEN", "TENURE_TOKEN"})
_SECRETS = frozenset(
    {"TENURE_DATABASE_URL", "PGPASSWORD", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}
)


def server_config(app: FastAPI, settings: Settings, **changed: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own
    """Return uvicorn's settings. Nothing in the service depends on what a proxy says of the caller."""
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


def serve(settings: Settings, steps: Steps, *, with_worker: bool) -> None:
    """Run the API until it is interrupted, with a worker process if asked for. Raises InputError for a taken port."""
    listener = listen(settings.host, settings.port)
    sys.setswitchinterval(_SWITCH_S)
    interrupts = _Interrupts(steps)
    with traced("serve"), suppress(KeyboardInterrupt), ExitStack() as stack:
        with steps.step("preparing the engine; a first start compiles it, which may take some minutes"):
            warm_up()
        with steps.step(f"starting {database_words(settings)}"), interrupts.held():
            url = stack.enter_context(database_url(settings, rest=interrupts.rest))
        here = settings.model_copy(update={"database_url": url})
        at_last(partial(upgrade, url, timeout_s=settings.database_timeout_s))
        starting = stack.enter_context(ExitStack())
        starting.enter_context(steps.step("starting the API" + (" and the worker" if with_worker else "")))
        app = create_app(here)
        port = listener.getsockname()[1]

        def greet() -> None:
            starting.close()
            steps.show(greeting(settings, port, app.state.admin_token))

        ready = _Together({"api", "worker"} if with_worker else {"api"}, greet)
        server = ReadyServer(
            server_config(app, settings), partial(end_waits, app), partial(ready.arrived, "api"), steps
        )
        if with_worker:
            environment, secrets = worker_environment(settings, url)
            on_ready = partial(ready.arrived, "worker")
            stack.enter_context(WorkerBeside(environment, secrets, on_ready, lambda: server.force_exit))
        server.run(sockets=[listener])
    heed_no_more()


def worker_environment(settings: Settings, url: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of a worker beside this process, and the secrets to send to it.

    An environment can be read as long as the process lives, so it holds no secret. A worker gets no tokens at all.
    """
    wrong = unknown_variables(os.environ)  # this process has warned of them
    ours = {"TENURE_DATABASE_URL": url, "TENURE_HOST": settings.host, "TENURE_SPOOL_DIR": str(settings.spool)}
    known = {name: value for name, value in os.environ.items() if name not in wrong and name.upper() not in _TOKENS}
    secrets = {name: value for name, value in (known | ours).items() if name.upper() in _SECRETS}
    return {name: value for name, value in (known | ours).items() if name not in secrets}, secrets


class _Together:
    """Calls `done` once all of `parts` have arrived, from any thread."""

    def __init__(self, parts: set[str], done: Callable[[], None]) -> None:
        self._missing = parts
        self._done = done
        self._changing = threading.Lock()

    def arrived(self, part: str) -> None:
        """Note that one part has arrived."""
        with self._changing:
            last = self._missing == {part}
            self._missing.discard(part)
        if last:
            self._done()


class _Interrupts:
    """Handles SIGINT and SIGTERM until the server does: the first stops the start, later ones are ignored."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._noted = False
        self._holding = False
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal module's own
        if self._noted:
            return
        self._noted = True
        logging.disable()  # a terminal's Ctrl-C also reaches the programs that we started, and they complain
        self._steps.stopping()
        if not self._holding:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay an interrupt to the end of the block, because something half started could not be stopped."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._noted:
                raise KeyboardInterrupt

    def rest(self, seconds: float) -> None:
        """Pause within a held block, where nothing is half started: an interrupt ends it."""
        self._holding = False
        if self._noted:
            raise KeyboardInterrupt
        time.sleep(seconds)
        self._holding = True


class ReadyServer(uvicorn.Server):
    """A server that reports its address when it is ready, and stops in order however often it is told to."""

    def __init__(
        self,
        config: uvicorn.Config,
        end_waits: Callable[[], None],
        ready: Callable[[], None] = lambda: None,
        steps: Steps | None = None,
    ) -> None:
        super().__init__(config)
        self._end_waits = end_waits
        self._ready = ready
        self._steps = steps

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so. Raises InputError if another process has taken the port meanwhile."""
        for one in sockets or ():
            hear(one, self.config.backlog)
        await super().startup(None if sockets is None else [ear for one in sockets for ear in _ears(one)])
        if threading.current_thread() is threading.main_thread():
            # These objects stay for good, so the collector need not look through them every few thousand requests.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End answers that may take long, wait for the rest, and in any case close what the lifespan opened."""
        self._end_waits()
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for good: uvicorn would raise them again at its end and so interrupt the cleanup."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's own
        """Stop; at another Ctrl-C do not wait for requests."""
        first, self.should_exit = not self.should_exit, True
        self.force_exit = self.force_exit or (not first and sig == signal.SIGINT)
        if self._steps is not None and first:
            self._steps.stopping("; Ctrl-C once more stops at once")


def _ears(listener: socket.socket) -> list[socket.socket]:
    """Return the socket, and copies to accept by: in a pass of the event loop each accepts one connection.

    A pass takes long where very many connections have something to read; with one ear, new ones would wait in vain.
    """
    return [listener, *(listener.dup() for _ in range(_EARS - 1))]


def greeting(settings: Settings, port: int, token: AdminToken) -> str:
    """Return the text for a ready service: its address, the admin token, and the first request while none was made."""
    host = "localhost" if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.host  # noqa: S104
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    lines = [
        f"Tenure is ready at {url}  (pages: {url}/ui, documentation: {url}/docs)",
        "",
        *_token_lines(settings, token),
        f"    export TENURE_URL={url}",
        "",
    ]
    if token.origin is not AdminOrigin.USED:
        lines += [
            "The first request:",
            "",
            f'    curl -s {url}/v1/clouds -H "X-Auth-Token: $TENURE_TOKEN" '
            "-H 'Content-Type: application/json' -d '{\"name\": \"first\"}'",
            "",
        ]
    return "\n".join(lines)


def _token_lines(settings: Settings, token: AdminToken) -> list[str]:
    another = f"{_command()} token create NAME --role admin{_database_option(settings)}"
    match token.origin:
        case AdminOrigin.MADE:
            first = "The admin token; a start shows a new one, and revokes the unused one before, until one was used:"
            return [first, "", f"    export TENURE_TOKEN={token.secret}"]
        case AdminOrigin.GIVEN:
            return ["The admin token is the one in TENURE_ADMIN_TOKEN.", ""]
        case AdminOrigin.SHOWN:
            return [
                "Another process on this database has shown the admin token. Where it is lost:",
                "",
                f"    {another}",
            ]
        case AdminOrigin.USED:
            return ["The admin token is one that was shown or made before. Where it is lost:", "", f"    {another}"]


def _command() -> str:
    """Return what runs this installation's command in the caller's shell, where it need not be on the PATH."""
    return "tenure" if which("tenure") else quote(str(Path(sys.executable).with_name("tenure")))


def _database_option(settings: Settings) -> str:
    """Return the option that leads a command to the same database from any folder.

    A database URL may hold a password, so it is never an option but a variable.
    """
    return f" --data-dir {quote(str(settings.data_dir))}" if settings.database_url is None else ""
