"""Takes one checkpoint of a job, beside it on its machine, and publishes it.

The manager only starts this. If the manager dies it goes on; if its machine dies, nothing was published. What a killed
one left behind is put right by the next: a program that only stands goes on, and one in which CRIU was interrupted is
ended, for its memory is not trusted, and goes on from its last checkpoint by itself.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from app.managing.checkpointing.drivers import DRIVERS, NotSaved
from app.managing.checkpointing.folders import JobFolder, Manifest, sealed
from app.managing.checkpointing.processes import (
    began_at,
    cpu_flags,
    is_stopped,
    kill_tree,
    let_go_on,
    memory_of,
    outputs_of,
)

AGAIN = "again"
"""The note by which a program that was ended here is brought back at once, on the same machine."""
_NEWER = "a newer run of the job has begun"


@dataclass(frozen=True, slots=True)
class Order:
    """A checkpoint that is to be taken. until: Unix time after which it is worthless; keep: so many are kept after it;
    is_last: the machine goes, so the program does not run on.
    """

    why: str
    keep: int
    until: float | None = None
    is_last: bool = False


def save(folder: JobFolder, order: Order) -> Manifest:
    """Take a checkpoint. Raise NotSaved, or Busy if another one is being taken.

    Also where the disk is full, what is unfinished is removed, and the program goes on.
    """
    with folder.locked():
        program = _mended(folder)
        try:
            return _saved(folder, program, order)
        except NotSaved as error:
            _unsaved(folder, program, order, error)
            raise
        except OSError as error:
            failed = NotSaved(str(error))
            _unsaved(folder, program, order, failed)
            raise failed from None


def _unsaved(folder: JobFolder, program: int, order: Order, error: NotSaved) -> None:
    """Put right what a checkpoint that failed left behind, and tell of it."""
    is_ours = folder.is_current(folder.running().get("run"))
    if error.is_hurt:
        _end(folder, program)
    else:
        let_go_on(program)
    if is_ours and (not error.is_hurt or folder.noted(AGAIN) is not None):
        for generation in folder.unpublished():
            folder.drop(generation)
    _tell(folder, "checkpoint_failed", why=order.why, error=str(error))


def _tell(folder: JobFolder, kind: str, **facts: object) -> None:
    try:
        folder.tell(kind, **facts)
    except OSError as error:
        sys.stderr.write(f"job {folder.job}: {kind} {facts} is not told: {error}\n")


def mend(folder: JobFolder) -> None:
    """Let a program go on that a killed helper left standing. Raise Busy if a checkpoint is being taken."""
    with folder.locked():
        program = _mended(folder)
        if is_stopped(program):
            let_go_on(program)


def _mended(folder: JobFolder) -> int:
    """Return the program of the job, after what a killed one left was put right. Raise NotSaved if it does not run."""
    running = folder.running()
    program, driver = int(running.get("program", 0)), DRIVERS.get(str(running.get("driver")), DRIVERS["none"])
    if program <= 0 or began_at(program) is None or began_at(program) != running.get("program_began_at"):
        raise NotSaved("its program does not run on this machine")
    if not folder.is_current(running.get("run")):
        raise NotSaved(_NEWER)
    for generation in folder.unpublished():
        is_whole = driver.is_left_whole(folder.images(generation))
        if not is_whole:
            _end(folder, program)
        folder.drop(generation)
        _tell(folder, "checkpoint_failed", generation=generation, why="abandoned", error="its writer was killed")
        if not is_whole:
            raise NotSaved("its program was interrupted within a checkpoint, and goes on from the last one")
    return program


def _end(folder: JobFolder, program: int) -> None:
    """End a program that may be damaged. `tenure-job` brings it back from its last checkpoint.

    Without room for the note, it knows that by the unfinished checkpoint, which then stays.
    """
    with suppress(OSError):
        folder.note(AGAIN, "")
    kill_tree(program)


def _saved(folder: JobFolder, program: int, order: Order) -> Manifest:
    running = folder.running()
    driver = DRIVERS[str(running["driver"])]
    memory_bytes, began_s, generation = memory_of(program), time.monotonic(), folder.begin()
    driver.save(program, folder.images(generation))
    outputs, at = outputs_of(program), time.time()
    if not order.is_last:
        let_go_on(program)
    pause_s = time.monotonic() - began_s
    files = sealed(folder.images(generation))
    if order.until is not None and time.time() > order.until:
        raise NotSaved("it was not written before the node goes")
    manifest = Manifest(
        job=folder.job,
        generation=generation,
        at=at,
        why=order.why,
        driver=driver.name,
        tool=driver.version(),
        kernel=platform.release(),
        flags=cpu_flags(),
        memory_bytes=memory_bytes,
        image_bytes=sum(size for size, _ in files.values()),
        pause_s=round(pause_s, 3),
        write_s=round(time.monotonic() - began_s, 3),
        is_stopped=order.is_last,
        outputs=outputs,
        files=files,
    )
    if not folder.is_current(running.get("run")):
        raise NotSaved(_NEWER)
    folder.publish(manifest)
    with suppress(OSError):  # what is older is removed with the next one
        folder.prune(order.keep)
    _told(folder, manifest)
    return manifest


def _told(folder: JobFolder, manifest: Manifest) -> None:
    _tell(
        folder,
        "job_checkpointed",
        generation=manifest.generation,
        why=manifest.why,
        node=os.environ.get("SLURMD_NODENAME", platform.node()),
        bytes=manifest.image_bytes,
        memory_bytes=manifest.memory_bytes,
        pause_s=manifest.pause_s,
        write_s=manifest.write_s,
    )
