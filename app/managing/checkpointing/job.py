"""`tenure-job`: what a batch script puts before its program so that it can be checkpointed.

tenure-job PROGRAM ARGUMENTS...          run it, or go on from its last checkpoint
tenure-job --check [PROGRAM ARGUMENTS...]  tell if it could be checkpointed here; a program is tried
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app.managing.checkpointing.drivers import DRIVERS, NotSaved, RestoreRefused
from app.managing.checkpointing.fence import Superseded, TwoPrograms
from app.managing.checkpointing.folders import Busy, JobFolder
from app.managing.checkpointing.identity import tasks_beside
from app.managing.checkpointing.running import JobRun
from app.managing.checkpointing.saving import Order, mend, save
from app.managing.checkpointing.spawning import give_way
from app.managing.checkpointing.trying import try_out

FAILED, CANNOT, BUSY = 1, 2, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; return the exit code: that of the program, if one is run."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.save or asked.mend:
            return _beside(asked)
        if asked.check:
            return try_out(DRIVERS[asked.driver], asked.command, asked.after)
        return _run(asked)
    except Superseded:  # its output is that of the newer run, so nothing is written into it
        return os.EX_TEMPFAIL
    except (OSError, RestoreRefused, TwoPrograms) as error:
        sys.stderr.write(f"tenure-job: {error}\n")
        return CANNOT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tenure-job", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="tell if it could be checkpointed")
    parser.add_argument("--after", type=float, default=2.0, metavar="SECONDS", help="with --check: tried so late")
    parser.add_argument("--driver", choices=sorted(DRIVERS), default="criu", help="who takes the checkpoints")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--save", metavar="JOB", help=argparse.SUPPRESS)
    parser.add_argument("--mend", metavar="JOB", help=argparse.SUPPRESS)
    parser.add_argument("--why", default="asked", help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program and its arguments")
    return parser


def _run(asked: argparse.Namespace) -> int:
    job = os.environ.get("SLURM_JOB_ID", "")
    if not asked.command:
        sys.stderr.write("tenure-job: no program is given\n")
        return CANNOT
    if not job.isdecimal() or asked.folder is None:
        sys.stderr.write("tenure-job: this is no job of a cluster of Tenure: run it in a batch script\n")
        return CANNOT
    if (tasks := tasks_beside()) > 1:
        raise TwoPrograms(f"a job runs one program under tenure-job, and srun starts it {tasks} times")
    if os.geteuid() != 0 and not os.access(asked.folder, os.W_OK):
        sys.stderr.write(f"tenure-job: without checkpoints: only root may write them into {asked.folder}\n")
        sys.stderr.flush()
        give_way(asked.command)
    return JobRun(JobFolder(asked.folder / job), DRIVERS[asked.driver], asked.command).run()


def _beside(asked: argparse.Namespace) -> int:
    """Do what the manager asks for on the machine of a job."""
    folder = JobFolder(asked.folder / (asked.save or asked.mend))
    try:
        if asked.mend:
            mend(folder)
            return 0
        made = save(folder, Order(asked.why, asked.keep, asked.until, asked.last))
    except Busy as error:
        sys.stderr.write(f"{error}\n")
        return BUSY
    except NotSaved as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    sys.stdout.write(f"{made.generation}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
