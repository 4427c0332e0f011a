"""Evaluates the recorded and the synthetic workloads, and compares the results with the known ones.

    python -m benchmarks.evaluations no-sla      # must be the first table of docs/forecast.md; every log is audited
    python -m benchmarks.evaluations sla         # --sla 0.01 on the four recorded pairs
    python -m benchmarks.evaluations synthetic   # three seeds on 8 nodes of 4 cores, without an SLA and at four

Deterministic but for the times. The recorded traces are read from ../shared/traces/eucalyptus, or from --traces. The
papers' values are those of the conference paper on spot SLAs (its Figure 1 is known by the two levels that its text
names); the prototype is the independent one whose measurements docs/forecast.md records. Exit code 1 if a count differs
from that table, or an audit fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from app.domain.names import node_name
from app.domain.times import DAY_US
from app.domain.values import Clock, EvictionPolicy, Guarantee, Policy, Resources
from app.workbench.audit import audit
from app.workbench.evaluate import evaluate
from app.workbench.logcsv import LogWriter, read_log
from app.workbench.synthesis import synthesize
from app.workbench.tally import DrivenScenario, Scenario
from app.workbench.workload import Workload, combine, load_workload

TRACES = Path(__file__).parents[2] / "shared" / "traces" / "eucalyptus"
NO_SLA = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)


class Pair(NamedTuple):
    """A recorded pair: its traces, its platform, and its counts and ratios in docs/forecast.md."""

    name: str
    on_demand: str
    spot: str
    nodes: tuple[Resources, ...]
    yjf: str
    yjf_global: str
    seeds: str
    prototype: str


PAIRS = (
    Pair(
        "A-B",
        "DS2",
        "DS3",
        (Resources(12),) * 7,
        "900/899, 2600/2600, 9",
        "900/899, 2600/2600, 9",
        ".884 / .009",
        ".974 / .0036 / .93",
    ),
    Pair(
        "B-A",
        "DS3",
        "DS2",
        (Resources(8),) * 7,
        "2600/2600, 899/760, 9",
        "2600/2600, 899/760, 10",
        ".757 / .000",
        ".820 / .0081 / .55",
    ),
    Pair(
        "C-D",
        "DS5",
        "DS6",
        (Resources(32),) * 31,
        "8456/8456, 3750/3482, 48",
        "8456/8456, 3750/3503, 116",
        ".491 / .002",
        ".583 / .0114 / .25",
    ),
    Pair(
        "D-C",
        "DS6",
        "DS5",
        (Resources(32),) * 31,
        "4157/4157, 8456/8177, 96",
        "4157/4157, 8456/8224, 199",
        ".278 / .006",
        ".882 / .0109 / .30",
    ),
)
SYNTHETIC_SLAS: tuple[tuple[float | None, str], ...] = (
    (None, ".70 / .39"),
    (0.25, ".60 / .09"),
    (0.10, "kept"),
    (0.05, "kept"),
    (0.01, "kept"),
)


def main() -> int:
    """Run the parts asked for; return 1 if a result is wrong."""
    parts: dict[str, Callable[[Path], bool]] = {"no-sla": no_sla, "sla": with_sla, "synthetic": synthetic}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help="no-sla, sla, synthetic; by default all")
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    chosen = arguments.parts or list(parts)
    good = True
    for part in chosen:
        good &= parts[part](arguments.traces)
    return 0 if good else 1


def no_sla(traces: Path) -> bool:
    """Compare every count with the table."""
    print("\nWithout an SLA: on-demand requested/admitted, spot requested/admitted, evicted")
    good = True
    for pair in PAIRS:
        workload = _recorded(pair, traces)
        for eviction in EvictionPolicy:
            policy = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL, eviction_policy=eviction)
            outcome, passed = run(Scenario(pair.nodes, workload, policy))
            found, expected = _counts(outcome), pair.yjf if eviction is EvictionPolicy.YJF else pair.yjf_global
            good &= passed and found == expected
            same = "as in the table" if found == expected else f"NOT {expected}"
            print(f"  {pair.name} {eviction:10}  {found:26} {same}; {_passes(passed)}; {outcome.wall_s:.1f} s")
    return good


def with_sla(traces: Path) -> bool:
    """Evaluate every pair with the target of 0.01."""
    print("\nSLA 0.01, 10,000 samples an epoch: spot admitted/requested, evicted/admitted, completed core-hours")
    print(f"  {'':5}{'here':>24}   {'the papers':14}{'prototype':22}epochs  forecasts   in all")
    good = True
    for pair in PAIRS:
        policy = Policy(clock=Clock.EXTERNAL, eviction_probability=0.01)
        outcome, passed = run(Scenario(pair.nodes, _recorded(pair, traces), policy))
        good &= passed
        times = f"{len(outcome.tally.epochs):6} {outcome.forecast_s:8.1f} s {outcome.wall_s:6.1f} s"
        print(f"  {pair.name:5}{_ratios(outcome):>24}   {pair.seeds:14}{pair.prototype:22}{times}; {_passes(passed)}")
    return good


def synthetic(_traces: Path) -> bool:
    """Evaluate the workloads of Figure 1."""
    print("\nSynthetic, 10 days on 8 nodes x 4 cores: spot admitted/requested, evicted/admitted, completed core-hours")
    print(f"  {'SLA':6}{'seed 1':>22}{'seed 2':>22}{'seed 3':>22}   the papers' Figure 1")
    good = True
    for sla, known in SYNTHETIC_SLAS:
        cells = []
        for seed in (1, 2, 3):
            policy = NO_SLA if sla is None else Policy(clock=Clock.EXTERNAL, eviction_probability=sla)
            outcome, passed = run(Scenario((Resources(4),) * 8, _synthetic(seed), policy))
            good &= passed
            cells.append(f"{_ratios(outcome):>22}")
        print(f"  {'none' if sla is None else sla!s:6}{''.join(cells)}   {known}", flush=True)
    return good


def run(scenario: Scenario) -> tuple[DrivenScenario, bool]:
    """Return an evaluation, and True if its log passes the audit."""
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as threads:
        path = Path(directory) / "log.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            outcome = evaluate(scenario, threads, logs=[LogWriter(file, instances_only=True)])
        nodes = [(node_name(index), capacity) for index, capacity in enumerate(scenario.nodes)]
        return outcome, audit(read_log(path), nodes).finding is None


def _recorded(pair: Pair, traces: Path) -> Workload:
    return load_workload(traces / f"{pair.on_demand}-trace.txt", traces / f"{pair.spot}-trace.txt", DAY_US)


def _synthetic(seed: int) -> Workload:
    """Return workloads with the utilisations of Table I; each market has a trace of its own."""
    on_demand = synthesize(days=10, mean_utilisation=21.77, cores=1, seed=seed)
    return combine(on_demand, synthesize(days=10, mean_utilisation=21.95, cores=1, seed=1000 + seed), DAY_US)


def _counts(outcome: DrivenScenario) -> str:
    tally = outcome.tally
    on_demand = f"{tally.on_demand_requested}/{tally.on_demand_admitted}"
    return f"{on_demand}, {tally.spot_requested}/{tally.spot_admitted}, {tally.spot_evicted}"


def _ratios(outcome: DrivenScenario) -> str:
    tally = outcome.tally
    evicted = tally.spot_evicted / max(tally.spot_admitted, 1)
    core = tally.completed_core_us / tally.requested_core_us
    return f"{tally.spot_admitted / tally.spot_requested:.3f} / {evicted:.4f} / {core:.2f}"


def _passes(passed: bool) -> str:  # noqa: FBT001
    return "audit passes" if passed else "AUDIT FAILS"


if __name__ == "__main__":
    sys.exit(main())
