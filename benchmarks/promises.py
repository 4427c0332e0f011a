"""Checks if promises are kept, and how much they admit: both guarantees on recorded and synthetic workloads.

    python -m benchmarks.promises all         # the yardsticks: the next three
    python -m benchmarks.promises strata      # the stratified guarantee on all platforms (benchmarks.strata)
    python -m benchmarks.promises calibration # how true the calibrated forecast is (benchmarks.calibration)
    python -m benchmarks.promises sixteen     # SLA 0.01 on the papers' sixteen configurations

    python -m benchmarks.promises replays     # what else is known of the published method: the next four
    python -m benchmarks.promises held-out    # pairs and platforms that nothing was chosen on
    python -m benchmarks.promises synthetic   # ten seeds on 8 nodes of 4 cores, SLA 0.25, 0.10, 0.05, 0.01
    python -m benchmarks.promises frequency   # what tables more often than every six hours would change
    python -m benchmarks.promises placement   # first fit against best fit, on the papers' sixteen configurations

Deterministic but for the times. The recorded traces are read from ../shared/traces, or from --traces.

A line of `sixteen` and `held-out` shows: spot admitted / requested, evicted / admitted, completed core-hours relative
to those without an SLA, and the share of the quotes' bounds (at 95 %) that hold. For the last, every spot start that
got a quote is followed: an admitted one by its own fate, a rejected one as a virtual instance. In every epoch the share
that was evicted within its lifetime is compared with the mean of the bounds.

Exit code 1 if an SLA is missed in `sixteen`, or in more than one of forty in `synthetic`, or a line of
`calibration` or `strata` fails.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar

from app.domain.times import HOUR_US
from app.domain.values import Clock, Forecast, Guarantee, Placement, Policy, Resources
from app.workbench import fates
from app.workbench.evaluate import evaluate
from app.workbench.side_by_side import run_side_by_side
from app.workbench.tally import Scenario
from app.workbench.workload import Workload
from benchmarks.calibration import PAPERS, judge_all, synthetic_workload
from benchmarks.platforms import ALL, FULL, HELD_OUT, SIXTEEN, TRACES, USUAL, Platform
from benchmarks.strata import SLAS as SLAS_OF_STRATA
from benchmarks.strata import measure as judge_strata

GUARANTEES = (Guarantee.POOLED, Guarantee.PER_INSTANCE)
SLAS = (0.25, 0.10, 0.05, 0.01)
EVERY_US = (12 * HOUR_US, 6 * HOUR_US, HOUR_US, HOUR_US // 4)


@dataclass(frozen=True)
class Case:
    """One evaluation."""

    nodes: tuple[Resources, ...]
    workload: Workload
    policy: Policy
    is_followed: bool = True

    @property
    def size(self) -> int:
        """Number of its steps."""
        return self.workload.size


@dataclass(frozen=True)
class Result:
    """The result; `covered` of `rows` epochs, for all of them and for those in which something was evicted."""

    requested: int
    admitted: int
    evicted: int
    core_us: int
    covered: int
    rows: int
    hard_covered: int
    hard_rows: int
    wall_s: float

    @property
    def ratio(self) -> float:
        return self.evicted / max(self.admitted, 1)


def main() -> int:
    """Run the parts asked for; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named_ = ", ".join([*_GROUPS, *_PARTS])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{named_}; by default all")
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--samples", type=int, default=10_000, help="samples of each flavor in an epoch")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of injection")
    parser.add_argument("--first-seed", type=int, default=1, help="first of the ten seeds of the synthetic workloads")
    arguments = parser.parse_args()
    good, began = True, perf_counter()
    if unknown := {*arguments.parts} - {*_PARTS, *_GROUPS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in [one for name in arguments.parts or ["all"] for one in _GROUPS.get(name, [name])]:
        good &= _PARTS[part](arguments)
    print(f"\n{perf_counter() - began:.0f} s")
    return 0 if good else 1


def sixteen(arguments: argparse.Namespace) -> bool:
    """Check that each configuration keeps its bar, within 0.010."""
    print("\nSLA 0.01 on the papers' configurations")
    results = _configurations(SIXTEEN, arguments)
    relative = [results[Guarantee.POOLED, case].core_us / results[Guarantee.NONE, case].core_us for case in FULL]
    print(f"  pooled, core-hours relative to no SLA, mean of the full platforms: {np.mean(relative):.3f}")
    _print_coverage(results)
    print(f"  wall: {sum(result.wall_s for result in results.values()):.0f} s of evaluations, each on one core")
    return all(result.ratio <= 0.010 for (guarantee, _), result in results.items() if guarantee is not Guarantee.NONE)


def held_out(arguments: argparse.Namespace) -> bool:
    """Show the configurations that nothing was chosen on; they are not judged."""
    print("\nSLA 0.01 on other pairs and platforms")
    results = _configurations(HELD_OUT, arguments)
    for guarantee in GUARANTEES:
        ratios = [results[guarantee, configuration].ratio for configuration in HELD_OUT]
        print(f"  {guarantee}: {sum(ratio <= 0.010 for ratio in ratios)} of {len(ratios)} within 0.010")
    _print_coverage(results)
    return True


def synthetic(arguments: argparse.Namespace) -> bool:
    """Evaluate ten seeds with four SLAs."""
    print("\nSynthetic, 10 days on 8 nodes x 4 cores: evicted / admitted of each seed")
    seeds = range(arguments.first_seed, arguments.first_seed + 10)
    keys = [(guarantee, sla, seed) for guarantee in GUARANTEES for sla in SLAS for seed in seeds]
    workloads = {seed: synthetic_workload(seed) for seed in seeds}
    cases = [
        Case((Resources(4),) * 8, workloads[seed], _policy(guarantee, arguments, sla)) for guarantee, sla, seed in keys
    ]
    results = dict(zip(keys, _run(cases), strict=True))
    good = True
    for guarantee in GUARANTEES:
        kept = 0
        for sla in SLAS:
            row = [results[guarantee, sla, seed] for seed in seeds]
            kept += sum(result.ratio <= sla for result in row)
            spent = np.mean([result.ratio / sla for result in row])
            admitted = np.mean([result.admitted / result.requested for result in row])
            cells = " ".join(f"{result.ratio:.4f}" for result in row)
            print(f"  {guarantee:13}{sla:5} {cells}  admitted {admitted:.2f}, of the budget spent {spent:.2f}")
        good &= kept >= len(SLAS) * len(seeds) - 1
        print(f"  {guarantee}: {kept} of {len(SLAS) * len(seeds)} within the SLA")
    return good


def frequency(arguments: argparse.Namespace) -> bool:
    """Show what earlier tables could gain at most: they come every 15 minutes at most. This is not judged."""
    print("\nSLA 0.01 on the full platforms, by the time between two tables: admitted / evicted / core-hours of 6 h")
    keys = [(guarantee, c, every_us) for guarantee in GUARANTEES for c in FULL for every_us in EVERY_US]
    workloads = {c.pair: c.workload(arguments.traces) for c in FULL}
    policies = {guarantee: _policy(guarantee, arguments) for guarantee in GUARANTEES}
    cases = [
        Case(c.capacities, workloads[c.pair], replace(policies[guarantee], recompute_every_us=us))
        for guarantee, c, us in keys
    ]
    results = dict(zip(keys, _run(cases), strict=True))
    print(f"  {'':32}" + "".join(f"{us / HOUR_US:>21g} h" for us in EVERY_US))
    for guarantee in GUARANTEES:
        for configuration in FULL:
            row = [results[guarantee, configuration, every_us] for every_us in EVERY_US]
            usual = max(results[guarantee, configuration, 6 * HOUR_US].core_us, 1)
            cells = [f"{r.admitted / r.requested:.3f} / {r.ratio:.4f} / {r.core_us / usual:.2f}" for r in row]
            print(f"  {guarantee:13} {configuration.platform:18}" + "".join(f"{cell:>23}" for cell in cells))
    return True


def placement(arguments: argparse.Namespace) -> bool:
    """Compare first fit with best fit, without an SLA and with both guarantees; this is not judged."""
    print("\nSLA 0.01, first fit / best fit: evicted of admitted, completed core-hours of requested")
    keys = [(guarantee, c, how) for c in SIXTEEN for guarantee in (Guarantee.NONE, *GUARANTEES) for how in Placement]
    workloads = {c.pair: c.workload(arguments.traces) for c in SIXTEEN}
    cases = [
        Case(
            c.capacities,
            workloads[c.pair],
            replace(_policy(guarantee, arguments), placement=how),
            is_followed=False,
        )
        for guarantee, c, how in keys
    ]
    results = dict(zip(keys, _run(cases), strict=True))
    requested = {pair: sum(one.lifetime_us * one.cores for one in work.spot) for pair, work in workloads.items()}
    for configuration in SIXTEEN:
        cells = []
        for guarantee in (Guarantee.NONE, *GUARANTEES):
            pair = [results[guarantee, configuration, how] for how in Placement]
            core = " / ".join(f"{one.core_us / requested[configuration.pair]:.3f}" for one in pair)
            cells.append(f"{guarantee}: " + " / ".join(f"{one.ratio:.4f}" for one in pair) + f", core {core}")
        print(f"  {configuration.platform:18} {'   '.join(cells)}", flush=True)
    for guarantee in (Guarantee.NONE, *GUARANTEES):
        gains = [results[guarantee, c, how].core_us for c in SIXTEEN for how in Placement]
        ratios = np.array(gains[1::2]) / np.array(gains[::2])
        print(
            f"  {guarantee}: core-hours of best / first fit: {ratios.min():.2f} to {ratios.max():.2f}, "
            f"mean {ratios.mean():.3f}"
        )
    return True


def calibration(arguments: argparse.Namespace) -> bool:
    """Judge the calibrated forecast on all platforms of the yardsticks, and on full clouds by themselves."""
    return judge_all([*USUAL, PAPERS], arguments.traces)


def strata(arguments: argparse.Namespace) -> bool:
    """Judge the stratified guarantee on all platforms of the yardsticks."""
    return judge_strata(ALL, SLAS_OF_STRATA, arguments.traces)


Results = dict[tuple[Guarantee, Platform], Result]


def _configurations(configurations: Sequence[Platform], arguments: argparse.Namespace) -> Results:
    keys = [(guarantee, c) for guarantee in (Guarantee.NONE, *GUARANTEES) for c in configurations]
    workloads = {c.pair: c.workload(arguments.traces) for c in configurations}
    cases = [Case(c.capacities, workloads[c.pair], _policy(guarantee, arguments)) for guarantee, c in keys]
    results = dict(zip(keys, _run(cases), strict=True))
    header = "admitted / evicted / core / covered"
    print(f"  {'':18}{'pooled: ' + header:>46}{'per_instance':>36}   the papers")
    for configuration in configurations:
        baseline = results[Guarantee.NONE, configuration]
        cells = "".join(f"{_cells(results[g, configuration], baseline):>36}" for g in GUARANTEES)
        print(f"  {configuration.platform:18}{cells}   {configuration.known}", flush=True)
    return results


def _cells(result: Result, baseline: Result) -> str:
    missed = "!" if result.ratio > 0.010 else " "
    core = result.core_us / max(baseline.core_us, 1)
    cover = f"{result.covered}/{result.rows}"
    return f"{result.admitted / result.requested:.3f} / {result.ratio:.4f}{missed}/ {core:.2f} / {cover:>9}"


def _print_coverage(results: Results) -> None:
    for guarantee in GUARANTEES:
        known = [result for (which, _), result in results.items() if which is guarantee]
        covered, rows = sum(r.covered for r in known), sum(r.rows for r in known)
        hard, hard_rows = sum(r.hard_covered for r in known), sum(r.hard_rows for r in known)
        share, hard_share = covered / max(rows, 1), hard / max(hard_rows, 1)
        print(
            f"  {guarantee}: bounds cover in {covered} of {rows} epochs ({share:.3f}); "
            f"with evictions {hard} of {hard_rows} ({hard_share:.3f})"
        )


def _run(cases: list[Case]) -> list[Result]:
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("evaluations", total=sum(case.size for case in cases))
        return run_side_by_side(
            _evaluate, cases, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )


def _evaluate(case: Case, executor: Executor, progress: Callable[[int, int], None]) -> Result:
    began = perf_counter()
    is_followed = case.is_followed and case.policy.guarantee is not Guarantee.NONE
    followed = fates.Fates(case.policy) if is_followed else None
    outcome = evaluate(Scenario(case.nodes, case.workload, case.policy), executor, fates=followed, progress=progress)
    wall_s, tally = perf_counter() - began, outcome.tally
    rows = [] if followed is None else coverage(followed.cases())
    hard = [covered for covered, evicted in rows if evicted]
    return Result(
        tally.spot_requested,
        tally.spot_admitted,
        tally.spot_evicted,
        tally.completed_core_us,
        sum(covered for covered, _ in rows),
        len(rows),
        sum(hard),
        len(hard),
        wall_s,
    )


def coverage(cases: Sequence[fates.Case]) -> list[tuple[bool, bool]]:
    """Return for every epoch if its quotes' bounds held, and if anything was evicted."""
    found: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    for case in cases:
        said = case.quoted.said.get(Forecast.REPLAY)
        if said is not None and said.bound is not None:
            found[case.quoted.epoch].append((case.evicted_after_us is not None, said.bound))
    rows = []
    for ends in found.values():
        share, bound = np.mean(np.array(ends, float), axis=0)
        rows.append((bool(share <= bound), bool(share > 0)))
    return rows


def _policy(guarantee: Guarantee, arguments: argparse.Namespace, sla: float = 0.01) -> Policy:
    return Policy(
        guarantee=guarantee,
        eviction_probability=sla,
        clock=Clock.EXTERNAL,
        sample_count=arguments.samples,
        seed=arguments.seed,
    )


_PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "strata": strata,
    "calibration": calibration,
    "sixteen": sixteen,
    "held-out": held_out,
    "synthetic": synthetic,
    "frequency": frequency,
    "placement": placement,
}
_GROUPS = {
    "all": ["strata", "calibration", "sixteen"],
    "replays": ["held-out", "synthetic", "frequency", "placement"],
}


if __name__ == "__main__":
    sys.exit(main())
