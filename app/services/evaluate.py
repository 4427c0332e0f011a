"""Evaluating a recorded workload in-process, with the functions that the live scheduler calls."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from time import perf_counter

from app.admission.decide import decide_start, decide_stop
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceRejected, InstanceStarted, NodeAdded, Recorded
from app.domain.requests import Operation, StartRequest
from app.domain.values import Guarantee, Market, Policy
from app.engine.cloud import Cloud
from app.forecast.compute import Forecaster
from app.forecast.table import QuantileTable
from app.services.logcsv import LogWriter
from app.services.reliability import ReliabilityTable
from app.services.tally import Outcome, Scenario, Tally
from app.services.workload import flavors, node_name, operations

Progress = Callable[[int, int], None]
"""Told how many operations of how many are done."""


def evaluate(
    scenario: Scenario, executor: Executor, *, log: LogWriter | None = None, progress: Progress | None = None
) -> Outcome:
    """Run every operation of the workload through a cloud of its own; second 0 is the cloud's beginning."""
    began = perf_counter()
    run = _Run(scenario, executor, log)
    steps = operations(scenario.workload)
    for done, operation in enumerate(steps):
        run.step(operation)
        if progress is not None:
            progress(done + 1, len(steps))
    return Outcome(scenario, run.tally, run.tables.spent_s, perf_counter() - began, run.reliability)


class _Tables:
    """Quantile tables, computed when a spot start needs one.

    A table is a function of the events before its due time, so those that no start reads need not be computed.
    """

    def __init__(self, policy: Policy, executor: Executor) -> None:
        self._policy = policy
        self._executor = executor
        self._forecaster = Forecaster(policy)
        self._newest: QuantileTable | None = None
        self.spent_s = 0.0

    def extend(self, recorded: list[Recorded]) -> None:
        """Take the log's next events."""
        if self._policy.guarantee is not Guarantee.NONE:
            self._forecaster.extend(recorded)

    def for_start(self, cloud: Cloud, request: StartRequest, at_us: int) -> QuantileTable | None:
        """The table that the start is decided with; None where it needs none."""
        policy = self._policy
        if request.market is not Market.SPOT or policy.guarantee is Guarantee.NONE:
            return None
        if at_us < cloud.created_us + policy.warm_up_us:
            return None
        due_us = policy.due_epoch_us(at_us)
        if self._newest is None or self._newest.epoch_us < due_us:
            self._newest = self._publish(due_us, cloud.seq)
        return self._newest

    def _publish(self, due_us: int, seq: int) -> QuantileTable:
        began = perf_counter()
        epoch = 1 if self._newest is None else self._newest.epoch + 1
        table = self._forecaster.publish(due_us, epoch, seq, executor=self._executor)
        self.spent_s += perf_counter() - began
        return table


class _Run:
    """One evaluation under way."""

    def __init__(self, scenario: Scenario, executor: Executor, log: LogWriter | None) -> None:
        self.tally = Tally.of(scenario.workload)
        self.tables = _Tables(scenario.policy, executor)
        self.reliability = ReliabilityTable()
        self._cloud = Cloud()
        self._log = log
        self._record(_opening(scenario))

    def step(self, operation: Operation) -> None:
        """Decide one operation, record its events, count its answer."""
        at_us = operation.at_us
        assert at_us is not None
        if not isinstance(operation, StartRequest):
            self._record(list(decide_stop(self._cloud, operation.instance_id, at_us)))
            self.tally.stopped(operation.instance_id)
            return
        quotes = self.tables.for_start(self._cloud, operation, at_us)
        events = list(decide_start(self._cloud, operation, at_us, quotes))
        self._record(events)
        self._count(operation, events[-1])

    def _record(self, events: list[Event]) -> None:
        recorded = [self._cloud.apply(event) for event in events]
        self._cloud.commit()
        self.tables.extend(recorded)
        self.reliability.extend(recorded)
        if self._log is not None:
            for item in recorded:
                self._log.write(item)

    def _count(self, request: StartRequest, decision: Event) -> None:
        assert isinstance(decision, InstanceStarted | InstanceRejected)
        accepted = isinstance(decision, InstanceStarted)
        victims = decision.victims if isinstance(decision, InstanceStarted) else ()
        epoch = decision.basis.epoch if decision.basis else None
        self.tally.started(request, accepted=accepted, victims=victims, epoch=epoch)


def _opening(scenario: Scenario) -> list[Event]:
    nodes = [NodeAdded(0, node_name(index), capacity) for index, capacity in enumerate(scenario.nodes)]
    kinds = [FlavorAdded(0, name, demand) for name, demand in flavors(scenario.workload).items()]
    return [CloudCreated(0, scenario.policy), *nodes, *kinds]
