"""Judges the stratified guarantee with the calibrated forecast on the platforms of the yardsticks, failures first.

    python -m benchmarks.strata                                    # all platforms at 0.01, 0.05 and 0.10
    python -m benchmarks.strata --parts sixteen tight --sla 0.05
    python -m benchmarks.strata --parts sixteen held-out tight drifting   # synthetic load that drifts
    python -m benchmarks.strata --platforms A-B:4x12 D-C:36x16
    python -m benchmarks.strata --parts synthetic --seeds 4 5 6    # seeds that nothing was chosen on
    python -m benchmarks.strata --budget core_hours                # books that count core-hours
    python -m benchmarks.strata --rule rise                        # a simpler rule as a mark (benchmarks.rise_rule)

Part of `python -m benchmarks.promises`. A line of a platform shows: admitted / requested, evicted / admitted, completed
core-hours relative to the clairvoyant's, the lost of those admitted, and evicted / admitted in each stratum. The lines
of judgement follow, each beside its bar, those that fail first and marked with `!`:

    broken      classes (stratum x run, 20 admissions) whose exact interval at 95 % lies above the promise
    strata      evicted / admitted summed over platforms, in multiples of the promise p, and the distinct bursts
    flavors     as `broken`, by flavor
    weeks       weeks (by the start) of a run whose interval lies above p
    core        completed core-hours relative to the clairvoyant's: ratio of the means / mean of the ratios. Means are
                of the shares that complete of what was requested, so each platform counts alike; in brackets the
                ratio of the sums, where the largest clouds decide
    parts       the same for each part of the platforms (never fails)
    lost        core-hours lost of those admitted, summed, in p
    by hours    the same in each stratum, with the completed core-hours of all (never fails)
    aggregate   runs whose SLA was missed; by its interval where fewer than 100 / p were admitted
    doubling    the worst run of the three weeks after the load has doubled (day 20), in p

Evictions on platforms with one on-demand trace, each within six hours of the one before, are one *burst*. Exit code 1
if a line fails. Deterministic. The recorded traces are read from ../shared/traces, or from --traces.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.domain.budgets import BudgetUnit
from app.domain.events import InstanceEvicted, InstanceStarted, Recorded
from app.domain.progress import Progress
from app.domain.strata import STRATA, stratum_of
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, Forecast, Guarantee, Market, Placement, Policy
from app.judging.intervals import exact_interval
from app.workbench.baselines import Baseline, BaselineRun, RuledCloud, without_promise
from app.workbench.evaluate import DrivenCloud, lead_through
from app.workbench.side_by_side import run_side_by_side
from app.workbench.tally import Scenario, WorkloadTally
from benchmarks.platforms import PARTS, TRACES, USUAL, Platform, named, synthetic
from benchmarks.rise_rule import RiseRule

SLAS = (0.01, 0.05, 0.10)
POLICY = Policy(
    guarantee=Guarantee.STRATIFIED,
    forecast=Forecast.CALIBRATED,
    clock=Clock.EXTERNAL,
    clock_step_us=None,
    gives_back=True,
    sample_count=1,  # of replays, which nothing decides by
)
ENOUGH = 20
"""A class is judged from so many admissions on."""
MOST = 2.0
"""Summed over the platforms, so many times the promise may be evicted in a stratum, because bursts are few."""
CORE = {0.01: (0.38, 0.28), 0.05: (0.63, 0.50), 0.10: (0.74, 0.60)}
"""The least completed relative to the clairvoyant: ratio of the means of shares, mean of the ratios."""
_BURST_US = 6 * HOUR_US
_DOUBLED_DAY, _WEEKS_AFTER = 20, 3


class Rule(StrEnum):
    """The rules that admit: the product's, and `benchmarks.rise_rule`."""

    TENURE = "tenure"
    RISE = "rise"


class Admitted(NamedTuple):
    """A spot instance that was admitted, and when it was evicted within its declared lifetime; None if it was not."""

    at_us: int
    lifetime_us: int
    cores: int
    evicted_us: int | None

    @property
    def core_us(self) -> int:
        """Its declared core-microseconds."""
        return self.cores * self.lifetime_us


