"""The commands `serve`, `worker` and `run`. Options go before environment variables."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.beside import hear_secrets
from app.commands.configuring import DatabaseUrl, DataDir, Host, Port, WorkerPort, database_words, read_settings
from app.commands.outlets import outlive_readers
from app.commands.steps import Steps

if TYPE_CHECKING:
    from app.platform.settings import Settings


_LESS_URGENT = 10
"""The nice value of a process that compiles beside a worker."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: tenure serve --port 8081")(serve)
    app.command(epilog="Example: TENURE_FORECAST_THREADS=4 tenure worker")(worker)
    app.command(epilog="Example: tenure run --data-dir /var/lib/tenure")(run)


def serve(*, host: Host = None, port: Port = None, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Answer HTTP requests. A worker has to run beside it."""
    settings = read_settings(host=host, port=port, data_dir=data_dir, database_url=database_url)
    _serve(settings, with_worker=False)


def run(*, host: Host = None, port: Port = None, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """Answer HTTP requests, with a worker beside it."""
    settings = read_settings(host=host, port=port, data_dir=data_dir, database_url=database_url)
    _serve(settings, with_worker=True)


def worker(
    *,
    host: Host = None,
    port: WorkerPort = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    leave_with_parent: Annotated[
        bool, typer.Option("--leave-with-parent", help="Stop when standard input ends.", hidden=True)
    ] = False,
    compile_only: Annotated[
        bool, typer.Option("--compile-only", help="Compile what a worker calls, with low priority.", hidden=True)
    ] = False,
) -> None:
    """Compute quantile tables, take snapshots, and do all other work by the clock."""
    if compile_only:
        _compile()
        return
    if leave_with_parent:
        hear_secrets()
    settings = read_settings(host=host, worker_port=port, data_dir=data_dir, database_url=database_url)
    with _logged("worker", settings) as steps:
        if not leave_with_parent:
            steps.say(f"starting a worker on {database_words(settings)}")
        with _uncollected():
            from app.processes import working  # noqa: PLC0415 - the service's libraries are slow to load

        working.work(settings, steps, leave_with_parent=leave_with_parent)


def _serve(settings: Settings, *, with_worker: bool) -> None:
    with _logged("serve", settings) as steps:
        with steps.step("loading"), _uncollected():
            from app.processes import run as service  # noqa: PLC0415 - as above

        service.serve(settings, steps, with_worker=with_worker)


def _compile() -> None:
    os.nice(_LESS_URGENT)
    from app.processes.warming import warm_up_worker  # noqa: PLC0415 - as above

    warm_up_worker()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Load without the garbage collector: a sixth of the time would go by in finding nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _logged(process: str, settings: Settings) -> Iterator[Steps]:
    from app.platform.telemetry.logs import start_logging  # noqa: PLC0415 - as above

    outlive_readers()
    start_logging(process, settings.log_level, settings.log_format, requests=settings.log_requests)
    yield Steps(to_log=settings.log_format == "json")
