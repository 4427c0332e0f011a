"""The record of how jobs ended: how Slurm's controller writes it, and how it is read.

A script within the controller writes a line at each end, at once. The lines have nothing in them that a user chose.
Slurm's own text records have: names of jobs and of folders as they are, line ends too, so that any user could write
down the end of another's job.
"""

from __future__ import annotations

import re
from pathlib import Path

SCRIPT = "jobcomp.lua"
"""The name that Slurm wants for the script, beside its configuration."""
ENDS = "log/ends.txt"
CANCELLED = "CANCELLED"
FINAL = {"COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", CANCELLED}
_STATES = {
    3: "COMPLETED",
    4: CANCELLED,
    5: "FAILED",
    6: "TIMEOUT",
    7: "NODE_FAIL",
    8: "PREEMPTED",
    9: "BOOT_FAIL",
    10: "DEADLINE",
    11: "OUT_OF_MEMORY",
}
"""Slurm's numbers for the states that end a run of a job; larger ones are flags beside them."""
_SCRIPT = """\
-- Slurm's controller calls this at the end of each run of a job. No word of a user gets into the record.
local states = {{{states}}}
function slurm_jobcomp_log_record(job)
   local file = io.open("{path}", "a")
   if file then
      local submitted = os.date("%Y-%m-%dT%H:%M:%S", job.submit_time)
      file:write(string.format("end %d %s %s\\n", job.job_id, states[job.job_state % 256] or "UNKNOWN", submitted))
      file:close()
   end
   return 0
end
"""
_TAIL_BYTES = 1 << 20
_LINE = re.compile(r"^end (\d+) ([A-Z_]+) (\S+)$", re.MULTILINE)
"""After a full disk a line may be without its end. The next one is left out with it, for no line has two beginnings."""


def script_of(path: Path) -> str:
    """Return the script that writes the record into a file."""
    states = ", ".join(f'[{number}]="{state}"' for number, state in _STATES.items())
    return _SCRIPT.format(states=states, path=path)


def recorded_ends(path: Path) -> dict[tuple[str, str], str]:
    """Return the last word for the end of each job, by its number and its time of submission, from a file's tail.

    A job that had ended otherwise, and was cancelled because Slurm had forgotten that, has its first end.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return {}
    found: dict[tuple[str, str], str] = {}
    for number, state, submitted in _LINE.findall(text):
        before = found.get((number, submitted))
        found[number, submitted] = before if before in FINAL and state == CANCELLED else state
    return found
