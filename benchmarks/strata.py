"""Shows what the stratified guarantee gives with the calibrated forecast.

    python -m benchmarks.strata                          # the four full pairs at 0.01, 0.05 and 0.10
    python -m benchmarks.strata --platforms A-B:4x12 --sla 0.05

A line shows: admitted / requested, evicted / admitted, completed core-hours of those requested, the lost of those
admitted, and evicted / admitted in each stratum; the last line of a probability sums the strata over the platforms, in
multiples of it. Deterministic. The recorded traces are read from ../shared/traces, or from --traces.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from app.domain.strata import STRATA
from app.domain.values import Clock, Forecast, Guarantee, Policy
from app.workbench.evaluate import DrivenCloud, lead_through
from app.workbench.tally import Scenario, WorkloadTally
from benchmarks.platforms import FULL, TRACES, Platform, named


def run(scenario: Scenario) -> WorkloadTally:
    """Evaluate a scenario under the policy that it names."""
    with ThreadPoolExecutor(1) as executor:
        return lead_through(DrivenCloud(scenario.policy, executor), scenario)


def main() -> None:
    """Print a line for each platform and probability."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=named, nargs="*", default=FULL, metavar="PAIR:NxC")
    parser.add_argument("--sla", type=float, nargs="*", default=(0.01, 0.05, 0.10))
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    for sla in arguments.sla:
        print(f"SLA {sla}")
        found = [_show(platform, sla, arguments.traces) for platform in arguments.platforms]
        sums = [_ratio([tally.strata[name] for tally in found], sla) for name in STRATA]
        print(f"  {'all, in multiples':18} {'':46} {' '.join(sums)}", flush=True)


def _show(platform: Platform, sla: float, traces: Path) -> WorkloadTally:
    policy = Policy(
        guarantee=Guarantee.STRATIFIED, forecast=Forecast.CALIBRATED, clock=Clock.EXTERNAL, clock_step_us=None
    )
    workload = platform.workload(traces)
    tally = run(Scenario(platform.capacities, workload, replace(policy, eviction_probability=sla)))
    admitted = max(tally.spot_admitted, 1)
    strata = [tally.strata[name] for name in STRATA]
    lost = sum(one.lost_core_us for one in strata) / max(sum(one.core_us for one in strata), 1)
    cells = " ".join(f"{f'{one.evicted}/{one.admitted}':>8}" for one in strata)
    shares = (admitted / tally.spot_requested, tally.spot_evicted / admitted)
    core = tally.completed_core_us / tally.requested_core_us
    print(
        f"  {platform.platform:18} {shares[0]:.3f} / {shares[1]:.4f} / core {core:.3f} / lost {lost:.3f}  {cells}",
        flush=True,
    )
    return tally


def _ratio(groups: Sequence[object], sla: float) -> str:
    evicted = sum(getattr(group, "evicted", 0) for group in groups)
    admitted = sum(getattr(group, "admitted", 0) for group in groups)
    return f"{evicted / admitted / sla:8.2f}" if admitted else f"{'-':>8}"


if __name__ == "__main__":
    main()
