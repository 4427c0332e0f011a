"""Tries the rule of admission/strata.py with the calibrated forecast, which no running cloud uses yet.

    python -m benchmarks.strata                          # the four full pairs at 0.01, 0.05 and 0.10
    python -m benchmarks.strata --platforms A-B:4x12 --sla 0.05

A line shows: admitted / requested, evicted / admitted, completed core-hours of those requested, the lost of those
admitted, and evicted / admitted in each stratum; the last line of a probability sums the strata over the platforms, in
multiples of it. Deterministic. The recorded traces are read from ../shared/traces/eucalyptus, or from --traces.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from app.admission.strata import Books, admitting_line
from app.domain.events import Event, InstanceRejected, InstanceStarted, Recorded
from app.domain.inputs import parse_nodes
from app.domain.requests import StartRequest
from app.domain.strata import STRATA
from app.domain.times import DAY_US
from app.domain.values import Clock, Forecast, Guarantee, Market, Policy, Rejection
from app.forecast.table import QuantileTable
from app.workbench.evaluate import DrivenCloud, lead_through
from app.workbench.tally import Scenario, WorkloadTally
from app.workbench.workload import load_workload

TRACES = Path(__file__).parents[2] / "shared" / "traces" / "eucalyptus"
FILES = {"A": "DS2", "B": "DS3", "C": "DS5", "D": "DS6"}
FULL = ("A-B:7x12", "B-A:7x8", "C-D:31x32", "D-C:31x32")


class BookedCloud(DrivenCloud):
    """A driven cloud whose spot starts are decided by the books of their strata."""

    def __init__(self, policy: Policy, executor: ThreadPoolExecutor) -> None:
        self.books = Books()
        super().__init__(policy, executor, logs=[self])

    def write(self, recorded: Recorded) -> None:
        """Take the log's next event."""
        self.books.fold(recorded.event)

    def decide(self, request: StartRequest, at_us: int, table: QuantileTable | None) -> Sequence[Event]:
        """Decide a start; a spot start by its risk and its stratum's book."""
        events = super().decide(request, at_us, table)
        first = events[-1]
        if request.market is not Market.SPOT:
            return events
        assert isinstance(first, InstanceStarted | InstanceRejected)
        return [self._decide(request, first)]

    def _decide(
        self, request: StartRequest, first: InstanceStarted | InstanceRejected
    ) -> InstanceStarted | InstanceRejected:
        """Return the decision of the books in place of the first one, if the start fits and has a risk."""
        basis, node = first.basis, self.cloud.fitting_node(request.flavor)
        if basis is None or basis.estimated_probability is None or node is None:
            return first
        probability, lifetime_us = basis.probability or 0.0, request.lifetime_us or 0
        standing = self.books.standing(probability, lifetime_us, first.at_us)
        if admitting_line(standing, basis.estimated_probability, probability) is None:
            return InstanceRejected(
                at_us=first.at_us,
                instance_id=first.instance_id,
                market=first.market,
                flavor=first.flavor,
                reason=Rejection.BUDGET_EXHAUSTED,
                lifetime_us=lifetime_us,
                basis=basis,
            )
        return InstanceStarted(
            at_us=first.at_us,
            instance_id=first.instance_id,
            market=first.market,
            flavor=first.flavor,
            node=node,
            lifetime_us=lifetime_us,
            basis=basis,
        )


def run(scenario: Scenario) -> WorkloadTally:
    """Evaluate a scenario by the books."""
    with ThreadPoolExecutor(1) as executor:
        return lead_through(BookedCloud(scenario.policy, executor), scenario)


def main() -> None:
    """Print a line for each platform and probability."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", nargs="*", default=FULL, metavar="PAIR:NxC")
    parser.add_argument("--sla", type=float, nargs="*", default=(0.01, 0.05, 0.10))
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    for sla in arguments.sla:
        print(f"SLA {sla}")
        found = [_show(platform, sla, arguments.traces) for platform in arguments.platforms]
        sums = [_ratio([tally.strata[name] for tally in found], sla) for name in STRATA]
        print(f"  {'all, in multiples':18} {'':46} {' '.join(sums)}", flush=True)


def _show(platform: str, sla: float, traces: Path) -> WorkloadTally:
    pair, nodes = platform.split(":")
    on_demand, spot = (traces / f"{FILES[name]}-trace.txt" for name in pair.split("-"))
    policy = Policy(
        guarantee=Guarantee.PER_INSTANCE, forecast=Forecast.CALIBRATED, clock=Clock.EXTERNAL, clock_step_us=None
    )
    workload = load_workload(on_demand, spot, DAY_US)
    tally = run(Scenario(parse_nodes(nodes), workload, replace(policy, eviction_probability=sla)))
    admitted = max(tally.spot_admitted, 1)
    strata = [tally.strata[name] for name in STRATA]
    lost = sum(one.lost_core_us for one in strata) / max(sum(one.core_us for one in strata), 1)
    cells = " ".join(f"{f'{one.evicted}/{one.admitted}':>8}" for one in strata)
    shares = (admitted / tally.spot_requested, tally.spot_evicted / admitted)
    core = tally.completed_core_us / tally.requested_core_us
    print(f"  {platform:18} {shares[0]:.3f} / {shares[1]:.4f} / core {core:.3f} / lost {lost:.3f}  {cells}", flush=True)
    return tally


def _ratio(groups: Sequence[object], sla: float) -> str:
    evicted = sum(getattr(group, "evicted", 0) for group in groups)
    admitted = sum(getattr(group, "admitted", 0) for group in groups)
    return f"{evicted / admitted / sla:8.2f}" if admitted else f"{'-':>8}"


if __name__ == "__main__":
    main()
