"""A whole cloud from the command line: `python harness.py up --computes 10`, `status`, `down`.

Each cloud has a folder (--folder) and ports of its own, so several stand side by side.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from nova_lab import NovaLab  # noqa: E402 - found by the line above

MEBIBYTE = 2**20
FOLDER = Path("/var/tmp/tenure-openstack-lab")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("up", "down", "status", "variables"))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--computes", type=int, default=2)
    asked = parser.parse_args()
    lab = NovaLab(asked.folder)
    if asked.command == "up":
        up(lab, asked.computes)
    elif asked.command == "down":
        lab.down()
    elif asked.command == "status":
        status(lab)
    else:
        say("\n".join(f"export {name}={shlex.quote(value)}" for name, value in lab.variables().items()))


def up(lab: NovaLab, computes: int) -> None:
    """Bring it up, and tell how long it took until a first server was active, and the memory of all processes."""
    began_s = time.monotonic()
    lab.up(computes)
    say(f"{computes} computes can take servers after {time.monotonic() - began_s:.1f} s")
    server = lab.wait_for(lab.create("first", "small").id)
    say(f"the first server is {server.status} on {server.hypervisor_hostname} after {time.monotonic() - began_s:.1f} s")
    lab.cloud.compute.delete_server(server.id)
    status(lab)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def status(lab: NovaLab) -> None:
    resident = lab.processes.resident()
    for name, size in resident.items():
        say(f"{name:12} {lab.ports.get(name, ''):>6} {size / MEBIBYTE:7.0f} MiB {'' if size else 'gone'}".rstrip())
    say(f"{'all':12} {'':6} {sum(resident.values()) / MEBIBYTE:7.0f} MiB")


if __name__ == "__main__":
    main()
