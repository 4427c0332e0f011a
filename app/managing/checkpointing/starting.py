"""All that has to be settled before a run of a job may begin: the folder is its own, and no other run writes."""

from __future__ import annotations

import time

from app.managing.checkpointing.fence import Fence
from app.managing.checkpointing.folders import JobFolder
from app.managing.checkpointing.identity import JobIdentity, asked, is_under_slurm, unasked
from app.managing.checkpointing.owing import Owed
from app.managing.programs import ProgramFailed

ASK_S = 30.0
"""For so long Slurm is asked which job this is, where no other one has left anything."""
ROOM_S = 60.0
"""For so long a run waits for room on the disk, where it may not begin without."""
_AGAIN_S = 1.0
_IDENTITY = "identity"


class NoRoom(Exception):
    """Nothing can be written into a job's folder, and its program may not begin without that."""


def identified(folder: JobFolder) -> JobIdentity:
    """Return which job this is. Where the folder may be another job's it waits until Slurm answers."""
    if not is_under_slurm():
        return unasked()
    deadline_s = time.monotonic() + ASK_S
    while True:
        try:
            return asked(folder.job)
        except ProgramFailed:
            if time.monotonic() > deadline_s and not folder.has_work():
                return unasked()
        time.sleep(_AGAIN_S)


def own(folder: JobFolder, who: JobIdentity, owed: Owed) -> None:
    """Make the folder the job's own: that of another job with this number is set aside. Raise NoRoom."""
    if not is_under_slurm():
        return
    noted = folder.identity()
    if folder.has_work() and not who.is_of(noted):
        try:
            aside = folder.set_aside()
        except OSError as error:
            raise NoRoom(f"another job's folder cannot be set aside: {error}") from None
        owed.tell("job_set_aside", folder=aside, error="another job had this number before Slurm lost it")
        noted = {}
    if not noted and who.submitted:
        owed.note(_IDENTITY, who.text())


def take(folder: JobFolder, fence: Fence) -> str:
    """Become the job's current run; return why that cannot be written down, though nothing else writes; empty: it is.

    Raise Superseded if a newer run writes, and NoRoom if this one may not begin.
    """
    deadline_s = time.monotonic() + ROOM_S
    while True:
        try:
            folder.prepare()
            fence.take()
        except OSError as error:
            if not folder.published() and fence.may_go_without():
                return str(error)
            if time.monotonic() > deadline_s:
                raise NoRoom(f"nothing can be written into its folder: {error}") from None
        else:
            return ""
        time.sleep(_AGAIN_S)
