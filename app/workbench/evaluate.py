"""Evaluates a recorded workload in-process, with the functions that the live scheduler calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from time import perf_counter
from typing import Protocol

from app.admission.decide import decide_start, decide_stop
from app.admission.extend import decide_extension
from app.admission.looks import looks_before
from app.admission.move import check_runs, decide_move, is_there
from app.domain.errors import TenureError
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    Recorded,
)
from app.domain.names import node_name
from app.domain.progress import Progress
from app.domain.requests import Driven, ExtendRequest, MoveRequest, StartRequest, StopRequest
from app.domain.values import Forecast, Guarantee, Market, Policy
from app.engine.cloud import Cloud
from app.forecast.compute import Forecaster
from app.forecast.table import QuantileTable
from app.workbench.fates import Fates
from app.workbench.tally import DrivenScenario, Scenario, WorkloadTally
from app.workbench.workload import flavors, operations


class EventSink(Protocol):
    """Takes every event of an evaluation's log, in order."""

    def write(self, recorded: Recorded) -> None:
        """Take the next event."""


TableSink = Callable[[QuantileTable], None]
"""Takes every quantile table that is computed."""


def evaluate(
    scenario: Scenario,
    executor: Executor,
    *,
    logs: Sequence[EventSink] = (),
    tables: TableSink | None = None,
    fates: Fates | None = None,
    progress: Progress | None = None,
) -> DrivenScenario:
    """Run every operation of the workload through a new cloud; second 0 is the cloud's beginning.

    `fates` are told of every quoted spot start and of every event.
    """
    began = perf_counter()
    run = DrivenCloud(scenario.policy, executor, logs=logs, tables=tables, fates=fates)
    tally = lead_through(run, scenario, progress)
    return DrivenScenario(scenario, tally, run.tables.spent_s, perf_counter() - began)


def lead_through(run: DrivenCloud, scenario: Scenario, progress: Progress | None = None) -> WorkloadTally:
    """Lead a new cloud through the whole workload of a scenario, and count."""
    tally = WorkloadTally.of(scenario)
    run.record(opening(scenario))
    steps = operations(scenario.workload)
    for done, operation in enumerate(steps):
        count_step(tally, operation, run.step(operation))
        if progress is not None:
            progress(done + 1, len(steps))
    return tally


class _EvaluationTables:
    """Quantile tables, computed when a spot start needs one.

    A table is a function of the events before its due time, so tables that no start reads need not be computed.
    """

    def __init__(self, policy: Policy, executor: Executor, sink: TableSink | None, *, followed: bool) -> None:
        self._policy = policy
        self._executor = executor
        self._sink = sink
        self._followed = followed
        self._forecaster = Forecaster(policy, self._forecasts())
        self.newest: QuantileTable | None = None
        self.spent_s = 0.0

    def _forecasts(self) -> set[Forecast]:
        """Return what tables must hold: what decides; if starts are followed both, but no replays without an SLA."""
        if self._policy.guarantee is Guarantee.NONE:
            return {Forecast.CALIBRATED} if self._followed else set()
        return set(Forecast) if self._followed else {self._policy.forecast}

    def extend(self, recorded: list[Recorded]) -> None:
        """Take the log's next events."""
        if self._forecasts():
            self._forecaster.extend(recorded)

    def follow(self, policy: Policy, recorded: list[Recorded]) -> None:
        """Continue under another policy, with a forecaster that has read the whole log so far."""
        self._policy = policy
        self._forecaster = Forecaster(policy, self._forecasts())
        self.extend(recorded)

    def for_start(self, cloud: Cloud, request: StartRequest, at_us: int) -> QuantileTable | None:
        """Return the table that the start is decided or followed with; None if it needs none."""
        return self.in_force(cloud, at_us) if request.market is Market.SPOT else None

    def in_force(self, cloud: Cloud, at_us: int) -> QuantileTable | None:
        """Return the table that is due, computed if need be; None if there is none yet."""
        policy = self._policy
        if not self._forecasts() or at_us < cloud.created_us + policy.warm_up_us:
            return None
        due_us = policy.due_epoch_us(at_us)
        if self.newest is None or self.newest.epoch_us < due_us:
            self.newest = self._publish(due_us, cloud.seq)
        return self.newest

    def _publish(self, due_us: int, seq: int) -> QuantileTable:
        began = perf_counter()
        epoch = 1 if self.newest is None else self.newest.epoch + 1
        table = self._forecaster.publish(due_us, epoch, seq, executor=self._executor)
        self.spent_s += perf_counter() - began
        if self._sink is not None:
            self._sink(table)
        return table


