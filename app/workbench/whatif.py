"""Decides a cloud's own log again under another policy, platform or flavor mix.

The workload is everything that was asked for, rejected starts included. An instance ends at its recorded stop. If the
log has no stop because the instance was evicted or rejected, it ends at its declared lifetime; an on-demand start that
declared none ends at once, as in the forecast's history. Instances that run at the end of the log go on. Tables are
computed at the policy's due times, as in an evaluation. Changes of the policy, of quotas and of nodes happen when they
did, unless they are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from app.admission.decide import decide_node_removal
from app.admission.observe import decide_node_resize
from app.domain.errors import NodeNotEmpty, NodeTooSmall
from app.domain.events import (
    CloudCreated,
    Event,
    ExtensionRejected,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    NodeResized,
    PolicyChanged,
    QuotaRemoved,
    QuotaSet,
    Recorded,
)
from app.domain.flavors import told_flavors
from app.domain.inputs import InputError
from app.domain.names import flavor_name, node_name
from app.domain.policies import GUARANTEES
from app.domain.progress import Progress
from app.domain.requests import Driven, ExtendRequest, MoveRequest, StartRequest, StopRequest
from app.domain.values import EvictionPolicy, EvictionReason, Guarantee, Policy, Resources
from app.engine.cloud import Cloud
from app.workbench.evaluate import DrivenCloud
from app.workbench.findings import Watch
from app.workbench.side_by_side import run_side_by_side
from app.workbench.tally import WorkloadTally

NODE_EVENTS = NodeAdded | NodeDrained | NodeOpened | NodeRemoved | NodeResized
ComparisonKey = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """The settings that differ; None and empty leave them as recorded.

    `sla` is the cloud's probability; starts that asked for their own keep it. `flavors` maps names to the names that
    are asked for instead. `settings` are further fields of the policy.
    """

    nodes: tuple[Resources, ...] | None = None
    sla: float | None = None
    guarantee: Guarantee | None = None
    eviction: EvictionPolicy | None = None
    flavors: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def of(self, policy: Policy) -> Policy:
        """Return the policy with the changes. A cloud without an SLA gets that of a new cloud."""
        changed = replace(policy, **self.settings)
        if self.eviction is not None:
            changed = replace(changed, eviction_policy=self.eviction)
        if self.sla is not None:
            guarantee = GUARANTEES[changed.forecast] if policy.guarantee is Guarantee.NONE else policy.guarantee
            changed = replace(changed, eviction_probability=self.sla, guarantee=guarantee)
        return changed if self.guarantee is None else replace(changed, guarantee=self.guarantee)


@dataclass(frozen=True, slots=True)
class Account:
    """The outcomes of a log's starts. `evicted_in_time` counts evictions within the declared lifetime."""

    tally: WorkloadTally
    running: int
    evicted_in_time: int

    def report(self) -> dict[str, Any]:
        """Return the account as one JSON object."""
        return {**self.tally.report(), "running": self.running, "evicted_in_time": self.evicted_in_time}


@dataclass(frozen=True, slots=True)
class Question:
    """A log and the changes to try on it."""

    recorded: Sequence[Recorded]
    changes: Changes

    @property
    def size(self) -> int:
        """Number of steps, which is the number of the log's events."""
        return len(self.recorded)

    @property
    def every_us(self) -> int | None:
        """The time between two tables, if none comes within the log; None if one comes, or if nothing is promised.

        Without one, the table of the log's beginning decides all of it.
        """
        first, last = self.recorded[0].event, self.recorded[-1].event
        if not isinstance(first, CloudCreated):
            return None
        policy = self.changes.of(first.policy)
        begins_us, ends_us = policy.due_epoch_us(first.at_us), policy.due_epoch_us(last.at_us)
        return policy.recompute_every_us if begins_us == ends_us and policy.guarantee is not Guarantee.NONE else None

    def flavors(self) -> dict[str, Resources]:
        """All flavors that the log adds."""
        events = (item.event for item in self.recorded)
        return {event.flavor: event.demand for event in events if isinstance(event, FlavorAdded)}


def ask(questions: Sequence[Question], *, progress: Progress | None = None) -> list[Account]:
    """Answer each question, over all cores."""
    for question in questions:
        check_question(question)
    return run_side_by_side(answer, questions, progress=progress)


