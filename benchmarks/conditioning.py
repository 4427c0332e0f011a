"""A study of what predicts evictions beside the available slots, on logs that were decided without an SLA.

    python -m benchmarks.conditioning [--traces ../shared/traces]

On every log virtual instances are injected at 20,000 random moments and followed through it, as in the forecast. The
question is if one is evicted within 1 h, 8 h and 2 days. Each predictor is a table of shares. It is learnt from the
moments in the first half of the log whose lifetime ends there, and scored by its logarithmic loss on the second half:

    slots        the flavor's available slots, in eight classes of equal size (what the service does)
    + load       and the on-demand load, by its quarter of the capacity
    + headroom   and how far the load is below its highest so far, by quarters of the capacity
    + freeing    and what share of the running spot cores reaches its declared end within that time, by quarters
    + hour       and the hour of the day, in four
    + weekend    and whether it is one
    recent       slots, the moments weighted by half for each 7 days of age

A cell of a finer table is drawn towards its slots' share by the weight of 50 moments; shares are kept above 0.0005. The
output is the loss relative to `slots`: below 1 is better. Deterministic.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.events import FlavorAdded, InstanceEvicted, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, Guarantee, Market, Policy, Resources
from app.engine.cluster import Ints
from app.forecast.replay import Replay
from app.forecast.replayed import History
from app.workbench.evaluate import evaluate
from app.workbench.tally import Scenario
from app.workbench.workload import Workload
from benchmarks.calibration import synthetic_workload
from benchmarks.platforms import SIXTEEN, TRACES

Floats = NDArray[np.float64]
LIFETIMES_US = {"1 h": HOUR_US, "8 h": 8 * HOUR_US, "2 d": 2 * DAY_US}
MOMENTS = 20_000
DRAWN = 50.0
LEAST = 0.0005
HALF_LIFE_US = 7 * DAY_US
POLICY = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL, horizon_us=1 << 50)
CLASSES = 8


class Moments(NamedTuple):
    """Virtual instances, M of them: time (M), slots (M), time until the end (M), evicted or not (M), predictors (M)."""

    at_us: Ints
    slots: Ints
    lasted_us: Ints
    was_evicted: NDArray[np.bool_]
    load: Floats
    headroom: Floats
    spot_ends: list[tuple[Ints, Floats]]


class _Keep(list[Recorded]):
    """Keeps the log of an evaluation."""

    def write(self, recorded: Recorded) -> None:
        self.append(recorded)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    names = ("+ load", "+ headroom", "+ freeing", "+ hour", "+ weekend", "recent")
    print(f"{'':18}{'within':>8}{'evicted':>9}" + "".join(f"{name:>12}" for name in names))
    found: dict[str, list[float]] = {name: [] for name in names}
    for name, nodes, workload in workloads(arguments.traces):
        log = decided(nodes, workload)
        moments = inject(log)
        for told, lifetime_us in LIFETIMES_US.items():
            losses = compare(moments, lifetime_us, log[-1].event.at_us)
            if losses is None:
                continue
            share, relative = losses
            for key in names:
                found[key].append(relative[key])
            cells = "".join(f"{relative[key]:12.3f}" for key in names)
            print(f"{name:18}{told:>8}{share:9.4f}{cells}", flush=True)
    rows = {name: np.array(found[name]) for name in names}
    _print_row("geometric mean", (f"{np.exp(np.log(rows[name]).mean()):.3f}" for name in names))
    _print_row("better than slots alone in", (f"{(rows[name] < 1).mean():.0%}" for name in names))
    _print_row("worst", (f"{rows[name].max():.3f}" for name in names))


def _print_row(name: str, cells: Iterable[str]) -> None:
    print(f"{name:35}" + "".join(f"{cell:>12}" for cell in cells))


def workloads(traces: Path) -> list[tuple[str, tuple[Resources, ...], Workload]]:
    """Return the sixteen configurations, and three synthetic workloads."""
    cases = [(c.platform, c.capacities, c.workload(traces)) for c in SIXTEEN]
    return cases + [(f"synthetic {seed}", (Resources(4),) * 8, synthetic_workload(seed)) for seed in (1, 2, 3)]


def decided(nodes: tuple[Resources, ...], workload: Workload) -> list[Recorded]:
    """Return the log without an SLA."""
    log = _Keep()
    with ThreadPoolExecutor(1) as executor:
        evaluate(Scenario(nodes, workload, POLICY), executor, logs=[log])
    return log


def inject(log: list[Recorded]) -> Moments:
    """Inject virtual instances of the smallest flavor at random moments; note what a forecaster could have seen."""
    history, until_us = History(), log[-1].event.at_us + 1
    history.extend(log)
    operations = history.operations(until_us)
    used = history.used_resources()
    opening = history.opening(0)
    opening = opening._replace(free=opening.free[:, used], demand=opening.demand[:, used])
    flavor = min(history.flavors, key=lambda name: int(history.flavors[name].sum()))
    replay = Replay(opening, 0, history.flavors[flavor][used], POLICY)
    counting = operations.counting_only(used)
    replay.advance(counting, history.node_count, history.row_count)
    times_us = np.sort(np.random.default_rng(0).integers(DAY_US, until_us, MOMENTS))
    samples = replay.samples(counting.at_us, until_us, times_us)
    load, headroom, ends = seen(log, samples.started_us)
    return Moments(samples.started_us, samples.slots, samples.lasted_us, samples.was_evicted, load, headroom, ends)


def seen(log: list[Recorded], at_us: Ints) -> tuple[Floats, Floats, list[tuple[Ints, Floats]]]:
    """Return at each time on-demand load and headroom as shares of the capacity, and when running spot cores end."""
    cores: dict[str, int] = {}
    running: dict[str, InstanceStarted] = {}
    capacity = load = peak = 0
    loads, headrooms, ends, upcoming = [], [], [], iter(log)
    item = next(upcoming, None)
    for time_us in at_us.tolist():
        while item is not None and item.event.at_us <= time_us:
            event = item.event
            if isinstance(event, NodeAdded):
                capacity += event.capacity.cores
            elif isinstance(event, FlavorAdded):
                cores[event.flavor] = event.demand.cores
            elif isinstance(event, InstanceStarted):
                running[event.instance_id] = event
                load += cores[event.flavor] if event.market is Market.ON_DEMAND else 0
            elif isinstance(event, InstanceStopped | InstanceEvicted):
                ended = running.pop(event.instance_id)
                load -= cores[ended.flavor] if ended.market is Market.ON_DEMAND else 0
            peak = max(peak, load)
            item = next(upcoming, None)
        spot = [start for start in running.values() if start.market is Market.SPOT]
        deadlines = np.array([start.at_us + (start.lifetime_us or 0) for start in spot], np.int64)
        ends.append((deadlines, np.array([cores[start.flavor] for start in spot], float)))
        loads.append(load / capacity)
        headrooms.append((peak - load) / capacity)
    return np.array(loads), np.array(headrooms), ends


def compare(moments: Moments, lifetime_us: int, end_us: int) -> tuple[float, dict[str, float]] | None:
    """Return the share evicted in the second half, and losses relative to slots alone; None for too few moments."""
    half_us = end_us // 2
    evicted = moments.was_evicted & (moments.lasted_us <= lifetime_us)
    known = evicted | (moments.lasted_us >= lifetime_us)
    learn = known & (moments.at_us + lifetime_us <= half_us)
    judge = known & (moments.at_us > half_us)
    if min(evicted[learn].sum(), evicted[judge].sum(), (~evicted[judge]).sum()) < 20:
        return None
    edges = np.quantile(moments.slots[learn], np.arange(1, CLASSES) / CLASSES)
    slots = np.searchsorted(edges, moments.slots, side="right")
    asked = zip(moments.spot_ends, (moments.at_us + lifetime_us).tolist(), strict=True)
    features = {
        "+ load": _quarter(moments.load),
        "+ headroom": _quarter(moments.headroom),
        "+ freeing": _quarter(np.array([_freeing(*ends, until_us) for ends, until_us in asked])),
        "+ hour": moments.at_us // (6 * HOUR_US) % 4,
        "+ weekend": (moments.at_us // DAY_US % 7 >= 5).astype(np.int64),
    }
    even = np.ones(len(slots))
    coarse = shares(slots, evicted, learn, even, np.full(CLASSES, evicted[learn].mean()))
    base = loss(coarse[slots], evicted, judge)
    relative = {}
    for name, feature in features.items():
        cell = slots * 4 + feature
        fine = shares(cell, evicted, learn, even, np.repeat(coarse, 4))
        relative[name] = loss(fine[cell], evicted, judge) / base
    weights = 0.5 ** ((half_us - moments.at_us) / HALF_LIFE_US)
    weights = np.where(learn, weights, 0.0)
    recent = shares(slots, evicted, learn, weights, np.full(CLASSES, evicted[learn].mean()))
    relative["recent"] = loss(recent[slots], evicted, judge) / base
    return float(evicted[judge].mean()), relative


def shares(cell: Ints, evicted: NDArray[np.bool_], learn: NDArray[np.bool_], weights: Floats, prior: Floats) -> Floats:
    """Return the share evicted in each cell, drawn towards its prior."""
    total = np.bincount(cell[learn], weights[learn], len(prior))
    hits = np.bincount(cell[learn], weights[learn] * evicted[learn], len(prior))
    return (hits + DRAWN * prior) / (total + DRAWN)


def loss(predicted: Floats, evicted: NDArray[np.bool_], judge: NDArray[np.bool_]) -> float:
    """Return the mean logarithmic loss."""
    risk = np.clip(predicted[judge], LEAST, 1 - LEAST)
    return float(-np.mean(np.where(evicted[judge], np.log(risk), np.log1p(-risk))))


def _quarter(share: Floats) -> Ints:
    return np.minimum((share * 4).astype(np.int64), 3)


def _freeing(deadlines_us: Ints, cores: Floats, until_us: int) -> float:
    return float(cores[deadlines_us <= until_us].sum() / cores.sum()) if len(cores) else 0.0


if __name__ == "__main__":
    main()
