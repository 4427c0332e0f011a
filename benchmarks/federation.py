"""Runs federations of made jobs by each rule, many seeds pooled, and judges the default rule; failures first.

    python -m benchmarks.federation                            # every part, seeds 201 to 220
    python -m benchmarks.federation --parts two --seeds 1 3    # seeds 1 to 3

The jobs are those of `tenure trace synth-jobs`: EXFed's own traces were never published, so they have the counts and
means of its Table I and shapes of ours. The default rule was chosen on other seeds (decision 221). The parts:

    two        two clouds, as in EXFed's Figures 1 to 4: `A 32-32` are segments A1 and A2 on clouds of 32 cores each
    four       four clouds 32-56-32-56, as in Figure 5, that share no link, one, two, or all; the second two have the
               jobs of another seed (by 1000 more), 8 h later
    bandwidth  A 32-32 8 h apart with slower links, on the first five seeds
    bound      A 32-32 8 h apart and B 16-16 whose jobs declare more than the lifetime that they have; as many seeds
    recorded   pairs of Eucalyptus traces, whose instances that start together are taken for jobs; one run each

Of each row: admitted by a host; preempted, with the exact interval (95 %) of all jobs pooled, and that of a bootstrap
over the seeds; rejected of requests; federation, the share of completed work that was done away, and that relative to
the rule `literal`. Deterministic. Exit code 1 if a line fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.domain.inputs import parse_nodes
from app.domain.times import DAY_US, HOUR_US
from app.federation.rules.hosting import HostRule
from app.federation.rules.jobs import Job
from app.judging.intervals import exact_interval
from app.workbench.federation.grouping import jobs_of_trace
from app.workbench.federation.joblines import JobLine
from app.workbench.federation.run import BYTES_PER_S, FederationScenario, JobCounts, run_federation
from app.workbench.federation.synthesis import synthesize_jobs
from app.workbench.workload import read_trace

SEEDS = (201, 220)
TRACES = Path(__file__).parents[2] / "shared/traces/eucalyptus"
_RULES = (HostRule.NONE, HostRule.LITERAL, HostRule.TENURE)
_SLA = 0.05
_DRAWS = 2_000
_LATER_US, _PERIOD_US = 8 * HOUR_US, 14 * DAY_US
_OTHER_SEED = 1_000
_FEW_SEEDS = 5


class Line(NamedTuple):
    """A line of judgement."""

    is_good: bool
    text: str


@dataclass(frozen=True)
class Pooled:
    """The counts of the runs of one row, a run for each seed."""

    runs: Sequence[JobCounts]
    all: JobCounts = field(init=False)

    def __post_init__(self) -> None:
        total = JobCounts()
        for one in self.runs:
            total = total.plus(one)
        object.__setattr__(self, "all", total)

    @property
    def preempted(self) -> float:
        """The share of admitted jobs that were preempted; 0 without any."""
        return self.all.preempted / self.all.remote if self.all.remote else 0.0

    @property
    def rejected(self) -> float:
        """The share of requests that nobody ran."""
        return self.all.rejected / self.all.requests

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the share of preempted jobs, all jobs taken as independent."""
        return exact_interval(self.all.preempted, self.all.remote)

    def by_seed(self) -> tuple[float, float]:
        """Return the interval of the same share from seeds that are drawn anew, with those that were drawn twice."""
        lost, of = (np.array([getattr(one, name) for one in self.runs]) for name in ("preempted", "remote"))
        drawn = np.random.default_rng(0).integers(0, len(self.runs), (_DRAWS, len(self.runs)))
        shares = lost[drawn].sum(axis=1) / np.maximum(of[drawn].sum(axis=1), 1)
        low, high = np.quantile(shares, [0.025, 0.975])
        return float(low), float(high)


