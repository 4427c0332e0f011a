"""Findings of an evaluation beyond its counts: load and budget over time, the last table, promises kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from app.domain.events import (
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeRemoved,
    NodeResized,
    Recorded,
)
from app.domain.times import SECOND_US
from app.domain.values import EvictionReason, Market
from app.forecast.survival import Floats
from app.forecast.table import QuantileTable
from app.judging.reliability import Calibration, Fate, Reliability, fate_of, measure_reliability
from tenure_client.forms.answer import answer_of, json_of
from tenure_client.forms.promises import CalibrationAnswer, TruthAnswer

PROBABILITIES = (0.25, 0.1, 0.05, 0.01)
"""The quantiles that are shown of a table (the paper on spot SLAs, Figure 3)."""
_LOAD_BINS = 480
_BUDGET_BINS = 240


class LoadStep(NamedTuple):
    """Cores in use from `at_us` on, by market."""

    at_us: int
    on_demand: int
    spot: int
    capacity: int


class BudgetPoint(NamedTuple):
    """The class budget at one moment: evictions earned (admissions x promise) and evictions spent."""

    at_us: int
    earned: float
    evicted: int

    @property
    def left(self) -> float:
        """Evictions that are still affordable."""
        return self.earned - self.evicted


@dataclass(frozen=True, slots=True)
class Load:
    """Cores in use over time, in N periods of equal length: means, the greatest sum (both markets), evictions.

    edges_us (N + 1); on_demand, spot, peak, capacity (N) in cores; evicted (N) instances.
    """

    edges_us: Floats
    on_demand: Floats
    spot: Floats
    peak: Floats
    capacity: Floats
    evicted: Floats


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One bucket of a table; `lifetimes_s` by PROBABILITIES."""

    slots: int
    sample_count: int
    evicted_count: int
    lifetimes_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TableView:
    """A quantile table as it is shown: its buckets by flavor."""

    epoch: int
    epoch_us: int
    flavors: dict[str, tuple[BucketRow, ...]]


@dataclass(frozen=True, slots=True)
class LogFindings:
    """The findings of one evaluation. `table` is None if no forecast was made."""

    reliability: Reliability
    load: Load
    budget: tuple[BudgetPoint, ...]
    table: TableView | None


class Watch:
    """Follows a log, event by event, and gathers the findings."""

    def __init__(self) -> None:
        self._now = LoadStep(0, 0, 0, 0)
        self._left = BudgetPoint(0, 0.0, 0)
        self._steps = [self._now]
        self._budget: list[BudgetPoint] = []
        self._evictions_us: list[int] = []
        self._fates: list[Fate] = []
        self._flavors: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._running: dict[str, InstanceStarted] = {}
        self._extended: dict[str, int] = {}

    def write(self, recorded: Recorded) -> None:
        """Take the next event."""
        match recorded.event:
            case FlavorAdded(flavor=flavor, demand=demand):
                self._flavors[flavor] = demand.cores
            case NodeAdded(at_us=at_us, node=node, capacity=capacity):
                self._nodes[node] = capacity.cores
                self._move(at_us, capacity=capacity.cores)
            case NodeResized(at_us=at_us, node=node, capacity=capacity):
                self._move(at_us, capacity=capacity.cores - self._nodes[node])
                self._nodes[node] = capacity.cores
            case NodeRemoved(at_us=at_us, node=node):
                self._move(at_us, capacity=-self._nodes.pop(node))
            case InstanceStarted() as start:
                self._start(start)
            case InstanceExtended(instance_id=name, lifetime_us=lifetime_us):
                self._extended[name] = lifetime_us
            case InstanceMoved(as_flavor=str(flavor)) as moved:
                start = self._running[moved.instance_id]
                self._occupy(start, moved.at_us, -1)
                self._running[moved.instance_id] = replace(start, flavor=flavor)
                self._occupy(self._running[moved.instance_id], moved.at_us, 1)
            case InstanceStopped(aborted=True) as never_ran:
                self._strike(never_ran)
            case InstanceStopped() | InstanceEvicted() as end:
                self._end(end)

    def findings(self, until_us: int, table: QuantileTable | None) -> LogFindings:
        """Return the findings; pictures over time end at `until_us`."""
        return LogFindings(
            self.reliability(),
            average_load(self._steps, self._evictions_us, until_us),
            thin_budget(self._budget, until_us),
            None if table is None else view_table(table),
        )

    def reliability(self) -> Reliability:
        """Compare promises with their outcomes so far."""
        spot = [start for start in self._running.values() if start.market is Market.SPOT]
        return measure_reliability([*self._fates, *(self._fate(start, None, self._now.at_us) for start in spot)])

    def _fate(self, start: InstanceStarted, end: InstanceStopped | InstanceEvicted | None, now_us: int) -> Fate:
        return fate_of(start, end, now_us, self._extended.get(start.instance_id))

    def _start(self, start: InstanceStarted) -> None:
        self._running[start.instance_id] = start
        self._occupy(start, start.at_us, 1)
        if start.market is Market.SPOT:
            promised = start.basis.probability if start.basis else None
            self._settle(BudgetPoint(start.at_us, self._left.earned + (promised or 0.0), self._left.evicted))

    def _strike(self, end: InstanceStopped) -> None:
        start = self._running.pop(end.instance_id)
        self._occupy(start, end.at_us, -1)
        if start.market is Market.SPOT:
            promised = start.basis.probability if start.basis else None
            self._settle(BudgetPoint(end.at_us, self._left.earned - (promised or 0.0), self._left.evicted))

    def _end(self, end: InstanceStopped | InstanceEvicted) -> None:
        start = self._running.pop(end.instance_id)
        self._occupy(start, end.at_us, -1)
        if start.market is Market.SPOT:
            self._fates.append(self._fate(start, end, end.at_us))
        if isinstance(end, InstanceEvicted) and end.reason is not EvictionReason.DRILL:
            self._evictions_us.append(end.at_us)
            self._settle(BudgetPoint(end.at_us, self._left.earned, self._left.evicted + 1))

    def _occupy(self, start: InstanceStarted, at_us: int, sign: int) -> None:
        cores = sign * start.count * self._flavors[start.flavor]
        if start.market is Market.SPOT:
            self._move(at_us, spot=cores)
        else:
            self._move(at_us, on_demand=cores)

    def _move(self, at_us: int, *, on_demand: int = 0, spot: int = 0, capacity: int = 0) -> None:
        now = self._now
        self._now = LoadStep(at_us, now.on_demand + on_demand, now.spot + spot, now.capacity + capacity)
        self._steps.append(self._now)

    def _settle(self, point: BudgetPoint) -> None:
        self._left = point
        self._budget.append(point)