@dataclass(frozen=True)
class Task:
    """A run of a platform under a promise, or of the clairvoyant there if it is None."""

    platform: Platform
    sla: float | None
    placement: Placement
    traces: Path
    budget: BudgetUnit = BudgetUnit.INSTANCES
    rule: Rule = Rule.TENURE

    @property
    def size(self) -> int:
        """Number of its steps, roughly: the clairvoyant looks ahead at every spot start."""
        return 1

    def scenario(self) -> Scenario:
        """Return what is run."""
        policy = replace(POLICY, eviction_probability=self.sla or 0.01, placement=self.placement, budget=self.budget)
        return Scenario(self.platform.capacities, self.platform.workload(self.traces), policy)


class Run(NamedTuple):
    """The outcome of a run. The clairvoyant's admitted ones all complete, so they are left out."""

    platform: Platform
    requested: int
    requested_core_us: int
    completed_core_us: int
    admitted: Sequence[Admitted]


class _Sink:
    """Follows the log of a run, and keeps what became of those admitted."""

    def __init__(self) -> None:
        self._found: dict[str, Admitted] = {}

    def write(self, recorded: Recorded) -> None:
        """Take the next event."""
        event = recorded.event
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            cores = int(event.flavor[1:])
            self._found[event.instance_id] = Admitted(event.at_us, event.lifetime_us or 0, cores, None)
        elif isinstance(event, InstanceEvicted):
            one = self._found[event.instance_id]
            if event.at_us <= one.at_us + one.lifetime_us:
                self._found[event.instance_id] = one._replace(evicted_us=event.at_us)

    def admitted(self) -> list[Admitted]:
        """Return all of them, in the order of their starts."""
        return [*self._found.values()]


def run(task: Task, executor: Executor, _progress: Progress) -> Run:
    """Run one task."""
    scenario, sink = task.scenario(), _Sink()
    if task.sla is None:
        best = BaselineRun(without_promise(scenario), Baseline.CLAIRVOYANT).run(executor, _progress)
        return Run(task.platform, best.spot_requested, best.requested_core_us, best.completed_core_us, ())
    tally = _lead(task, scenario, executor, sink, _progress)
    requested = tally.spot_requested, tally.requested_core_us
    return Run(task.platform, *requested, tally.completed_core_us, sink.admitted())


def _lead(task: Task, scenario: Scenario, executor: Executor, sink: _Sink, progress: Progress) -> WorkloadTally:
    if task.rule is Rule.TENURE:
        return lead_through(DrivenCloud(scenario.policy, executor, logs=[sink]), scenario, progress)
    bare, rise = without_promise(scenario), RiseRule(scenario, scenario.policy.eviction_probability)
    return lead_through(RuledCloud(bare, executor, rise.admits, [rise, sink]), bare, progress)


class Line(NamedTuple):
    """A line of judgement."""

    name: str
    is_good: bool
    text: str


