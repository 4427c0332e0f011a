"""A job that is longer than any lease: it saves itself, and goes from lease to lease."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from benchmarks.clusters.lab import Lab, lab_at, struck_or_evicted, wait
from benchmarks.clusters.lines import Line, Subcommand
from benchmarks.clusters.starting import place_of, place_options
from benchmarks.clusters.watching import Watch

_LEASE_S, _PAUSE_S = 60, 40
_STEPS, _STEP_S = 650, 0.1
_JOB = """\
#!{python}
import os, pathlib, signal, time
saved = pathlib.Path("{folder}/saved")
step = int(saved.read_text()) if saved.exists() else 1
signal.signal(signal.SIGUSR1, lambda *_: saved.write_text(str(step)))
with open("{folder}/steps", "a", buffering=1) as steps:
    while step <= {steps}:
        print(os.environ["SLURMD_NODENAME"], step, file=steps)
        time.sleep({step_s})
        step += 1
    print("ended", file=steps)
"""


def lease_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what became of a job of 65 s on leases of 60 s. It says that saving takes 40 s, so it is asked early."""
    leased = {"lifetime_s": _LEASE_S, "min_lease_s": _LEASE_S}
    with lab_at(place_of(asked), (1, 2), pool=leased) as lab, Watch(lab) as watch:
        lab.manage()
        script = lab.folder / "long.py"
        script.write_text(_JOB.format(python=sys.executable, folder=lab.folder, steps=_STEPS, step_s=_STEP_S))
        options = ["--requeue", "-p", "spot", f"--comment=checkpoint=USR1,{_PAUSE_S}", "-o", f"{lab.folder}/out-%j"]
        lab.slurm("sbatch", *options, str(script))
        took_s = wait(lambda: "ended" in steps_of(lab), 600, "the job's end")
        wait(lab.is_empty, 60, "an empty cluster")
        lines = [line.split() for line in steps_of(lab).splitlines()]
        nodes = list(dict.fromkeys(line[0] for line in lines if len(line) == 2))
        steps = [int(line[1]) for line in lines if len(line) == 2]
        yield Line("leases", len(nodes), 2)
        yield Line("steps that no lease did", len({*range(1, _STEPS + 1)} - {*steps}), 0, 0)
        yield Line("steps done again, of all", len(steps) / _STEPS - 1)
        yield Line("ends of the job", lines.count(["ended"]), 1, 1)
        yield Line("nodes that were evicted", len(struck_or_evicted(lab)), 0, 0)
        yield Line("seconds, of 65", took_s)
        yield from watch.lines()


def steps_of(lab: Lab) -> str:
    """Return what the job wrote."""
    path = lab.folder / "steps"
    return path.read_text() if path.exists() else ""


SUBCOMMANDS = {"leases": Subcommand("a job that is longer than its leases", place_options, lease_lines)}
