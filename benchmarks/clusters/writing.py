"""Writing checkpoints, without a cluster: writers that are killed, and how well the time that it takes is foretold."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from app.clusters.rules.writing import Measured, predict
from app.managing.checkpointing.folders import BrokenImage, JobFolder, Manifest
from app.managing.checkpointing.processes import began_at
from benchmarks.clusters.chains import Chain, undisturbed
from benchmarks.clusters.lab import wait
from benchmarks.clusters.lines import Line, Subcommand

SIZES_MB = (10, 100, 1000)
JOB_COMMAND = [sys.executable, "-I", "-m", "app.managing.checkpointing.job", "--folder"]


class LoneJob:
    """A chain under `tenure-job`, as on a machine of a cluster, but without a manager and Slurm."""

    def __init__(self, folder: Path, chain: Chain, driver: str = "criu") -> None:
        self.chain, self.out, self._root, self._runs = chain, folder / "out", folder, 0
        self.folder = JobFolder(folder / "7")
        self._command = [*JOB_COMMAND, str(folder), "--driver", driver, *chain.command()]
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run it, as Slurm does at first and again after its machine was lost."""
        own = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(self._runs), "SLURMD_NODENAME": "here"}
        self._runs += 1
        with self.out.open("ab") as out, (self._root / "err").open("ab") as err:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=err, env=os.environ | own)

    def lose(self) -> None:
        """Kill it with all its processes, as the loss of its machine does."""
        if self._process is not None:
            _kill_family(self._process.pid)
            self._process.wait()

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        assert self._process is not None
        return self._process.wait(180)

    def is_running(self) -> bool:
        """Return True if it has not ended."""
        return self._process is not None and self._process.poll() is None

    def links(self) -> int:
        """Return how many lines it wrote."""
        return self.out.read_text().count("\n") if self.out.exists() else 0

    def lines(self) -> list[str]:
        """Return the whole lines that it wrote."""
        return self.out.read_text().rpartition("\n")[0].splitlines()

    def goes_on(self) -> bool:
        """Return True if a program runs, the one that it says to run."""
        said = self.folder.running()
        is_there = began_at(int(said.get("program", 0))) == said.get("program_began_at")
        return self.is_running() and is_there and self.folder.noted("again") is None

    def wait_for_links(self, count: int) -> None:
        """Wait until it wrote so many lines, and has said how it does."""
        wait(lambda: self.links() >= count and self.folder.running(), 60, f"{count} lines")

    def begin_save(self) -> subprocess.Popen[bytes]:
        """Start a writer of a checkpoint."""
        command = [*JOB_COMMAND, str(self._root), "--save", "7", "--keep", "2"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def save(self) -> Manifest:
        """Take a checkpoint. Raise ValueError if none was published."""
        if self.begin_save().wait(120) != 0:
            raise ValueError(f"no checkpoint: {[*self.folder.take_told()][-1:]}")
        return self.folder.manifest(self.folder.published()[0])

    def is_last_whole(self) -> bool:
        """Return True if `last` points to nothing yet, or to a checkpoint that is complete."""
        last = self.folder.last()
        if last is None:
            return not (self.folder.path / "last").is_symlink()
        try:
            self.folder.checked(last)
        except BrokenImage:
            return False
        return True

    def is_right(self) -> bool:
        """Return True if it wrote what it writes undisturbed."""
        return self.out.read_text() == undisturbed(self.chain)


@contextmanager
def lone_job(chain: Chain, driver: str = "criu") -> Iterator[LoneJob]:
    """Give a running job, and remove all of it after."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-lone-"))
    job = LoneJob(folder, chain, driver)
    try:
        job.run()
        yield job
    finally:
        job.lose()
        shutil.rmtree(folder, ignore_errors=True)


def kill_writer(job: LoneJob, draw: random.Random, within_s: float) -> None:
    """Kill a writer at a random moment: with its CRIU, it alone, or only its CRIU."""
    writer = job.begin_save()
    time.sleep(draw.uniform(0.0, within_s))
    which = draw.randrange(3)
    inside = [child.pid for child in psutil.Process(writer.pid).children(recursive=True)]
    for pid in [*([writer.pid] if which != 2 else []), *(inside if which != 1 else [])]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    writer.wait(120)


class Publishing(NamedTuple):
    """The fate of a job whose writers were killed again and again."""

    kills: int
    broken: int
    published: int
    again: int
    is_right: bool


def publish(times: int, seed: int) -> Publishing:
    """Kill writers of the checkpoints of a job of 10 MB, which runs as long as it takes."""
    draw, broken, published = random.Random(seed), 0, 0
    with lone_job(Chain(10, 100_000, 0.1)) as job:
        job.wait_for_links(2)
        began_s = time.monotonic()
        job.save()
        within_s = time.monotonic() - began_s
        for _ in range(times):
            before = job.folder.last()
            kill_writer(job, draw, within_s)
            broken += not job.is_last_whole()
            published += job.folder.last() != before
            wait(job.goes_on, 60, "the program runs on")
        with suppress(ValueError):
            job.save()  # the last one that was killed may have hurt the program, which is then brought back
        wait(job.goes_on, 60, "the program runs on")
        job.save()
        broken += not job.is_last_whole()
        written = job.lines()
        wait(lambda: len(job.lines()) > len(written) + 5, 60, "more lines")
        again = sum(one["kind"] in {"job_restored", "job_from_start"} for one in job.folder.take_told())
        is_right = job.lines() == undisturbed(Chain(10, len(job.lines()), 0.1)).splitlines()[:-1]
        return Publishing(times, broken, published, again, is_right)


def publish_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what became of checkpoints whose writers were killed."""
    found = publish(asked.times, asked.seed)
    yield Line("writers killed", found.kills)
    yield Line("of these had published before", found.published)
    yield Line("times that `last` was not a complete checkpoint", found.broken, 0, 0)
    yield Line("times that the program was brought back", found.again)
    yield Line("the output is byte by byte as undisturbed", float(found.is_right), 1, 1)


def prediction_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield by how much the time of writing was foretold wrongly, for each size, after one checkpoint of each."""
    history: list[Measured] = []
    sizes: list[int] = asked.sizes
    errors: dict[int, list[float]] = {size: [] for size in sizes}
    took: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(asked.times + 1):
        for size in sizes:
            with lone_job(Chain(size, 1000, 0.25)) as job:
                job.wait_for_links(2)
                memory = float(job.folder.running()["memory_bytes"])
                made = job.save()
            if turn:
                errors[size].append(abs(predict(history, memory).mean_s / made.write_s - 1.0))
                took[size].append(made.write_s)
            history.append(Measured(made.memory_bytes, made.write_s))
    for size in sizes:
        yield Line(f"{size} MB: written in, s: median", median(took[size]))
        yield Line(f"{size} MB: foretold wrongly by: median", median(errors[size]), 0, 0.25)
        yield Line(f"{size} MB: foretold wrongly by: most", max(errors[size]))


def _kill_family(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _publish_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which it kills")


def _prediction_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=10, help="checkpoints of each size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[*SIZES_MB], help="of the jobs, in megabytes")


SUBCOMMANDS = {
    "publish": Subcommand("writers of checkpoints that are killed", _publish_options, publish_lines),
    "prediction": Subcommand("how well the time of writing is foretold", _prediction_options, prediction_lines),
}