def judge(runs: Sequence[Run], best_us: Sequence[int], sla: float) -> list[Line]:
    """Return the lines of judgement of runs under one promise; `best_us`: the clairvoyant's core-microseconds."""
    lines = [
        _broken("broken", runs, lambda one: stratum_of(one.lifetime_us), sla, 0.02),
        _strata(runs, sla),
        _broken("flavors", runs, lambda one: one.cores, sla, 0.03),
        _broken("weeks", runs, lambda one: one.at_us // (7 * DAY_US), sla, 0.01, enough=1),
        _core(runs, best_us, sla),
        _parts(runs, best_us),
        _lost(runs, sla),
        _by_hours(runs, sla),
        _aggregate(runs, sla),
        *_doubling(runs, sla),
    ]
    return sorted(lines, key=lambda line: line.is_good)


Class = tuple[Platform, Sequence[Admitted]]


def _broken(
    name: str,
    runs: Sequence[Run],
    class_of: Callable[[Admitted], object],
    sla: float,
    most: float,
    *,
    enough: int = ENOUGH,
) -> Line:
    classes = [one for run in runs for one in _classes(run, class_of) if len(one[1]) >= enough]
    broken = [one for one in classes if exact_interval(_lost_of(one[1]), len(one[1]))[0] > sla]
    share = len(broken) / max(len(classes), 1)
    said = ", ".join(f"{platform.platform} {_lost_of(some)}/{len(some)}" for platform, some in broken[:6])
    more = f": {said}{', ...' if len(broken) > 6 else ''}" if broken else ""
    text = f"{len(broken)} of {len(classes)} ({share:.1%}, at most {most:.0%}), {len(bursts(broken))} bursts{more}"
    return Line(name, share <= most, text)


def _classes(run: Run, class_of: Callable[[Admitted], object]) -> Iterator[Class]:
    found = defaultdict(list)
    for one in run.admitted:
        found[class_of(one)].append(one)
    for some in found.values():
        yield run.platform, some


def _lost_of(some: Iterable[Admitted]) -> int:
    return sum(one.evicted_us is not None for one in some)


def bursts(classes: Iterable[Class]) -> list[tuple[str, int]]:
    """Return the on-demand trace and the beginning of each burst that evicted one of these instances."""
    moments: dict[str, set[int]] = defaultdict(set)
    for platform, some in classes:
        moments[platform.on_demand] |= {one.evicted_us for one in some if one.evicted_us is not None}
    return [
        (trace, at)
        for trace, found in moments.items()
        for before, at in pairwise([-_BURST_US - 1, *sorted(found)])
        if at - before > _BURST_US
    ]


def _strata(runs: Sequence[Run], sla: float) -> Line:
    by_name: dict[str, list[Class]] = {name: [] for name in STRATA}
    for one in runs:
        for platform, some in _classes(one, lambda admitted: stratum_of(admitted.lifetime_us)):
            by_name[stratum_of(some[0].lifetime_us)].append((platform, some))
    cells, most = [], 0.0
    for name, classes in by_name.items():
        lost, count = sum(_lost_of(some) for _, some in classes), sum(len(some) for _, some in classes)
        ratio = lost / max(count, 1) / sla
        most = max(most, ratio)
        cells.append(f"{name} {ratio:.2f} ({lost}/{count}, {len(bursts(classes))} bursts)")
    return Line("strata", most <= MOST, f"at most {MOST:g} p: " + ", ".join(cells))


def _core(runs: Sequence[Run], best_us: Sequence[int], sla: float) -> Line:
    of_means, of_ratios, of_sums = _relative(runs, best_us)
    least = CORE.get(sla, (0.0, 0.0))
    is_good = of_means >= least[0] and of_ratios >= least[1]
    bars = f"(at least {least[0]:.2f} / {least[1]:.2f})"
    return Line("core", is_good, f"{of_means:.3f} / {of_ratios:.3f} {bars} (sums {of_sums:.3f})")


def _parts(runs: Sequence[Run], best_us: Sequence[int]) -> Line:
    cells = []
    for part in dict.fromkeys(one.platform.part for one in runs):
        some = [(one, best) for one, best in zip(runs, best_us, strict=True) if one.platform.part == part]
        of_means, of_ratios, of_sums = _relative([one for one, _ in some], [best for _, best in some])
        cells.append(f"{part} {of_means:.3f} / {of_ratios:.3f} (sums {of_sums:.3f}; {len(some)})")
    return Line("parts", is_good=True, text=", ".join(cells))


def _relative(runs: Sequence[Run], best_us: Sequence[int]) -> tuple[float, float, float]:
    """Return the completed core-hours relative to the clairvoyant's: ratio of the means of the shares that complete of
    those requested, mean of the ratios, ratio of the sums.
    """
    own, best = np.array([one.completed_core_us for one in runs], float), np.array(best_us, float)
    requested = np.array([max(one.requested_core_us, 1) for one in runs], float)
    of_means = (own / requested).mean() / (best / requested).mean()
    return float(of_means), float(np.mean((own / np.maximum(best, 1))[best > 0])), float(own.sum() / best.sum())


def _lost(runs: Sequence[Run], sla: float) -> Line:
    admitted = [one for run in runs for one in run.admitted]
    lost = sum(one.core_us for one in admitted if one.evicted_us is not None)
    multiple = lost / max(sum(one.core_us for one in admitted), 1) / sla
    return Line("lost", multiple <= MOST, f"{multiple:.2f} p (at most {MOST:g})")


def _by_hours(runs: Sequence[Run], sla: float) -> Line:
    cells = []
    for name in STRATA:
        some = [one for run in runs for one in run.admitted if stratum_of(one.lifetime_us) == name]
        lost = sum(one.core_us for one in some if one.evicted_us is not None)
        hours = sum(one.core_us for one in some)
        cells.append(f"{name} {lost / max(hours, 1) / sla:.2f} p ({lost / HOUR_US:.0f}/{hours / HOUR_US:.0f})")
    completed = sum(one.completed_core_us for one in runs) / HOUR_US
    return Line("by hours", is_good=True, text=f"{', '.join(cells)}; completed {completed:.0f}")


def _aggregate(runs: Sequence[Run], sla: float) -> Line:
    missed = [one for one in runs if _misses(one.admitted, sla)]
    named_ = ", ".join(f"{one.platform.platform} {_lost_of(one.admitted)}/{len(one.admitted)}" for one in missed)
    return Line("aggregate", not missed, f"missed on {len(missed)} of {len(runs)}{': ' if missed else ''}{named_}")


def _misses(admitted: Sequence[Admitted], sla: float) -> bool:
    lost, count = _lost_of(admitted), len(admitted)
    return lost > sla * count and (count >= 100 / sla or exact_interval(lost, count)[0] > sla)


def _doubling(runs: Sequence[Run], sla: float) -> Iterator[Line]:
    found = []
    for one in runs:
        if "doubling" in one.platform.on_demand:
            days = (_DOUBLED_DAY, _DOUBLED_DAY + 7 * _WEEKS_AFTER)
            after = [a for a in one.admitted if days[0] * DAY_US <= a.at_us < days[1] * DAY_US]
            found.append(_lost_of(after) / max(len(after), 1) / sla)
    if found:
        yield Line("doubling", max(found) <= MOST, f"{max(found):.2f} p (at most {MOST:g})")


def measure(
    platforms: Sequence[Platform],
    slas: Sequence[float],
    traces: Path,
    placement: Placement = Placement.FIRST_FIT,
    budget: BudgetUnit = BudgetUnit.INSTANCES,
    rule: Rule = Rule.TENURE,
) -> bool:
    """Run every platform under every promise, print all lines, and return True if none fails."""
    tasks = [Task(one, sla, placement, traces, budget, rule) for sla in (None, *slas) for one in platforms]
    found = run_side_by_side(run, tasks)
    best, rest = [one.completed_core_us for one in found[: len(platforms)]], found[len(platforms) :]
    good = True
    for number, sla in enumerate(slas):
        runs = rest[number * len(platforms) : (number + 1) * len(platforms)]
        lines = judge(runs, best, sla)
        print(f"\nSLA {sla}, rule {rule}, {placement}, by {budget}: {len(runs)} platforms, {_real(platforms)} real")
        for line in lines:
            print(f"  {' ' if line.is_good else '!'} {line.name:10} {line.text}")
        for one, own_best in zip(runs, best, strict=True):
            _show(one, own_best)
        good &= all(line.is_good for line in lines)
    return good


def _real(platforms: Sequence[Platform]) -> int:
    return sum(platform.is_real for platform in platforms)


def _show(one: Run, best_us: int) -> None:
    count, lost = max(len(one.admitted), 1), _lost_of(one.admitted)
    core_us = sum(a.core_us for a in one.admitted)
    lost_us = sum(a.core_us for a in one.admitted if a.evicted_us is not None)
    strata = {name: [a for a in one.admitted if stratum_of(a.lifetime_us) == name] for name in STRATA}
    cells = " ".join(f"{f'{_lost_of(some)}/{len(some)}':>8}" for some in strata.values())
    print(
        f"    {one.platform.platform:22} {len(one.admitted) / one.requested:.3f} / {lost / count:.4f} / core "
        f"{one.completed_core_us / max(best_us, 1):.3f} / lost {lost_us / max(core_us, 1):.3f}  {cells}"
    )


def main() -> None:
    """Judge the platforms asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=USUAL)
    parser.add_argument("--platforms", type=named, nargs="*", metavar="PAIR:NxC", help="in place of parts")
    parser.add_argument("--seeds", type=int, nargs="*", help="other seeds of the synthetic platforms")
    parser.add_argument("--sla", type=float, nargs="*", default=SLAS)
    parser.add_argument("--placement", type=Placement, default=Placement.FIRST_FIT)
    parser.add_argument("--budget", type=BudgetUnit, default=BudgetUnit.INSTANCES)
    parser.add_argument("--rule", type=Rule, choices=[*Rule], default=Rule.TENURE)
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    parts = PARTS | ({"synthetic": synthetic(arguments.seeds)} if arguments.seeds else {})
    platforms = arguments.platforms or [one for part in arguments.parts for one in parts[part]]
    asked = arguments.placement, arguments.budget, arguments.rule
    good = measure(platforms, arguments.sla, arguments.traces, *asked)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
