"""Tells if a program could be checkpointed: it is run for a moment, and an image of it is taken and thrown away."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.managing.checkpointing.drivers import CheckpointDriver, NotSaved
from app.managing.checkpointing.processes import kill_tree, memory_of


def try_out(driver: CheckpointDriver, command: Sequence[str], after_s: float) -> int:
    """Say what would hinder a checkpoint; return 0 if nothing does, else 1. Without a program the host is asked."""
    if why := driver.missing():
        sys.stdout.write(f"cannot be checkpointed here: {why}\n")
        return 1
    if not command:
        sys.stdout.write(f"{driver.version()} works here; name a program to try it\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="tenure-job-") as folder:
        return _tried(driver, command, after_s, Path(folder))


def _tried(driver: CheckpointDriver, command: Sequence[str], after_s: float, folder: Path) -> int:
    images = folder / "1" / "images"
    images.mkdir(parents=True)
    sys.stdout.flush()
    started = driver.start(command, folder)
    time.sleep(after_s)
    memory_mb, began_s = memory_of(started.program) / 1e6, time.monotonic()
    if not memory_mb:
        sys.stdout.write(f"it had ended after {after_s:g} s: give a shorter --after\n")
        return 1
    try:
        driver.save(started.program, images)
    except NotSaved as error:
        sys.stdout.write(f"cannot be checkpointed: {error}\n")
        return 1
    finally:
        kill_tree(started.program)
    sys.stdout.write(f"can be checkpointed: {memory_mb:.0f} MB in {time.monotonic() - began_s:.1f} s\n")
    return 0
