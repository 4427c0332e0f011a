"""Tells how jobs ended that left the queue: by Slurm's record of ends, then by what its controller remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.managing.recording import FINAL, recorded_ends
from app.managing.slurm import Slurm

UNKNOWN = "unknown"
_WORDS = FINAL | {"BOOT_FAIL"}
"""The words of the record for a job that is over. After another one it may have been queued again."""

_LIVE = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "REQUEUED"}


class Ends:
    """Tells the ends of one cluster's jobs."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm

    def of(self, jobs: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Return Slurm's word for the end of each job; `unknown` of a forgotten one, none of one that is back.

        jobs: by name, the number and the time of submission by which the record knows each; empty: not known.
        The controller is asked once at most. Raise ProgramFailed if it has to be, and does not answer.
        """
        found = self.recorded(jobs)
        if left := jobs.keys() - found.keys():
            states = self._slurm.states()
            found |= {name: states.get(name, UNKNOWN).lower() for name in left if states.get(name) not in _LIVE}
        return found

    def recorded(self, jobs: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Return the ends of those jobs that the record has."""
        record = recorded_ends(self._slurm.ended_file) if jobs else {}
        newest = _newest(record.items())
        found = {}
        for name, (number, submitted) in jobs.items():
            at, word = newest.get(number or name, ("", ""))
            if word in _WORDS and at >= submitted:
                found[name] = word.lower()
        return found


def _newest(record: Iterable[tuple[tuple[str, str], str]]) -> dict[str, tuple[str, str]]:
    """Return the last submission of each number, with its word. A job that was queued again has a later one."""
    found: dict[str, tuple[str, str]] = {}
    for (number, submitted), word in record:
        if submitted >= found.get(number, ("", ""))[0]:
            found[number] = submitted, word
    return found
