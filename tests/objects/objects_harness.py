"""Object stores from the command line: `python objects_harness.py up --kind swift --folder F`, `status`, `down`.

Each store has a folder and ports of its own, so several stand side by side.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from object_stores import KINDS, missing

MEBIBYTE = 2**20
FOLDER = Path("/var/tmp/tenure-objects")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument("--kind", choices=tuple(KINDS), default="swift")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    asked = parser.parse_args()
    store = KINDS[asked.kind](asked.folder)
    if asked.command == "down":
        store.down()
        return
    if asked.command == "up":
        why = missing(asked.kind)
        if why is not None:
            sys.exit(why)
        began_s = time.monotonic()
        store.up()
        say(f"{asked.kind} takes objects after {time.monotonic() - began_s:.1f} s")
        for name, value in store.settings().items():
            say(f"export {name}={value}")
    for name, size in store.processes.resident().items():
        say(f"{name:12} {size / MEBIBYTE:7.0f} MiB {'' if size else 'gone'}".rstrip())


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