@dataclass(frozen=True)
class TwoClouds:
    """A row of two clouds: segments and cores of each, the delay of the second one's jobs, and the bars of the rule.

    `work`: at least so many times the federation of `literal`. `of_none`: at least so much of that of `none`.
    """

    name: str
    segments: tuple[str, str]
    cores: tuple[int, int]
    later_us: int = 0
    most_preempted: float | None = _SLA
    work: float | None = None
    of_none: float | None = None


_A = ("A1", "A2")
_B = ("B1", "B2")
APART = TwoClouds("A 32-32, 8 h apart", _A, (32, 32), _LATER_US, work=1.4)
TIGHT = TwoClouds("B 16-16", _B, (16, 16), work=0.8)
TWO = (
    APART,
    TIGHT,
    TwoClouds("B 16-32", _B, (16, 32), work=1.2),
    TwoClouds("B 16-48", _B, (16, 48), of_none=0.97),
    TwoClouds("B 16-64", _B, (16, 64), of_none=0.97),
    TwoClouds("C 24-24", ("C1", "C2"), (24, 24), work=0.8),
    TwoClouds("A 32-32, same hours", _A, (32, 32), most_preempted=None),
)
FOUR = {
    "alone": "",
    "one pair": "a-b",
    "two pairs": "a-b c-d",
    "all": "a-b a-c a-d b-c b-d c-d",
}


def jobs_of(lines: Iterable[JobLine], later_us: int = 0) -> list[Job]:
    """Return jobs as a file of them would be read, later by a time and wrapped around at the end of two weeks."""
    jobs = [
        Job(str(at), round(one.start_s * 1e3) * 1000, round(one.lifetime_s * 1e3) * 1000, *one[2:])
        for at, one in enumerate(lines, 1)
    ]
    if later_us:
        jobs = [job.shifted(later_us, _PERIOD_US) for job in jobs]
    return sorted(jobs, key=lambda job: job.start_us)


def total(
    jobs: Mapping[str, Sequence[Job]],
    cores: Sequence[int],
    links: str,
    rule: HostRule,
    **more: Any,  # noqa: ANN401 - settings
) -> JobCounts:
    """Return the counts of one run, of all clouds together. `links` is a text like a-b b-c."""
    nodes = {name: parse_nodes(f"{many}x1") for name, many in zip(jobs, cores, strict=True)}
    joined = [part.split("-") for part in links.split()]
    linked = {name: [other for other in jobs if [name, other] in joined or [other, name] in joined] for name in jobs}
    counts = JobCounts()
    for one in run_federation(FederationScenario(nodes, jobs, linked, rule, _SLA, **more)).values():
        counts = counts.plus(one)
    return counts


def run_two(row: TwoClouds, rule: HostRule, seeds: Iterable[int], **more: Any) -> Pooled:  # noqa: ANN401 - settings
    """Run a row by a rule with each seed. `more`: fields of the scenario."""
    first, second = row.segments
    return Pooled(
        [
            total(
                {"a": jobs_of(synthesize_jobs(first, seed)), "b": jobs_of(synthesize_jobs(second, seed), row.later_us)},
                row.cores,
                "a-b",
                rule,
                **more,
            )
            for seed in seeds
        ]
    )


def run_four(links: str, rule: HostRule, seeds: Iterable[int]) -> Pooled:
    """Run the four clouds by a rule with each seed."""
    runs = []
    for seed in seeds:
        here, there = (((segment, seed + by) for segment in _A) for by in (0, _OTHER_SEED))
        jobs = {name: jobs_of(synthesize_jobs(*one)) for name, one in zip("ab", here, strict=True)}
        jobs |= {name: jobs_of(synthesize_jobs(*one), _LATER_US) for name, one in zip("cd", there, strict=True)}
        runs.append(total(jobs, (32, 56, 32, 56), links, rule))
    return Pooled(runs)


