"""Jobs that can be checkpointed, and lose their machine or are evicted with a notice."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from benchmarks.clusters.chains import Chain, ChainJob
from benchmarks.clusters.lab import Lab, Place, lab_at, wait
from benchmarks.clusters.lines import Line, Subcommand
from benchmarks.clusters.starting import place_of, place_options

GRACE_S = 30.0
CHAIN = Chain(100, 60, 0.25)
"""The state of 100 MB, and 15 s of work."""


@contextmanager
def managed_lab(place: Place, nodes: tuple[int, int] = (2, 1), grace_s: float = GRACE_S) -> Iterator[Lab]:
    """Give a lab with a manager."""
    with lab_at(place, nodes) as lab:
        lab.client.change_policy("spare", {"grace_s": grace_s})
        lab.manage()
        wait(lab.is_managing, 90, "a manager")
        yield lab


class Kill(NamedTuple):
    """The fate of a job whose machine was killed. generation: restored from it; 0: from the beginning.

    again_s: until it ran again; lost_s, since_s: work done again, and time from the checkpoint to the kill.
    """

    is_right: bool
    generation: int
    again_s: float
    lost_s: float
    since_s: float


def kill_once(lab: Lab, draw: random.Random, chain: Chain = CHAIN, driver: str = "criu") -> Kill:
    """Kill the machine of a job at a random moment after a checkpoint, half of the times within the next one."""
    job = ChainJob(lab, chain, "-p", "own", driver=driver)
    job.wait_for_links(draw.randrange(3, 12))
    saved = job.save()
    time.sleep(draw.uniform(0.0, 2.0))
    node = job.node()
    if draw.random() < 0.5:
        job.begin_save()
        time.sleep(draw.uniform(0.0, 1.5))
    lab.strike(node)
    struck_s, written = time.time(), job.output().count("\n")
    wait(lambda: job.events("job_restored", "job_from_start"), 120, "the job runs again")
    again_s = time.time() - struck_s
    generation = int(job.events("job_restored", "job_from_start")[0].get("generation", 0))
    kept = job.folder.manifest(generation) if generation else saved
    job.wait_for_end()
    lost_s = max(written - (job.links_in(kept) if generation else 0), 0) * chain.seconds
    return Kill(job.is_right(), generation, again_s, lost_s, struck_s - kept.at)


class Eviction(NamedTuple):
    """The fate of an evicted job. early_s: its hand-over was confirmed so long before the deadline.

    ready_s: and so long before the room was to be ready; lost: lines that were written after the checkpoint.
    """

    is_right: bool
    is_saved: bool
    early_s: float
    ready_s: float
    lost: int


def evict_once(lab: Lab, number: int, chain: Chain = CHAIN) -> Eviction:
    """Evict a job by an on-demand start that needs its room, and let it go on when that is over."""
    job = ChainJob(lab, chain, "-p", "spot")
    job.wait_for_links(10)
    instance = job.node().replace("-", ".", 1)
    surge = lab.client.start("spare", f"surge{number}", "on_demand", "one")
    assert surge.ready_at is not None
    deadline = next(one.deadline for one in lab.client.handovers("spare") if one.id == instance)
    wait(lambda: not [*lab.client.handovers("spare")], GRACE_S + 20, "the hand-over ends")
    written = job.output().count("\n")
    ends = [one for one in lab.events("spare") if one.fields.get("id") == instance]
    confirmed = next(one.at for one in ends if one.kind == "eviction_confirmed")
    lab.client.stop("spare", f"surge{number}")
    job.wait_for_end()
    made = [one for one in job.events("job_checkpointed") if one["why"] == "notice"]
    lost = written - job.links_in(job.folder.manifest(int(made[0]["generation"]))) if made else written
    early_s, ready_s = (deadline - confirmed).total_seconds(), (surge.ready_at - confirmed).total_seconds()
    return Eviction(job.is_right(), bool(made), early_s, ready_s, lost)


def kill_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what became of jobs whose machines were killed."""
    draw = random.Random(asked.seed)
    with managed_lab(place_of(asked)) as lab:
        found = [kill_once(lab, draw, driver=asked.driver) for _ in range(asked.times)]
    yield Line("machines killed", len(found))
    yield Line("outputs that are byte by byte as undisturbed", sum(one.is_right for one in found), len(found))
    yield Line("jobs that went on from a checkpoint", sum(one.generation > 0 for one in found), 0.75 * len(found))
    worse = max(one.lost_s - one.since_s for one in found)
    yield Line("work lost over the time since the checkpoint, s: most", worse, float("-inf"), CHAIN.seconds)
    yield Line("work lost, s: median", median(one.lost_s for one in found))
    yield Line("from the kill until it runs again, s: median", median(one.again_s for one in found), 0, 12)
    yield Line("from the kill until it runs again, s: longest", max(one.again_s for one in found))


def eviction_lines(asked: argparse.Namespace) -> Iterator[Line]:
    """Yield what became of jobs that were evicted by on-demand starts."""
    with managed_lab(place_of(asked)) as lab:
        found = [evict_once(lab, number) for number in range(asked.times)]
    yield Line("evictions, with 30 s of notice", len(found))
    yield Line("checkpoints published within the notice", sum(one.is_saved for one in found), len(found))
    yield Line("outputs that are byte by byte as undisturbed", sum(one.is_right for one in found), len(found))
    yield Line("lines written after the checkpoint: most", max(one.lost for one in found), 0, 0)
    yield Line("confirmed before the deadline, s: least", min(one.early_s for one in found), 0)
    yield Line("confirmed before the start's ready_at, s: least", min(one.ready_s for one in found), 0)
    yield Line("of the notice used, s: median", GRACE_S - median(one.early_s for one in found))


def _options(parser: argparse.ArgumentParser) -> None:
    place_options(parser)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which it strikes")
    parser.add_argument("--driver", choices=["criu", "signal"], default="criu")


SUBCOMMANDS = {
    "kills": Subcommand("jobs whose machines are killed, around a checkpoint", _options, kill_lines),
    "evictions": Subcommand("jobs that are evicted with a notice", _options, eviction_lines),
}
