"""Jobs that compute a chain of hashes under `tenure-job`, and what became of them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from app.managing.checkpointing.folders import JobFolder, Manifest
from app.managing.checkpointing.keeper import CheckpointKeeper
from app.managing.checkpointing.placing import checkpoints_of, launcher_of
from app.managing.programs import ProgramFailed, run, start_helper
from benchmarks.clusters.lab import Lab, wait

CHAIN = Path(__file__).with_name("chain.py")


class Chain(NamedTuple):
    """A computation: the size of its state in megabytes, how many links, and the seconds for each."""

    megabytes: int
    links: int
    seconds: float
    saves: bool = False

    def command(self, seconds: float | None = None) -> list[str]:
        """Return its command."""
        arguments = [str(self.megabytes), str(self.links), str(self.seconds if seconds is None else seconds)]
        return [sys.executable, str(CHAIN), *arguments, *(["saves"] if self.saves else [])]


@cache
def undisturbed(chain: Chain) -> str:
    """Return what a chain writes if nothing happens to it."""
    return subprocess.run(chain.command(0.0), capture_output=True, text=True, check=True).stdout


def told_by(lab: Lab) -> list[dict[str, Any]]:
    """Return the record of a lab's manager."""
    path = lab.cluster.events.path
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class ChainJob:
    """A chain that is a job of a lab."""

    def __init__(self, lab: Lab, chain: Chain, *options: str, driver: str = "criu") -> None:
        self.lab, self.chain = lab, chain
        script = lab.folder / f"chain-{chain.megabytes}-{chain.links}-{driver}.sh"
        words = [str(launcher_of(lab.cluster.wanted)), "--driver", driver, *chain.command()]
        script.write_text(f"#!/bin/bash\nexec {' '.join(words)}\n")
        common = ["--parsable", "--requeue", "-o", f"{lab.folder}/out-%j", "-e", f"{lab.folder}/err-%j"]
        self.job = lab.slurm("sbatch", *common, *options, str(script)).strip()
        self.folder = JobFolder(checkpoints_of(lab.cluster.wanted) / self.job)

    def output(self) -> str:
        """Return what it wrote so far."""
        path = self.lab.folder / f"out-{self.job}"
        return path.read_text() if path.exists() else ""

    def node(self) -> str:
        """Return the node that it runs on; empty: none."""
        return self.lab.running().get(self.job, "")

    def wait_for_links(self, count: int, timeout_s: float = 90.0) -> None:
        """Wait until it has written so many lines."""
        wait(lambda: self.output().count("\n") >= count, timeout_s, f"job {self.job} writes {count} lines")

    def wait_for_end(self, timeout_s: float = 120.0) -> None:
        """Wait until it has written its last line."""
        wait(lambda: self.output().endswith("done\n"), timeout_s, f"job {self.job} ends")

    def is_right(self) -> bool:
        """Return True if it wrote what it writes undisturbed, each line once."""
        return self.output() == undisturbed(self.chain)

    def save(self) -> Manifest:
        """Take a checkpoint, as a person would. Raise ProgramFailed if none can be taken."""
        cluster = self.lab.cluster
        keeper = CheckpointKeeper(cluster.wanted, cluster.machines, cluster.buyer, cluster.events)
        return keeper.save_now(self.job, cluster.slurm.jobs())

    def begin_save(self, keep: int = 2) -> subprocess.Popen[bytes]:
        """Let a checkpoint be taken, and do not wait for it."""
        words = [str(launcher_of(self.lab.cluster.wanted)), "--save", self.job, "--keep", str(keep)]
        return start_helper(self.lab.cluster.machines.call(self.node(), words), self.lab.folder / "helpers.log")

    def links_in(self, manifest: Manifest) -> int:
        """Return how many lines it had written at a checkpoint."""
        size = manifest.outputs[f"{self.lab.folder}/out-{self.job}"]
        return undisturbed(self.chain)[:size].count("\n")

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return what the manager's record tells of it."""
        found = told_by(self.lab)
        return [one for one in found if one.get("job") == self.job and (not kinds or one["kind"] in kinds)]


def why_no_checkpoints() -> str:
    """Return why CRIU does not work here; empty: it does."""
    try:
        run(["criu", "check"])
    except ProgramFailed as error:
        return f"no CRIU that works here (tools/lab-install): {error}"
    return ""