def average_load(steps: Iterable[LoadStep], evictions_us: Iterable[int], until_us: int, bins: int = _LOAD_BINS) -> Load:
    """Return the load of `bins` periods up to `until_us`, from its steps in time order, the first of them at 0."""
    columns = np.array([*steps], np.float64)
    edges_us = np.linspace(0.0, max(1, until_us), bins + 1)
    at_us, on_demand, spot, capacity = columns.T
    means = [_means(at_us, values, edges_us) for values in (on_demand, spot, capacity)]
    peak = _peaks(at_us, on_demand + spot, edges_us)
    evicted, _ = np.histogram(np.array([*evictions_us], np.float64), edges_us)
    return Load(edges_us, means[0], means[1], peak, means[2], evicted.astype(np.float64))


def _means(at_us: Floats, values: Floats, edges_us: Floats) -> Floats:
    """Return time-weighted means of a step function: differences of its integral, which is linear between steps."""
    ends = np.append(at_us[1:], max(at_us[-1], edges_us[-1]))
    integral = np.concatenate([[0.0], np.cumsum(values * (ends - at_us))])
    knots = np.concatenate([at_us, ends[-1:]])
    means: Floats = np.diff(np.interp(edges_us, knots, integral)) / np.diff(edges_us)
    return means


def _peaks(at_us: Floats, values: Floats, edges_us: Floats) -> Floats:
    """Return the greatest value of a step function in each period."""
    first = np.searchsorted(at_us, edges_us[:-1], side="right") - 1
    last = np.searchsorted(at_us, edges_us[1:], side="left")
    return np.array([values[a:b].max() for a, b in zip(first, np.maximum(last, first + 1), strict=True)])


def thin_budget(points: list[BudgetPoint], until_us: int, bins: int = _BUDGET_BINS) -> tuple[BudgetPoint, ...]:
    """Return of every period the point with the least left and the last one, so that no overdraft is lost."""
    edges = np.searchsorted([point.at_us for point in points], np.linspace(0, until_us, bins + 1)[1:], side="right")
    kept: list[BudgetPoint] = []
    for first, last in pairwise([0, *edges.tolist()]):
        if first < last:
            period = points[first:last]
            least, end = min(period, key=lambda point: point.left), period[-1]
            kept += [least] if least is end else [least, end]
    return tuple(kept)


def view_table(table: QuantileTable) -> TableView:
    """Return the buckets of every flavor with the quantiles that are shown."""
    levels = np.array(PROBABILITIES)
    flavors = {
        flavor: tuple(
            BucketRow(
                bucket.slots,
                bucket.sample_count,
                bucket.evicted_count,
                tuple(us / SECOND_US for us in bucket.lifetimes_us(levels).tolist()),
            )
            for bucket in table.curve(flavor).buckets
        )
        for flavor in table.flavors
    }
    return TableView(table.epoch, table.epoch_us, flavors)


def reliability_report(reliability: Reliability) -> dict[str, Any]:
    """Return the reliability table as one JSON object, in the form of the service's answer."""
    return {
        "confidence": reliability.confidence,
        "classes": [_counts(line) for line in reliability.classes],
        "estimates": [
            {"estimate_from": line.estimates[0], "estimate_to": line.estimates[1], **_counts(line)}
            for line in reliability.estimates
            if line.estimates is not None
        ],
        "epochs": [{"epoch": line.epoch, **_counts(line)} for line in reliability.epochs],
        "coverage": reliability.coverage,
        "truths": [json_of(answer_of(TruthAnswer, one)) for one in reliability.truths],
    }


def _counts(line: Calibration) -> dict[str, Any]:
    return json_of(answer_of(CalibrationAnswer, line))
