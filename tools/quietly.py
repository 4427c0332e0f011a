"""Run a command and show that it works, not what it says: `quietly.py WHAT COMMAND...`; all of it if it fails.

On a terminal a line moves on with the time and the command's last words; elsewhere a line is written every ten seconds.
Needs the standard library alone, since it runs before anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LOOK_S = 0.2
_WORTH_TELLING_S = 3.0
_AGAIN_S = 10.0
_WIDTH = 100
_SPINNER = "|/-\\"


def main() -> int:
    """Run the command; its exit code."""
    what, command = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:  # noqa: S603 - ours
            (_on_terminal if sys.stdout.isatty() else _in_lines)(what, process, said)
        if process.returncode:
            sys.stderr.write(said.read_text(errors="replace"))
            sys.stderr.write(f"{what}: failed with exit code {process.returncode}\n")
        return process.returncode


def _on_terminal(what: str, process: subprocess.Popen[bytes], said: Path) -> None:
    began, turn = time.monotonic(), 0
    while process.poll() is None:
        turn += 1
        last = (said.read_text(errors="replace").strip().splitlines() or [""])[-1].strip()
        line = f"{_SPINNER[turn % len(_SPINNER)]} {what}{_elapsed(began)} {last}"
        sys.stdout.write("\r\x1b[K" + line[:_WIDTH])
        sys.stdout.flush()
        time.sleep(_LOOK_S)
    sys.stdout.write(f"\r\x1b[K{what}{_elapsed(began)}\n")
    sys.stdout.flush()


def _in_lines(what: str, process: subprocess.Popen[bytes], said: Path) -> None:  # noqa: ARG001 - as above
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()
    began = told = time.monotonic()
    while process.poll() is None:
        time.sleep(_LOOK_S)
        if time.monotonic() - told >= _AGAIN_S:
            told = time.monotonic()
            sys.stdout.write(f"{what}{_elapsed(began)}\n")
            sys.stdout.flush()


def _elapsed(began: float) -> str:
    elapsed_s = time.monotonic() - began
    return f" ({elapsed_s:.0f} s)" if elapsed_s >= _WORTH_TELLING_S else ""


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nstopped")
