"""The job that this is, and the run of it: Slurm gives the number of a lost job away again.

Slurm's controller may die before it has written down that a job was submitted. The next job then gets the same number.
A job that is queued again keeps its script, its command, its user and its working folder. It gets another time of
submission then, and its restart count rises.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from app.managing.programs import ProgramFailed, run

_FORM = "%A %V %S %U %Z %o"
"""Of squeue: the number, the times of submission and of the present start, the user, the folder and the command."""
_EPOCH = {"SLURM_TIME_FORMAT": "%s"}


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Facts that Slurm tells of a job. submitted, started: Unix time, s, 0 where it is not known; started: of this run.

    words: a digest of the user, the working folder and the command; script: one of the batch script. Empty: not known.
    restart: how often it was queued again.
    """

    restart: int
    submitted: int = 0
    started: int = 0
    words: str = ""
    script: str = ""

    @property
    def run(self) -> str:
        """The name of this run of the job, the same for all programs in it."""
        return f"{self.restart}@{self.started or _step()}"

    def text(self) -> str:
        """Return what is kept of it in the job's folder."""
        return json.dumps(asdict(self))

    def is_of(self, first: Mapping[str, Any]) -> bool:
        """Tell if this may be a later run of the job whose first start was noted so. Empty: nothing was noted.

        One that was never queued again has the time of submission that it had at first.
        """
        for mine, noted in ((self.words, first.get("words")), (self.script, first.get("script"))):
            if mine and noted and mine != noted:
                return False
        if self.restart:
            return True
        submitted = first.get("submitted")
        if not isinstance(submitted, int):
            return False
        return self.submitted == submitted if first.get("restart") == 0 else self.submitted <= submitted


def unasked() -> JobIdentity:
    """Return what is known without Slurm."""
    count = os.environ.get("SLURM_RESTART_COUNT", "0")
    return JobIdentity(int(count) if count.isdecimal() else 0)


def is_under_slurm() -> bool:
    """Tell if there is a Slurm to ask."""
    return bool(os.environ.get("SLURM_CONF"))


def asked(job: str) -> JobIdentity:
    """Return what Slurm says of a job. Raise ProgramFailed if it does not answer, or does not know the job."""
    said = _ask("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", _FORM)
    for line in said.splitlines():
        number, _, rest = line.partition(" ")
        times = rest.split(" ", 2)
        if number == job and len(times) == 3 and times[0].isdecimal():
            started = int(times[1]) if times[1].isdecimal() else 0
            return JobIdentity(unasked().restart, int(times[0]), started, _digest(times[2]), _script(job))
    raise ProgramFailed(f"Slurm does not know job {job}")


def tasks_beside() -> int:
    """Return how many tasks `srun` starts as this one. A batch script is one, whatever `sbatch` was submitted in."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    with suppress(psutil.Error):
        if any(".batch]" in "".join(one.cmdline()) for one in psutil.Process().parents() if _watches(one)):
            return 1
    return int(tasks) if tasks.isdecimal() else 1


def _watches(process: psutil.Process) -> bool:
    return bool(process.name().startswith("slurmstepd"))


def _script(job: str) -> str:
    with suppress(ProgramFailed):  # not every job has one
        return _digest(_ask("scontrol", "write", "batch_script", job, "-"))
    return ""


def _ask(*arguments: str) -> str:
    return run(arguments, {"SLURM_CONF": os.environ.get("SLURM_CONF", ""), **_EPOCH})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _step() -> str:
    """Return the process of Slurm that watches over this one, which tells one run on a machine from another."""
    with suppress(psutil.Error):
        for one in psutil.Process().parents():
            if _watches(one):
                return f"{one.pid}-{one.create_time():.2f}"
    return ""
