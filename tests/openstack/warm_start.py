"""Runs in a Python of OpenStack's: imports modules once, and forks a process for each program that is asked for.

`warm_start.py SOCKET MODULE[:FUNCTION]...` also calls the functions, and ends when its input does. A caller connects,
sends JSON (`program`, a file of Python, `words`, `environment`) with the descriptors of input, output and errors, and
reads the pid and then the exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

MOST_BYTES = 1 << 20


def main() -> None:
    path, *modules = sys.argv[1:]
    for one in modules:
        module, _, function = one.partition(":")
        found = importlib.import_module(module)
        if function:
            getattr(found, function)()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while listening in select.select([listening, sys.stdin], [], [])[0]:
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                serve(caller)
            caller.close()


def serve(caller: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sent, files, _, _ = socket.recv_fds(caller, MOST_BYTES, 3)
    pid = os.fork()
    if pid == 0:
        caller.close()
        run(json.loads(sent), files)
    for file in files:
        os.close(file)
    caller.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    caller.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def run(asked: dict, files: list[int]) -> None:
    """Become the program, with its input, output and errors, and end with it."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [asked["program"], *asked["words"]]
    runpy.run_path(asked["program"], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    main()
