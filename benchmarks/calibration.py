"""Judges how true the calibrated forecast is: every spot start followed, without an SLA, failures first.

    python -m benchmarks.calibration                                  # the platforms of the yardsticks, and `papers`
    python -m benchmarks.calibration --parts sixteen tight
    python -m benchmarks.calibration --parts synthetic --seeds 4 5 6  # seeds that nothing was chosen on

Part of `python -m benchmarks.promises`. The lines of judgement come first, each beside its bar, those that fail marked
with `!`. A loss is that of all starts of a run, relative to the best constant in hindsight:

    relative  mean over the runs with an eviction      forward   the same, to a walk-forward constant
    many      mean of the runs with 20 evictions       worst     each of them
    few       the other runs' losses, summed
    auc       mean of the runs with 20 evictions; each of them; the share of them with .88
    cells     run x stratum, 100 starts and 20 evictions: happened / said within 1/2 to 2, and within 1/3 to 3
    deciles   of a run: what was said lies in the exact interval (95 %) of what happened
    coverage  epochs in which no more was evicted than the bounds at 95 % allow, by stratum

Then by the age of the cloud at the start: starts, evicted, their loss relative to the best constants of that age,
summed, and said / happened. Then each run: starts, evicted, said / happened, relative, forward, AUC, deciles inside.
The part `papers`, ten seeds of the papers' synthetic workload on a full cloud of 8 x 4, is judged by itself and not
among the others. Platforms that share an on-demand trace are one witness. The weights of the forecast were fitted on
recorded traces among these; synthetic seeds from 4 on are fresh. Deterministic. Exit code 1 if a line fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.domain.progress import Progress
from app.domain.strata import STRATA
from app.domain.times import DAY_US
from app.domain.values import Clock, Forecast, Guarantee, Policy, Resources
from app.workbench.calibration import calibration_report, log_loss
from app.workbench.evaluate import evaluate
from app.workbench.fates import Case, Fates
from app.workbench.side_by_side import run_side_by_side
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import Workload, combine
from benchmarks.platforms import PARTS, TRACES, USUAL, Platform, synthetic

POLICY = Policy(
    guarantee=Guarantee.NONE, forecast=Forecast.CALIBRATED, clock=Clock.EXTERNAL, clock_step_us=None, sample_count=1
)
PAPERS = "papers"
SEEDS = range(1, 11)
MANY = 20
_CELL_STARTS = 100
_AGES = (1, 3, 7, 14, 30, 10_000)
_NAMED = 6


class Age(NamedTuple):
    """The starts at one age of the cloud: their sums of losses, of what was said, and of what happened."""

    cases: int
    evicted: int
    said: float
    loss: float
    constant_loss: float


@dataclass(frozen=True)
class Run:
    """A run: the report of `calibration_report`, empty if nothing was followed, and its starts by age."""

    name: str
    report: dict[str, Any]
    ages: Sequence[Age]

    @property
    def evicted(self) -> int:
        """Return how many of its followed starts were evicted."""
        return int(self.report.get("evicted", 0))

    @property
    def relative(self) -> float:
        """Return its loss relative to that of the best constant."""
        return float(self.report["log_loss"] / self.report["constant_log_loss"])

    @property
    def forward(self) -> float:
        """Return its loss relative to that of a walk-forward constant."""
        return float(self.report["log_loss"] / self.report["walk_forward_log_loss"])

    @property
    def auc(self) -> float:
        """Return the share of pairs that it ranks right."""
        return float(self.report["auc"])

    @property
    def deciles(self) -> list[bool]:
        """Return for each decile if what was said lies in the interval of what happened."""
        return [row["low"] <= row["said"] <= row["high"] for row in self.report["deciles"]]

    @property
    def cells(self) -> dict[str, float]:
        """Return happened / said of each stratum with enough starts and evictions."""
        return {
            stratum: row["happened"] / row["said"]
            for stratum, row in self.report["strata"].items()
            if row["cases"] >= _CELL_STARTS and row["evicted"] >= MANY
        }


@dataclass(frozen=True)
class Task:
    """A platform, or the seed of a workload of the papers."""

    platform: Platform | int
    traces: Path

    @property
    def size(self) -> int:
        """Number of its steps, roughly."""
        return 1

    @property
    def name(self) -> str:
        """The name of the platform."""
        return f"seed {self.platform} on 8 x 4" if isinstance(self.platform, int) else self.platform.platform

    def scenario(self) -> Scenario:
        """Return what is run."""
        if isinstance(self.platform, int):
            return Scenario((Resources(4),) * 8, synthetic_workload(self.platform), POLICY)
        return Scenario(self.platform.capacities, self.platform.workload(self.traces), POLICY)


def synthetic_workload(seed: int) -> Workload:
    """Return a workload with the utilisations of Table I; each market has a trace of its own."""
    on_demand = synthesize(days=10, mean_utilisation=21.77, cores=1, seed=seed)
    return combine(on_demand, synthesize(days=10, mean_utilisation=21.95, cores=1, seed=1000 + seed), DAY_US)


def follow(task: Task, executor: Executor, progress: Progress) -> Run:
    """Evaluate a platform, and return what was said of its starts and what happened."""
    fates = Fates(POLICY)
    evaluate(task.scenario(), executor, fates=fates, progress=progress)
    cases = fates.cases()
    return Run(task.name, calibration_report(cases, Forecast.CALIBRATED) or {}, by_age(cases))


def by_age(cases: Sequence[Case]) -> list[Age]:
    """Return what was said and what happened by the age of the cloud, whose first second is 0."""
    days = np.array([case.quoted.at_us for case in cases]) / DAY_US
    said = np.array([case.quoted.said[Forecast.CALIBRATED].probability for case in cases])
    evicted = np.array([case.evicted_after_us is not None for case in cases], float)
    return [
        _age(said[part], evicted[part]) for part in ((low <= days) & (days < high) for low, high in pairwise(_AGES))
    ]


def _age(said: np.ndarray, evicted: np.ndarray) -> Age:
    count = len(said)
    if not count:
        return Age(0, 0, 0.0, 0.0, 0.0)
    constant = log_loss(np.full(count, evicted.mean()), evicted, sure=0.0)
    return Age(count, int(evicted.sum()), float(said.sum()), log_loss(said, evicted) * count, constant * count)


class Line(NamedTuple):
    """A line of judgement."""

    name: str
    is_good: bool
    text: str


def judge(runs: Sequence[Run]) -> list[Line]:
    """Return the lines of judgement of runs with an eviction, those that fail first."""
    many = [run for run in runs if run.evicted >= MANY]
    few = [run for run in runs if 0 < run.evicted < MANY]
    lines = [
        _mean("relative", runs, lambda run: run.relative, 0.70, 0.62),
        _mean("forward", runs, lambda run: run.forward, 0.65),
        *_of_many(many),
        *([_few(few)] if few else []),
        *_cells(runs),
        _deciles(runs),
        *_coverage(runs),
    ]
    return sorted(lines, key=lambda line: line.is_good)


def _mean(name: str, runs: Sequence[Run], of: Callable[[Run], float], most: float, goal: float | None = None) -> Line:
    mean = float(np.mean([of(run) for run in runs]))
    wished = "" if goal is None else f", goal {goal:.2f}"
    return Line(name, mean <= most, f"{mean:.3f} of {len(runs)} runs (at most {most:.2f}{wished})")


def _of_many(many: Sequence[Run]) -> Iterator[Line]:
    if not many:
        return
    yield _mean("many", many, lambda run: run.relative, 0.66, 0.58)
    bad = [f"{run.name} {run.relative:.2f}" for run in many if run.relative > 0.95]
    yield Line("worst", not bad, f"{max(run.relative for run in many):.2f} (at most .95){_names(bad)}")
    mean, low = (
        float(np.mean([run.auc for run in many])),
        [f"{run.name} {run.auc:.3f}" for run in many if run.auc < 0.82],
    )
    high = float(np.mean([run.auc >= 0.88 for run in many]))
    yield Line("auc mean", mean >= 0.94, f"{mean:.4f} of {len(many)} runs (at least .94, goal .955)")
    yield Line("auc each", not low, f"{min(run.auc for run in many):.3f} (at least .82){_names(low)}")
    yield Line("auc .88", high >= 0.90, f"{high:.1%} of the runs (at least 90 %)")


def _few(few: Sequence[Run]) -> Line:
    own, constant = (sum(run.report[loss] * run.report["cases"] for run in few) for loss in _LOSSES)
    return Line("few", own / constant <= 0.85, f"{own / constant:.2f} of {len(few)} runs (at most .85)")


_LOSSES = ("log_loss", "constant_log_loss")


def _cells(runs: Sequence[Run]) -> Iterator[Line]:
    cells = [(f"{run.name} {stratum} {ratio:.2f}", ratio) for run in runs for stratum, ratio in run.cells.items()]
    for most, least in ((2, 0.85), (3, 0.95)):
        bad = [name for name, ratio in cells if not 1 / most <= ratio <= most]
        share = 1 - len(bad) / max(len(cells), 1)
        text = f"{share:.1%} of {len(cells)} within 1/{most} to {most} (at least {least:.0%}){_names(bad)}"
        yield Line(f"cells {most}", share >= least, text)


def _deciles(runs: Sequence[Run]) -> Line:
    inside = [held for run in runs for held in run.deciles]
    share = float(np.mean(inside))
    bad = [f"{run.name} {sum(run.deciles)}" for run in sorted(runs, key=lambda run: sum(run.deciles))[:_NAMED]]
    return Line(
        "deciles", share >= 0.85, f"{share:.1%} of {len(inside)} inside (at least 85 %); fewest: {', '.join(bad)}"
    )


def _coverage(runs: Sequence[Run]) -> Iterator[Line]:
    """Judge each stratum, summed; and tell the share of runs that would hold by themselves."""
    for stratum in STRATA:
        rows = [run.report["coverage"][stratum] for run in runs if stratum in run.report["coverage"]]
        epochs, alone = sum(row["epochs"] for row in rows), [row for row in rows if row["epochs"] >= MANY]
        if epochs >= MANY:
            covered = sum(row["covered"] for row in rows) / epochs
            held = sum(row["covered"] >= 0.93 * row["epochs"] for row in alone)
            text = f"{stratum} {covered:.1%} of {epochs} epochs (at least 93 %); by itself {held} of {len(alone)} runs"
            yield Line("coverage", covered >= 0.93, text)


def _names(bad: Sequence[str]) -> str:
    return f": {', '.join(bad[:_NAMED])}{', ...' if len(bad) > _NAMED else ''}" if bad else ""


def measure(title: str, tasks: Sequence[Task]) -> bool:
    """Follow every start of every platform, print all lines, and return True if none fails."""
    found = run_side_by_side(follow, tasks)
    runs = [run for run in found if run.evicted]
    lines = judge(runs)
    print(f"\nCalibration, {title}: {len(found)} platforms, {len(runs)} with an eviction")
    for line in lines:
        print(f"  {' ' if line.is_good else '!'} {line.name:10} {line.text}")
    _show_ages(found)
    for run in sorted(runs, key=lambda run: -run.relative):
        _show(run)
    return all(line.is_good for line in lines)


def _show_ages(runs: Iterable[Run]) -> None:
    rows = [run.ages for run in runs]
    for number, (low, high) in enumerate(pairwise(_AGES)):
        cases, evicted, said, loss, constant = np.sum([ages[number] for ages in rows if len(ages) > number], axis=0)
        name = f"day {low} to {high}" if high < _AGES[-1] else f"from day {low}"
        if evicted:
            print(f"    {name:14} {cases:7.0f} {evicted:6.0f}  {loss / constant:.3f}  {said / evicted:.2f}")


def _show(run: Run) -> None:
    level, inside = run.report["said"] / run.report["happened"], f"{sum(run.deciles)}/{len(run.deciles)}"
    scores = f"{level:5.2f}  {run.relative:5.2f} {run.forward:5.2f}  {run.auc:.3f}  {inside}"
    print(f"    {run.name:22} {run.report['cases']:6} {run.evicted:5}  {scores}", flush=True)


def judge_all(parts: Sequence[str], traces: Path, seeds: Sequence[int] = ()) -> bool:
    """Judge the platforms of these parts together, and the workloads of the papers by themselves."""
    known = PARTS | ({"synthetic": synthetic(seeds)} if seeds else {})
    platforms: list[Platform] = [one for part in parts if part != PAPERS for one in known[part]]
    good = not platforms or measure("the yardsticks", [Task(one, traces) for one in platforms])
    if PAPERS in parts:
        measure("the papers' workload on a full cloud", [Task(seed, traces) for seed in seeds or SEEDS])
    return good


def main() -> None:
    """Judge the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=(*PARTS, PAPERS), default=[*USUAL, PAPERS])
    parser.add_argument("--seeds", type=int, nargs="*", default=(), help="other seeds of synthetic platforms")
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    sys.exit(0 if judge_all(arguments.parts, arguments.traces, arguments.seeds) else 1)


if __name__ == "__main__":
    main()
