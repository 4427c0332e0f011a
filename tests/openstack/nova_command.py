"""The common part of the commands that measure a whole cloud: the cloud's folder, whether it stays, and the daemon."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nova_daemon import NovaDaemon
from nova_lab import NovaLab, unusable


def command_line(name: str, doc: str, computes: int) -> argparse.ArgumentParser:
    """Return the command line of a command. `computes`: how many, if nothing else is said."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--computes", type=int, default=computes)
    parser.add_argument("--folder", type=Path, default=Path(f"/var/tmp/tenure-openstack-{name}"))
    parser.add_argument("--stays", action="store_true", help="use the cloud that runs in the folder, and leave it")
    return parser


@contextmanager
def lab_of_command(asked: argparse.Namespace) -> Iterator[NovaLab]:
    """The cloud that runs in the folder, or one of the command's own, which ends with it."""
    lab = NovaLab(asked.folder)
    if asked.stays:
        yield lab
        return
    if (why := unusable(asked.folder)) is not None:
        sys.exit(why)
    try:
        lab.up(asked.computes)
        yield lab
    finally:
        lab.down()


@contextmanager
def working_daemon(lab: NovaLab) -> Iterator[NovaDaemon]:
    """A daemon that agrees with Nova."""
    daemon = NovaDaemon(lab)
    try:
        daemon.start()
        daemon.wait_until_it_works()
        daemon.agrees(60)
        yield daemon
    finally:
        daemon.kill()
