"""Checks how true the calibrated forecast is: every spot start followed, without an SLA, on 57 platforms.

    python -m benchmarks.calibration             # sixteen, held-out, synthetic
    python -m benchmarks.calibration held-out

A line shows a platform: starts, evicted, said / happened, log loss relative to the best constant in hindsight and to a
walk-forward one, AUC. The last lines sum up: means over the runs with an eviction; of runs with twenty, the worst too;
of cells (run x stratum, 100 starts and 20 evictions) the share whose happened / said is within 1/2 to 2 and 1/3 to 3;
the share of deciles in which what was said lies in the interval of what happened. Platforms that share an on-demand
trace are one witness. The weights of the forecast were fitted on platforms of these traces, so nothing here is held out
from them. Deterministic. One process, a few minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from app.domain.values import Clock, Forecast, Guarantee, Policy, Resources
from app.workbench.calibration import calibration_report
from app.workbench.evaluate import evaluate
from app.workbench.fates import Fates
from app.workbench.tally import Scenario
from app.workbench.workload import Workload
from benchmarks.platforms import HELD_OUT, SIXTEEN, TRACES
from benchmarks.promises import synthetic_workload

POLICY = Policy(
    guarantee=Guarantee.NONE, forecast=Forecast.CALIBRATED, clock=Clock.EXTERNAL, clock_step_us=None, sample_count=1
)
PARTS = {"sixteen": SIXTEEN, "held-out": HELD_OUT}
MANY = 20
Run = dict[str, Any]


def main() -> None:
    """Print a line for each platform, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help="sixteen, held-out, synthetic; by default all")
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    runs = []
    for part in arguments.parts or [*PARTS, "synthetic"]:
        for name, nodes, workload in _platforms(part, arguments.traces):
            runs += [found for found in [follow(name, nodes, workload)] if found["evicted"]]
    _sum_up(runs)


def _platforms(part: str, traces: Path) -> Iterator[tuple[str, tuple[Resources, ...], Workload]]:
    if part == "synthetic":
        for seed in range(1, 11):
            yield f"seed {seed} on 8 x 4", (Resources(4),) * 8, synthetic_workload(seed)
        return
    for one in PARTS[part]:
        yield one.platform, one.capacities, one.workload(traces)


def follow(name: str, nodes: tuple[Resources, ...], workload: Workload) -> Run:
    """Evaluate a platform without an SLA, print its line, and return what was said and what happened."""
    fates = Fates(POLICY)
    with ThreadPoolExecutor(1) as executor:
        evaluate(Scenario(nodes, workload, POLICY), executor, fates=fates)
    report = calibration_report(fates.cases(), Forecast.CALIBRATED) or {"evicted": 0, "cases": 0}
    line = f"  {name:18} {report['cases']:6} {report['evicted']:5}"
    if report["evicted"]:
        report["relative"] = report["log_loss"] / report["constant_log_loss"]
        report["forward"] = report["log_loss"] / report["walk_forward_log_loss"]
        level = report["said"] / report["happened"]
        line += f"  {level:5.2f}  {report['relative']:5.2f} {report['forward']:5.2f}  {report['auc']:.3f}"
    print(line, flush=True)
    return report


def _sum_up(runs: Sequence[Run]) -> None:
    many = [run for run in runs if run["evicted"] >= MANY]
    few = [run for run in runs if run["evicted"] < MANY]
    print(f"{len(runs)} runs with an eviction: relative {_mean(runs, 'relative')}, forward {_mean(runs, 'forward')}")
    if many:
        worst, least = max(run["relative"] for run in many), min(run["auc"] for run in many)
        high = np.mean([run["auc"] >= 0.88 for run in many])
        print(f"{len(many)} with {MANY}: relative {_mean(many, 'relative')}, worst {worst:.2f}; ", end="")
        print(f"AUC {_mean(many, 'auc')}, least {least:.3f}, {high:.0%} from .88 on")
    if few:
        own, constant = (sum(run[loss] * run["cases"] for run in few) for loss in ("log_loss", "constant_log_loss"))
        print(f"{len(few)} with fewer: their losses summed, relative {own / constant:.2f}")
    rows = [row for run in runs for row in run["strata"].values() if row["cases"] >= 100 and row["evicted"] >= MANY]
    levels = [row["happened"] / row["said"] for row in rows]
    shares = [f"{np.mean([1 / most <= level <= most for level in levels]):.0%} within {most}" for most in (2, 3)]
    print(f"{len(levels)} cells: {', '.join(shares)}")
    deciles = [row["low"] <= row["said"] <= row["high"] for run in runs for row in run["deciles"]]
    print(f"{len(deciles)} deciles: {np.mean(deciles):.0%} inside")
    cover = [row["coverage"].items() for row in runs]
    totals: dict[str, list[int]] = {}
    for stratum, found in (pair for rows_of in cover for pair in rows_of):
        total = totals.setdefault(stratum, [0, 0])
        total[0], total[1] = total[0] + found["covered"], total[1] + found["epochs"]
    print("covered epochs: " + ", ".join(f"{name} {held}/{all_}" for name, (held, all_) in totals.items()))


def _mean(runs: Sequence[Run], key: str) -> str:
    return f"{np.mean([run[key] for run in runs]):.3f}"


if __name__ == "__main__":
    main()
