"""Decides a past: the events of a cloud that would have lived through it, by the functions of the live scheduler.

No SLA is in force in the past, and no bounds: spot instances take what fits. The policy that was asked for follows at
the end of the past, so the log itself says where the past ends. The same past always gives the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from app.admission.decide import accepted, decide_node_removal, decide_start, decide_stop
from app.admission.observe import decide_node_resize
from app.admission.plain import is_plain_start, runs_alone
from app.domain.errors import NodeNotEmpty, NodeTooSmall
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceRejected,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    PolicyChanged,
    Recorded,
)
from app.domain.policies import unprotected
from app.domain.requests import Operation, StartRequest, StopRequest
from app.domain.values import EvictionPolicy, Guarantee, Market, NodeStatus, Policy, Resources
from app.engine.cloud import LEAST_RUN, LONGEST_RUN, Cloud, Node
from app.importing.past import Past, Span
from app.importing.rules.pastrules import PastRule
from app.importing.rules.records import FileLine, PastStep, What


class TimedStep(NamedTuple):
    """A step, and its time in the log."""

    step: PastStep
    at_us: int


class PastDecider:
    """Leads a cloud through a past. `shift_us` is added to every recorded time."""

    def __init__(self, past: Past, span: Span, policy: Policy, shift_us: int) -> None:
        self.cloud = Cloud()
        self.steps_done = 0
        self._past = past
        self._span = span
        self._policy = policy
        self._shift_us = shift_us
        self._cut_us = 0
        self._last_us = span.begin_us
        self._reach = LONGEST_RUN

    @property
    def step_count(self) -> int:
        """Number of steps of the past."""
        return self._span.step_count

    @property
    def begin_us(self) -> int:
        """Time at which the log begins."""
        return self._span.begin_us + self._shift_us

    @property
    def end_us(self) -> int:
        """Time in the log at which the past ends."""
        return self.begin_us + self._span.length_us

    def events(self) -> Iterator[Recorded]:
        """Yield the whole log, event by event."""
        yield from self._record(self._opening())
        steps = self._past.scratch.steps()
        while ahead := [*islice(steps, LONGEST_RUN)]:
            yield from self._decided([TimedStep(step, self._time(step.at_us)) for step in ahead])
        yield from self._record(self._closing())

    def _decided(self, steps: Sequence[TimedStep]) -> Iterator[Recorded]:
        """Yield the events of some steps. Many plain ones are decided together, with the same events as one by one."""
        at = 0
        while at < len(steps):
            run = self._plain_run(steps[at : at + self._reach])
            recorded = self._record_run(steps[at : at + len(run)], run) if len(run) >= LEAST_RUN else []
            # The cloud is full where a run ends early, and the next runs will, too.
            self._reach = min(2 * self._reach, LONGEST_RUN) if len(recorded) == len(run) else LEAST_RUN
            if recorded:
                yield from recorded
            else:
                yield from self._record(self._decide(*steps[at]))
            at += len(recorded) or 1
            self.steps_done += len(recorded) or 1

    def _plain_run(self, steps: Sequence[TimedStep]) -> list[Operation]:
        """Return the first steps that are all plain, as the live scheduler's batches know them."""
        run: list[Operation] = []
        started: set[str] = set()
        for step, at_us in steps if not self.cloud.handovers else ():
            if step.what == What.START:
                start = _request(step, at_us)
                if step.is_spot or not is_plain_start(self.cloud, start):
                    break
                started.add(step.instance_id)
                run.append(start)
            elif step.what == What.STOP and (step.instance_id in started or runs_alone(self.cloud, step.instance_id)):
                run.append(StopRequest(step.instance_id, at_us))
            else:
                break
        return run

    def _record_run(self, steps: Sequence[TimedStep], run: Sequence[Operation]) -> list[Recorded]:
        """Return the events of plain steps, up to the first start that fits nowhere."""
        nodes = self.cloud.place_run(run)
        events = [
            accepted(self.cloud, operation, at_us, (node,), None, ())
            if isinstance(operation, StartRequest)
            else InstanceStopped(at_us=at_us, instance_id=step.instance_id)
            for (step, at_us), operation, node in zip(steps, run, nodes, strict=False)
        ]
        recorded = self.cloud.apply_run(events) if events else []
        self.cloud.commit()
        for step, _ in steps[: len(recorded)]:
            if step.what == What.STOP and step.drawn_up:
                self._note(PastRule.DRAWN_UP_END, step)
        return recorded

    def _record(self, events: Sequence[Event]) -> list[Recorded]:
        recorded = [self.cloud.apply(event) for event in events]
        self.cloud.commit()
        return recorded

    def _opening(self) -> list[Event]:
        at_us, past = self.begin_us, self._past
        policy = replace(unprotected(self._policy), guarantee=Guarantee.NONE)
        if past.eviction_policy is not None:
            policy = replace(policy, eviction_policy=past.eviction_policy)
        nodes = [NodeAdded(at_us=at_us, node=name, capacity=capacity) for name, capacity in past.nodes or ()]
        by_size = sorted(past.flavors.items(), key=lambda flavor: (flavor[1], flavor[0]))
        return [
            CloudCreated(at_us=at_us, policy=policy),
            *nodes,
            *(FlavorAdded(at_us=at_us, flavor=name, demand=demand) for name, demand in by_size),
        ]

    def _closing(self) -> list[Event]:
        return [] if self.cloud.policy == self._policy else [PolicyChanged(at_us=self.end_us, policy=self._policy)]

    def _time(self, at_us: int) -> int:
        """Return the log's time for a recorded time: shifted, and without the parts cut out of gaps."""
        longest_us = self._past.wishes.longest_gap_us
        if longest_us is not None:
            self._cut_us += max(0, at_us - self._last_us - longest_us)
        self._last_us = at_us
        return at_us + self._shift_us - self._cut_us

    def _decide(self, step: PastStep, at_us: int) -> Sequence[Event]:
        if step.what == What.START:
            return self._start(step, at_us)
        if step.what == What.STOP:
            return self._stop(step, at_us)
        if step.kind == "policy_changed":
            policy = replace(self.cloud.policy, eviction_policy=EvictionPolicy(step.name))
            return [] if policy == self.cloud.policy else [PolicyChanged(at_us=at_us, policy=policy)]
        return self._change_node(step, at_us)

    def _start(self, step: PastStep, at_us: int) -> Sequence[Event]:
        events = decide_start(self.cloud, _request(step, at_us), at_us, None)
        if isinstance(events[-1], InstanceRejected):
            self._note(PastRule.NO_ROOM, step)
        return events

    def _stop(self, step: PastStep, at_us: int) -> Sequence[Event]:
        events = decide_stop(self.cloud, step.instance_id, at_us)
        if events and step.drawn_up:
            self._note(PastRule.DRAWN_UP_END, step)
        return events

    def _change_node(self, step: PastStep, at_us: int) -> Sequence[Event]:
        node = self.cloud.nodes.get(step.name)
        if step.kind == "node_added" and node is None:
            return [
                NodeAdded(at_us=at_us, node=step.name, capacity=Resources(step.cores, step.memory_mib, step.disk_gib))
            ]
        assert node is not None
        if step.kind == "node_resized":
            return self._resize(step, node, at_us)
        if step.kind == "node_drained":
            return [NodeDrained(at_us=at_us, node=step.name)] if node.status is NodeStatus.OPEN else []
        if step.kind != "node_removed":  # opened, or added again after it had to be kept
            return [NodeOpened(at_us=at_us, node=step.name)] if node.status is NodeStatus.DRAINED else []
        try:
            return decide_node_removal(self.cloud, step.name, at_us)
        except NodeNotEmpty:
            self._note(PastRule.NODE_KEPT, step)
            return [NodeDrained(at_us=at_us, node=step.name)] if node.status is NodeStatus.OPEN else []

    def _resize(self, step: PastStep, node: Node, at_us: int) -> Sequence[Event]:
        capacity = Resources(step.cores, step.memory_mib, step.disk_gib)
        try:
            return decide_node_resize(self.cloud, node, capacity, at_us)
        except NodeTooSmall:
            self._note(PastRule.NODE_KEPT, step)
            return []

    def _note(self, rule: PastRule, step: PastStep) -> None:
        self._past.findings.add(rule, FileLine(step.file, step.line))


def _request(step: PastStep, at_us: int) -> StartRequest:
    market = Market.SPOT if step.is_spot else Market.ON_DEMAND
    return StartRequest(step.instance_id, market, step.flavor, step.lifetime_us, at_us=at_us, count=step.members)
