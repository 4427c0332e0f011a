"""The process that the nursery starts others from (`nursery`): it loads the service once, and has no threads."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from nursery import LONGEST, Forked, line

from app.cli import command_line, main
from app.commands import beside
from app.forecasts.recompute import warm_up as warm_up_forecasts
from app.platform.outbound.authorities import trusted
from app.platform.settings import Settings
from app.processes.api import create_app
from app.processes.warming import warm_up


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _serve(orders: socket.socket) -> Sequence[str]:
    """Fork a process for each order; return in such a process, with its arguments."""
    while True:
        message, files, _, _ = socket.recv_fds(orders, LONGEST, 2)
        if not message:
            sys.exit()
        order = json.loads(message)
        if "pid" in order:
            orders.send(json.dumps(_ended(order["pid"])).encode())
        elif pid := os.fork():
            for file in files:
                os.close(file)
            orders.send(json.dumps(pid).encode())
        else:
            orders.close()
            os.chdir(order["folder"])
            _become(order["environment"], dict(enumerate(files, 1)))
            return order["arguments"]


def _become(environment: Mapping[str, str], files: Mapping[int, int]) -> None:
    """Take over the variables, and these files by the numbers of the standard ones."""
    for number, file in files.items():
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)


def _raise_a_worker() -> Sequence[str] | None:
    """Fork the worker of `tenure run` while there are no threads, to be had instead of the first that `run` starts.

    Returns in the worker, once it is wanted, with its arguments; and at once in the other process, with None.
    """
    ours, theirs = line()
    if pid := os.fork():
        theirs.close()
        _hand_out(ours, Forked(pid, _ended))
        return None
    ours.close()
    message, files, _, _ = socket.recv_fds(theirs, LONGEST, 2)
    if not message:
        os._exit(0)
    theirs.close()
    os.setpgid(0, 0)
    order = json.loads(message)
    _become(order["environment"], dict(enumerate(files)))
    return order["arguments"]


def _hand_out(orders: socket.socket, worker: Any) -> None:
    def start(command: Sequence[str], **options: Any) -> Any:
        if worker.waits:
            stdin, stdout = os.pipe(), os.pipe()
            order = {"arguments": command[command.index("worker") :], "environment": options["env"]}
            socket.send_fds(orders, [json.dumps(order).encode()], [stdin[0], stdout[1]])
            orders.close()
            for file in (stdin[0], stdout[1]):
                os.close(file)
            worker.stdin, worker.stdout = os.fdopen(stdin[1], "w"), os.fdopen(stdout[0], errors="replace")
            worker.waits = False
            return worker
        return subprocess.Popen(command, **options)

    worker.waits = True
    beside.subprocess = SimpleNamespace(Popen=start, PIPE=subprocess.PIPE)


def _main(orders: socket.socket) -> None:
    command_line()  # with all commands; these load the rest when they are called
    # What a service imports as it starts, too: the dialect of its database, and the migrations of one that is new.
    for name in ("app.processes.run", "app.processes.working", "sqlalchemy.dialects.postgresql", "alembic.command"):
        import_module(name)
    create_app(Settings())  # the patterns of its paths are compiled once
    trusted()
    warm_up()
    warm_up_forecasts()
    gc.collect()
    gc.freeze()
    arguments = _serve(orders)
    if arguments[0] == "run":
        arguments = _raise_a_worker() or arguments
    sys.argv = ["tenure", *arguments]
    main()


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