def judge_two(row: TwoClouds, found: Mapping[HostRule, Pooled]) -> Iterator[Line]:
    """Compare the default rule with the bars of a row."""
    ours, none, literal = (found[rule] for rule in (HostRule.TENURE, HostRule.NONE, HostRule.LITERAL))
    if row.most_preempted is None:
        is_good = not ours.all.remote or ours.preempted <= 0.1
        yield Line(is_good, f"{row.name}: preempted {ours.preempted:.3f} of {ours.all.remote} (at most .10)")
    else:
        high = ours.interval[1]
        yield Line(high <= row.most_preempted, f"{row.name}: upper end {high:.3f} (at most {row.most_preempted:g})")
    if row.work is not None:
        work = ours.all.federation / literal.all.federation
        yield Line(work >= row.work, f"{row.name}: {work:.2f} times the work of literal (at least {row.work:g})")
    if row.of_none is not None:
        work = ours.all.federation / none.all.federation
        yield Line(work >= row.of_none, f"{row.name}: {work:.3f} of the work of none (at least {row.of_none:g})")
    if row.name == "B 16-16":
        text = f"{row.name}: none preempts {none.preempted:.3f} (.24 to .30; EXFed .27)"
        yield Line(0.24 <= none.preempted <= 0.3, text)


def judge_four(found: Mapping[str, Pooled]) -> Iterator[Line]:
    """Compare the default rule with the bars of the four clouds."""
    rejected = [one.rejected for one in found.values()]
    last = found["all"]
    yield Line(last.rejected <= 0.01, f"four clouds: rejected {last.rejected:.4f} (at most .010)")
    yield Line(last.preempted <= 0.02, f"four clouds: preempted {last.preempted:.3f} (at most .02)")
    is_falling = rejected == sorted(rejected, reverse=True)
    yield Line(is_falling, f"four clouds: rejected {', '.join(f'{one:.3f}' for one in rejected)} (falls)")
    ratio = last.rejected / found["two pairs"].rejected
    yield Line(ratio <= 0.2, f"four clouds: rejected {ratio:.2f} of that of two pairs (at most .2)")


def run_recorded(traces: Path) -> Iterator[tuple[str, HostRule, Pooled]]:
    """Run the pairs of recorded traces by each rule, without data."""
    for names, cores in (
        (("DS2", "DS3"), (36, 24)),
        (("DS2", "DS3"), (48, 32)),
        (("DS5", "DS6"), (672, 672)),
        (("DS5", "DS6"), (992, 992)),
    ):
        of = [jobs_of(jobs_of_trace(read_trace(traces / f"{name}-trace.txt"))) for name in names]
        for rule in _RULES:
            counts = total(dict(zip("ab", of, strict=True)), cores, "a-b", rule)
            yield f"{'+'.join(names)} {cores[0]}-{cores[1]}", rule, Pooled([counts])


def judge_recorded(found: Mapping[tuple[str, HostRule], Pooled]) -> Iterator[Line]:
    """Compare the default rule with the bars of recorded traces."""
    for (name, rule), one in found.items():
        if rule is not HostRule.TENURE:
            continue
        most = 0.0 if name.endswith("672-672") else _SLA
        lost = f"{one.all.preempted} of {one.all.remote}"
        yield Line(one.preempted <= most, f"{name}: preempted {lost} (at most {most:g} of them)")
        if name.endswith("992-992"):
            work = one.all.federation
            yield Line(work >= 0.12, f"{name}: federation {work:.3f} (at least .12)")
            ratio = work / found[name, HostRule.LITERAL].all.federation
            yield Line(ratio >= 1.5, f"{name}: {ratio:.2f} times the work of literal (at least 1.5)")


def show(name: str, rule: str, one: Pooled, literal: Pooled | None = None) -> str:
    """Return a row of a table."""
    (low, high), (least, most) = one.interval, one.by_seed()
    relative = f"{one.all.federation / literal.all.federation:.2f}" if literal and literal.all.federation else "-"
    by_seed = f"{least:.3f}-{most:.3f}" if len(one.runs) > 1 else "-"
    intervals = f"{low:.3f}-{high:.3f} | {by_seed}" if one.all.remote else "- | -"
    share = f"{one.preempted:.3f}" if one.all.remote else "-"
    return (
        f"| {name} | {rule} | {one.all.remote} | {share} | {intervals} | {one.rejected:.3f} | "
        f"{one.all.federation:.4f} | {relative} |"
    )