class DrivenCloud:
    """A cloud that is led through operations, with the tables that it needs."""

    def __init__(
        self,
        policy: Policy,
        executor: Executor,
        *,
        logs: Sequence[EventSink] = (),
        tables: TableSink | None = None,
        fates: Fates | None = None,
    ) -> None:
        self.tables = _EvaluationTables(policy, executor, tables, followed=fates is not None)
        self.cloud = Cloud()
        self._fates = fates
        self._logs = [*logs, fates] if fates is not None else [*logs]

    def step(self, operation: Driven) -> Event | None:
        """Decide one operation and record its events; the decision on a start is the last of them."""
        at_us = operation.at_us
        assert at_us is not None
        self._look(operation)
        if isinstance(operation, ExtendRequest):
            return self._extend(operation, at_us)
        if isinstance(operation, StopRequest):
            self.record(decide_stop(self.cloud, operation.instance_id, at_us))
            return None
        if isinstance(operation, MoveRequest):
            return self._move(operation, at_us)
        table = self.tables.for_start(self.cloud, operation, at_us)
        if self._fates is not None and table is not None:
            self._fates.quote(self.cloud, operation, at_us, table)
        events = self.decide(operation, at_us, table)
        self.record(events)
        return events[-1]

    def _look(self, operation: Driven) -> None:
        """Take the looks that are due before an operation at what wants a longer lifetime."""
        if self.cloud.wants:
            self._keep(looks_before(self.cloud, operation, {}, self.tables.newest))

    def _extend(self, request: ExtendRequest, at_us: int) -> Event | None:
        """Decide on a longer lifetime, and record the decision; None if there is nothing to decide."""
        running = self.cloud.running.get(request.instance_id)
        if running is None or at_us > running.deadline_us or request.lifetime_us <= (running.lifetime_us or 0):
            return None
        events = decide_extension(self.cloud, request, at_us, self.tables.in_force(self.cloud, at_us))
        self.record(events)
        return events[-1]

    def _move(self, request: MoveRequest, at_us: int) -> Event | None:
        """Move an instance to where the request says, if it runs elsewhere and may run there; else return None."""
        try:
            check_runs(self.cloud, request, ran=True)
            events = [] if is_there(self.cloud, request) else decide_move(self.cloud, request, at_us)
        except TenureError:
            return None
        self.record(events)
        return events[-1] if events else None

    def decide(self, request: StartRequest, at_us: int, table: QuantileTable | None) -> Sequence[Event]:
        """Return the events that answer a start. Other rules override this."""
        return decide_start(self.cloud, request, at_us, table)

    def record(self, events: Sequence[Event]) -> None:
        """Append the events to the log and apply them to the cloud."""
        self._keep([self.cloud.apply(event) for event in events])

    def _keep(self, recorded: list[Recorded]) -> None:
        self.cloud.commit()
        self.tables.extend(recorded)
        for log in self._logs:
            for item in recorded:
                log.write(item)


def count_step(tally: WorkloadTally, operation: Driven, decision: Event | None) -> None:
    """Count an operation with the decision on it, if it is a start."""
    if isinstance(operation, StopRequest):
        tally.stopped(operation.instance_id)
        return
    if isinstance(operation, ExtendRequest):
        if isinstance(decision, InstanceExtended):
            tally.extended(decision.instance_id, decision.lifetime_us)
        return
    if isinstance(operation, MoveRequest):
        return
    assert isinstance(decision, InstanceStarted | InstanceRejected)
    accepted = isinstance(decision, InstanceStarted)
    victims = decision.victims if isinstance(decision, InstanceStarted) else ()
    epoch = decision.basis.epoch if decision.basis else None
    tally.started(operation, accepted=accepted, victims=victims, epoch=epoch)


def opening(scenario: Scenario) -> list[Event]:
    """Return the first events of a scenario's log: the cloud with its nodes and flavors."""
    nodes = [
        NodeAdded(at_us=0, node=node_name(index), capacity=capacity) for index, capacity in enumerate(scenario.nodes)
    ]
    kinds = [FlavorAdded(at_us=0, flavor=name, demand=demand) for name, demand in flavors(scenario.workload).items()]
    return [CloudCreated(at_us=0, policy=scenario.policy), *nodes, *kinds]
