"""Puts right what Slurm's controller has lost of jobs at its death.

It writes its state each five seconds, and its record of ended jobs at once. So after its death it may call a job
running or waiting that had ended, or that a person had cancelled. It would run the job again from its beginning. A job
that ran on a node of which it does not know it queues again, to begin a minute later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from app.managing.machines import MachineDriver
from app.managing.programs import ProgramFailed, run
from app.managing.recording import CANCELLED, FINAL, recorded_ends
from app.managing.slurm import Slurm
from app.managing.telling import Telling


class LostEnd(NamedTuple):
    """A job that had ended, and Slurm's word for how. is_awaited: another job waits for it."""

    job: str
    state: str
    is_awaited: bool


def put_right(slurm: Slurm, machines: MachineDriver, telling: Telling) -> None:
    """End the jobs that had ended, and let those that lost their node begin at once.

    One for which another job waits is queued again, for Slurm would call it cancelled, and the other never ready.
    """
    for one in lost_ends(slurm, machines):
        if one.is_awaited:
            slurm.requeue(one.job)
        else:
            slurm.cancel(one.job)
            telling.ended(one.job, one.state)
    for job in slurm.jobs():
        if telling.has_lost_its_node(job):
            with suppress(ProgramFailed):  # Slurm does it, and complains that there is no node for it yet
                slurm.hasten(job.job_id)


def lost_ends(slurm: Slurm, machines: MachineDriver) -> Iterator[LostEnd]:
    """Yield the jobs that Slurm calls running or waiting, of whose end it has a record, and of which nothing runs.

    A job that was queued again has another time of submission, so an earlier end is not taken for its own. One that
    waits and is awaited is left to run again; it was not, if a person had cancelled it.
    """
    ended = recorded_ends(slurm.ended_file)
    for one in slurm.running():
        state = ended.get((one.number, one.submitted))
        if state in FINAL and not _runs(machines, one.host, one.number):
            yield LostEnd(one.job_id, state.lower(), one.is_awaited and state != CANCELLED)
    for one in slurm.pending():
        state = ended.get((one.number, one.submitted))
        if state == CANCELLED or (state in FINAL and not one.is_awaited):
            yield LostEnd(one.job_id, state.lower(), is_awaited=False)


def _runs(machines: MachineDriver, node: str, number: str) -> bool:
    """Return True if a machine has a process that watches over a job."""
    with suppress(ProgramFailed):
        told = run(machines.call(node, ["sh", "-c", "cat /proc/[0-9]*/cmdline; true"]))
        return f"slurmstepd: [{number}." in told
    return False