def answer(question: Question, executor: Executor, progress: Progress) -> Account:
    """Decide the whole log again, and count."""
    steps = steps_of(question)
    trial = _Trial(executor)
    for done, step in enumerate(steps, 1):
        trial.step(step)
        progress(done * question.size // len(steps), question.size)
    return count_log(trial.recorded, question.recorded)


def check_question(question: Question) -> None:
    """Raise InputError if the log has no nodes, or lacks a flavor that is to be replaced or asked for."""
    if question.changes.nodes is None and not any(isinstance(item.event, NodeAdded) for item in question.recorded):
        raise InputError("the log adds no nodes; give the platform with --nodes")
    known = question.flavors()
    for old, new in question.changes.flavors.items():
        if old not in known:
            raise InputError(f"the log has no flavor {old!r}: there {told_flavors(sorted(known))}")
        if new not in known and not (new.isdecimal() and int(new)):
            raise InputError(f"{new!r} is neither a flavor of the log nor a number of cores")


# --- the workload ----------------------------------------------------------------------------------------------------


def steps_of(question: Question) -> list[Driven | Event]:
    """Yield all steps in the log's order; computed ends come before the log's events of their time."""
    changes, end_us = question.changes, question.recorded[-1].event.at_us
    keyed: list[tuple[ComparisonKey, Driven | Event]] = []
    asked: dict[str, StartRequest] = {}
    flavors = _renamed(question)
    never_ran = _never_ran(question.recorded)
    for item in question.recorded:
        event, key = item.event, (item.event.at_us, 1, item.seq, 0)
        if getattr(event, "instance_id", None) in never_ran:
            continue
        match event:
            case CloudCreated():
                keyed += [((event.at_us, 0, 0, n), first) for n, first in enumerate(_opening(question, event))]
            case PolicyChanged() | QuotaSet() | QuotaRemoved():
                told = replace(event, policy=changes.of(event.policy)) if isinstance(event, PolicyChanged) else event
                keyed.append((key, told))
            case NodeAdded() | NodeDrained() | NodeOpened() | NodeRemoved() | NodeResized() if changes.nodes is None:
                keyed.append((key, event))
            case InstanceStopped():
                keyed.append((key, StopRequest(event.instance_id, event.at_us)))
            case InstanceMoved() if changes.nodes is None:
                keyed.append((key, MoveRequest(event.instance_id, event.node, event.at_us)))
            case InstanceStarted() | InstanceRejected():
                asked[event.instance_id] = _request(event, flavors[event.flavor], changes.nodes)
                keyed.append((key, asked[event.instance_id]))
                if isinstance(event, InstanceRejected):
                    keyed += _drawn_up(asked[event.instance_id], item, end_us)
            case InstanceExtended() | ExtensionRejected():
                keyed.append((key, ExtendRequest(event.instance_id, event.lifetime_us, event.at_us)))
                if isinstance(event, InstanceExtended):
                    asked[event.instance_id] = replace(asked[event.instance_id], lifetime_us=event.lifetime_us)
            case InstanceEvicted():
                keyed += _drawn_up(asked[event.instance_id], item, end_us)
    return [step for _, step in sorted(keyed, key=lambda pair: pair[0])]


def _never_ran(recorded: Iterable[Recorded]) -> set[str]:
    """Return the ids of the instances that were accepted and never ran."""
    return {
        item.event.instance_id for item in recorded if isinstance(item.event, InstanceStopped) and item.event.aborted
    }


def _opening(question: Question, created: CloudCreated) -> list[Event]:
    """Return the cloud with all flavors, and with the nodes if they are given."""
    at_us, changes = created.at_us, question.changes
    flavors = question.flavors() | {
        flavor_name(int(new)): Resources(int(new)) for new in changes.flavors.values() if new not in question.flavors()
    }
    nodes = [
        NodeAdded(at_us=at_us, node=node_name(index), capacity=capacity)
        for index, capacity in enumerate(changes.nodes or ())
    ]
    added = [FlavorAdded(at_us=at_us, flavor=name, demand=demand) for name, demand in flavors.items()]
    return [CloudCreated(at_us=at_us, policy=changes.of(created.policy)), *added, *nodes]


def _renamed(question: Question) -> dict[str, str]:
    """Return the flavor to ask for, by the recorded one; a number of cores has the flavor of its own."""
    known, wanted = question.flavors(), question.changes.flavors
    return {name: name for name in known} | {
        old: new if new in known else flavor_name(int(new)) for old, new in wanted.items()
    }


def _request(
    event: InstanceStarted | InstanceRejected, flavor: str, platform: Sequence[Resources] | None = None
) -> StartRequest:
    """Return what was asked for. On another platform there are other nodes than those that it was allowed to take."""
    asked = StartRequest(event.instance_id, event.market, flavor, event.lifetime_us, event.probability, event.at_us)
    allowed = event.allowed if platform is None else ()
    return replace(asked, owner=event.owner, count=event.count, nodes=allowed)


def _drawn_up(request: StartRequest, item: Recorded, end_us: int) -> list[tuple[ComparisonKey, StopRequest]]:
    """Return the computed end of a request that the log cut short; None if the log ends before it."""
    assert request.at_us is not None
    at_us = request.at_us + (request.lifetime_us or 0)
    if at_us <= item.event.at_us:  # it ends after the start that evicts it, which follows its eviction
        last_seq = item.event.cause_seq if isinstance(item.event, InstanceEvicted) else item.seq
        return [((item.event.at_us, 1, last_seq, 1), StopRequest(request.instance_id, item.event.at_us))]
    return [((at_us, 0, item.seq, 0), StopRequest(request.instance_id, at_us))] if at_us <= end_us else []


# --- deciding again --------------------------------------------------------------------------------------------------


class _Trial:
    """The new log so far."""

    def __init__(self, executor: Executor) -> None:
        self.recorded: list[Recorded] = []
        self._run = DrivenCloud(Policy(), executor, logs=[self])

    def write(self, recorded: Recorded) -> None:
        """Take the next event."""
        self.recorded.append(recorded)

    def step(self, step: Driven | Event) -> None:
        match step:
            case StartRequest() | StopRequest() | ExtendRequest() | MoveRequest():
                self._run.step(step)
            case CloudCreated() | PolicyChanged():
                self._run.record([step])
                self._run.tables.follow(step.policy, self.recorded)
            case NodeAdded() | NodeDrained() | NodeOpened() | NodeRemoved() | NodeResized():
                self._run.record(_change_node(self._run.cloud, step))
            case _:
                self._run.record([step])


def _change_node(cloud: Cloud, event: NODE_EVENTS) -> list[Event]:
    """Apply the change as far as possible: a node to be removed under on-demand instances is drained instead."""
    node = cloud.nodes.get(event.node)
    if isinstance(event, NodeAdded):
        return [event] if node is None else [NodeOpened(at_us=event.at_us, node=event.node)]
    if isinstance(event, NodeResized):
        return _resized(cloud, event)
    if not isinstance(event, NodeRemoved):
        return [event]
    try:
        return [*decide_node_removal(cloud, event.node, event.at_us)]
    except NodeNotEmpty:
        return [NodeDrained(at_us=event.at_us, node=event.node)]


def _resized(cloud: Cloud, event: NodeResized) -> list[Event]:
    """Resize a node, unless its on-demand instances use more here."""
    try:
        return [*decide_node_resize(cloud, cloud.nodes[event.node], event.capacity, event.at_us)]
    except NodeTooSmall:
        return []


# --- counting --------------------------------------------------------------------------------------------------------


def count_log(recorded: Iterable[Recorded], asked: Iterable[Recorded] | None = None) -> Account:
    """Count the outcomes of a log's starts, from its events alone.

    `asked`: the log that was decided again. An instance requested the longest lifetime that it declared at its start
    or was granted later, in either log: what completes here was requested, and a refused extension requests nothing.
    """
    demands: dict[str, Resources] = {}
    tally, watch = WorkloadTally(demands), Watch()
    log = [*recorded]
    never_ran, longest_us = _never_ran(log), _longest_us([*log, *(asked or ())])
    for item in log:
        watch.write(item)
        if getattr(item.event, "instance_id", None) in never_ran:
            continue
        match item.event:
            case FlavorAdded(flavor=flavor, demand=demand):
                demands[flavor] = demand
            case InstanceStarted() | InstanceRejected() as decision:
                _count(tally, decision)
                more_us = longest_us[decision.instance_id] - (decision.lifetime_us or 0)
                tally.requested_core_us += decision.count * demands[decision.flavor].cores * more_us
            case InstanceExtended(instance_id=extended, lifetime_us=lifetime_us):
                tally.extended(extended, lifetime_us)
            case InstanceEvicted(instance_id=stopped, reason=EvictionReason.DRILL):
                tally.stopped(stopped)
            case InstanceEvicted(instance_id=victim, at_us=at_us):
                tally.evicted(victim, at_us)
            case InstanceStopped(instance_id=stopped):
                tally.stopped(stopped)
    classes = watch.reliability().classes
    running, evicted = (sum(getattr(line, name) for line in classes) for name in ("running", "evicted"))
    return Account(tally, running, evicted)


def _longest_us(recorded: Iterable[Recorded]) -> dict[str, int]:
    """Return the longest lifetime that each instance declared at its start or was granted by an extension."""
    found: dict[str, int] = {}
    for item in recorded:
        if isinstance(item.event, InstanceStarted | InstanceRejected | InstanceExtended):
            name, lifetime_us = item.event.instance_id, item.event.lifetime_us or 0
            found[name] = max(found.get(name, 0), lifetime_us)
    return found


def _count(tally: WorkloadTally, decision: InstanceStarted | InstanceRejected) -> None:
    accepted, epoch = isinstance(decision, InstanceStarted), decision.basis.epoch if decision.basis else None
    tally.started(_request(decision, decision.flavor), accepted=accepted, victims=(), epoch=epoch)