_HEAD = (
    "| clouds | rule | admitted | preempted | exact | by seed | rejected | federation | of literal |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


class Part(NamedTuple):
    """The answer of a part: lines of judgement, and rows of the table."""

    lines: Sequence[Line]
    rows: Sequence[str]


def two(seeds: Sequence[int], _: Path) -> Part:
    """Run two clouds by each rule."""
    lines: list[Line] = []
    rows: list[str] = []
    for row in TWO:
        found = {rule: run_two(row, rule, seeds) for rule in _RULES}
        lines += judge_two(row, found)
        rows += [show(row.name, rule, one, found[HostRule.LITERAL]) for rule, one in found.items()]
    return Part(lines, rows)


def four(seeds: Sequence[int], _: Path) -> Part:
    """Run four clouds that are linked more and more, by EXFed's rule and by the default one."""
    literal = {name: run_four(links, HostRule.LITERAL, seeds) for name, links in FOUR.items()}
    ours = {name: run_four(links, HostRule.TENURE, seeds) if links else literal[name] for name, links in FOUR.items()}
    rows = [
        show(f"four, {name}", rule, found[name], literal[name])
        for name in FOUR
        for rule, found in ((HostRule.LITERAL, literal), (HostRule.TENURE, ours))
    ]
    return Part(list(judge_four(ours)), rows)


def bandwidth(seeds: Sequence[int], _: Path) -> Part:
    """Run two clouds with slower links."""
    rows = []
    for rate in (12_500_000, 125_000_000, BYTES_PER_S):
        for rule in (HostRule.NONE, HostRule.TENURE):
            found = run_two(APART, rule, seeds[:_FEW_SEEDS], bytes_per_s=rate)
            rows.append(show(f"A, {rate / 1e6:g} MB/s", rule, found))
    return Part((), rows)


def bound(seeds: Sequence[int], _: Path) -> Part:
    """Run two clouds whose jobs declare more than they need."""
    rows = []
    for row in (APART, TIGHT):
        for times in (1.0, 1.5, 3.0):
            found = run_two(row, HostRule.TENURE, seeds[:_FEW_SEEDS], bound=times)
            rows.append(show(f"{row.name}, bound {times:g}", HostRule.TENURE, found))
    return Part((), rows)


def recorded(_: Sequence[int], traces: Path) -> Part:
    """Run pairs of recorded traces."""
    found = {(name, rule): one for name, rule, one in run_recorded(traces)}
    rows = [show(name, rule, one, found[name, HostRule.LITERAL]) for (name, rule), one in found.items()]
    return Part(list(judge_recorded(found)), rows)


PARTS: dict[str, Callable[[Sequence[int], Path], Part]] = {
    "two": two,
    "four": four,
    "bandwidth": bandwidth,
    "bound": bound,
    "recorded": recorded,
}


def measure(parts: Sequence[str], seeds: Sequence[int], traces: Path) -> bool:
    """Run the parts, print the lines of judgement, those that fail first, then the rows; True if none fails."""
    found = [PARTS[part](seeds, traces) for part in parts]
    lines = sorted((line for one in found for line in one.lines), key=lambda line: line.is_good)
    for line in lines:
        print(f"{' ' if line.is_good else '!'} {line.text}")
    print("\n".join(["", _HEAD, *(row for one in found for row in one.rows)]))
    return all(line.is_good for line in lines)


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=[*PARTS])
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "LAST"), default=SEEDS)
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    first, last = arguments.seeds
    sys.exit(0 if measure(arguments.parts, range(first, last + 1), arguments.traces) else 1)


if __name__ == "__main__":
    main()
