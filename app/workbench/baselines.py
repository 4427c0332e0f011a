"""Three rules that stand beside every evaluation: what is easily had, and what is the best that can be had.

    admit_all      no SLA: every spot start that fits
    head_room      a spot start after which 1.2 times the highest on-demand load of the last such lifetime has room
    clairvoyant    knows the whole workload, and admits every spot start after which nobody is evicted

All of them place, evict and count by the engine, on the scenario's own platform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.domain.events import Event, InstanceRejected, InstanceStarted
from app.domain.progress import Progress
from app.domain.requests import StartRequest
from app.domain.values import Basis, Guarantee, Market, Rejection
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.workbench.evaluate import DrivenCloud, EventSink, lead_through
from app.workbench.foresight import Foresight
from app.workbench.head_room import HeadRoom
from app.workbench.tally import Scenario, WorkloadTally

SpotRule = Callable[[Cloud, StartRequest, str], bool]
"""Says if a spot start that would be placed on this node is admitted."""


class Baseline(StrEnum):
    """The rules, by rising knowledge."""

    ADMIT_ALL = "admit_all"
    HEAD_ROOM = "head_room"
    CLAIRVOYANT = "clairvoyant"


Baselines = dict[Baseline, WorkloadTally]


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """A baseline to run on the platform and workload of a scenario. Nothing is promised in it."""

    scenario: Scenario
    baseline: Baseline

    @property
    def size(self) -> int:
        """Number of its steps."""
        return self.scenario.workload.size

    def run(self, executor: Executor, progress: Progress) -> WorkloadTally:
        """Run it and count."""
        rule, sinks = _rule(self.baseline, self.scenario)
        return lead_through(RuledCloud(self.scenario, executor, rule, sinks), self.scenario, progress)


def baseline_runs(scenarios: Sequence[Scenario]) -> list[BaselineRun]:
    """Return what the scenarios need: each baseline once for scenarios that differ in their promises only."""
    bare = dict.fromkeys(map(without_promise, scenarios))
    return [BaselineRun(scenario, baseline) for scenario in bare for baseline in Baseline]


def without_promise(scenario: Scenario) -> Scenario:
    """Return the scenario with nothing promised; equal for scenarios that have their baselines in common."""
    return replace(scenario, policy=replace(scenario.policy, guarantee=Guarantee.NONE, eviction_probability=0.01))


def baselines_report(baselines: Baselines) -> dict[str, Any]:
    """Return the counts as JSON values: the sum over all spot instances, then the counts of any scenario."""
    return {baseline: tally.total().report() | tally.report() for baseline, tally in baselines.items()}


class RuledCloud(DrivenCloud):
    """A driven cloud whose spot starts are admitted by a rule."""

    def __init__(self, scenario: Scenario, executor: Executor, rule: SpotRule, sinks: Sequence[EventSink]) -> None:
        super().__init__(scenario.policy, executor, logs=sinks)
        self._rule = rule

    def decide(self, request: StartRequest, at_us: int, table: QuantileTable | None) -> Sequence[Event]:
        """Decide a start; a spot start that fits by the rule."""
        events = super().decide(request, at_us, table)
        first = events[-1]
        if request.market is not Market.SPOT or not isinstance(first, InstanceStarted):
            return events
        return events if self._rule(self.cloud, request, first.node) else [_rejected(request, at_us, first.basis)]


def _rejected(request: StartRequest, at_us: int, basis: Basis | None) -> InstanceRejected:
    return InstanceRejected(
        at_us=at_us,
        instance_id=request.instance_id,
        market=request.market,
        flavor=request.flavor,
        reason=Rejection.SLA_UNATTAINABLE,
        lifetime_us=request.lifetime_us,
        basis=basis,
    )


def _rule(baseline: Baseline, scenario: Scenario) -> tuple[SpotRule, Sequence[EventSink]]:
    """Return the rule, and what must be told of events."""
    if baseline is Baseline.CLAIRVOYANT:
        foresight = Foresight(scenario.workload)
        return foresight.admits, [foresight]
    if baseline is Baseline.HEAD_ROOM:
        head_room = HeadRoom(len(scenario.workload.on_demand))
        return head_room.admits, [head_room]
    return _admits_all, []


def _admits_all(_cloud: Cloud, _request: StartRequest, _node: str) -> bool:
    return True
