"""The rate at which spot instances are evicted by their age, in clouds that evict the youngest first.

    python -m benchmarks.aging [--traces ../shared/traces]

On each of the sixteen configurations the recorded traces are decided without an SLA, so that everything that fits is
admitted. Evictions are counted by the age at which they came, beside the time that instances spent at that age. A rate
is that of evictions by day of one instance; its interval is the exact one (95 %) of a count, as if evictions were
independent, which those of one burst are not. Deterministic.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped, Recorded
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Market
from benchmarks.conditioning import decided
from benchmarks.platforms import SIXTEEN, TRACES

EDGES_US = np.array([0, 600 * SECOND_US, HOUR_US, 6 * HOUR_US, 1 << 62])
WORDS = ("0 to 10 min", "10 min to 1 h", "1 to 6 h", "above 6 h")


def counted(log: Iterable[Recorded]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each class of ages the evictions, and the time in days that spot instances spent in it."""
    evicted, days = np.zeros(len(WORDS), np.int64), np.zeros(len(WORDS))
    begun_us: dict[str, int] = {}
    last_us = 0
    for event in (one.event for one in log):
        last_us = event.at_us
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            begun_us[event.instance_id] = event.at_us
        elif isinstance(event, InstanceStopped | InstanceEvicted) and event.instance_id in begun_us:
            age_us = event.at_us - begun_us.pop(event.instance_id)
            days += spent(age_us)
            if isinstance(event, InstanceEvicted):
                evicted[int(EDGES_US.searchsorted(age_us, side="right")) - 1] += 1
    for at_us in begun_us.values():
        days += spent(last_us - at_us)
    return evicted, days


def spent(age_us: int) -> np.ndarray:
    """Return the days that an instance of this age spent in each class of ages."""
    days: np.ndarray = np.diff(np.minimum(EDGES_US, age_us)) / DAY_US
    return days


def told(evicted: np.ndarray, days: np.ndarray) -> str:
    """Return the rates by day with their intervals, in words."""
    cells = []
    for count, time in zip(evicted.tolist(), days.tolist(), strict=True):
        least = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
        most = chi2.ppf(0.975, 2 * count + 2) / 2
        cells.append(f"{count / time:8.3f} ({least / time:.3f} to {most / time:.3f}; {count} in {time:.0f} d)")
    return " | ".join(cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    traces = parser.parse_args().traces
    print(f"| platform | {' | '.join(WORDS)} |\n|{'---|' * (len(WORDS) + 1)}")
    every = (np.zeros(len(WORDS), np.int64), np.zeros(len(WORDS)))
    for one in SIXTEEN:
        found = counted(decided(one.capacities, one.workload(traces)))
        every = every[0] + found[0], every[1] + found[1]
        print(f"| {one.platform} | {told(*found)} |", flush=True)
    print(f"| all | {told(*every)} |")


if __name__ == "__main__":
    main()
