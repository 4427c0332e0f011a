"""A cloud of a federation: native jobs, which are never preempted, and foreign ones in the room that these leave.

It is the scheduler's own cloud. A native job is one on-demand start for each instance, a foreign job one spot group.
Its line decides both: here, in this process, or in a running service (`served.py`), with the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from app.admission.decide import decide_start, decide_stop
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, NodeAdded
from app.domain.names import flavor_name, node_name
from app.domain.requests import StartRequest, StopRequest
from app.domain.values import Clock, EvictionPolicy, Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.rules.hosting import HostBook
from app.federation.rules.increase import NativeUse
from app.federation.rules.jobs import Job
from app.workbench.evaluate import EventSink


class _Hosted(NamedTuple):
    cores: int
    end_us: int


class CloudLine(Protocol):
    """Decides the operations of one cloud in their order. `cloud` is the state after all of them."""

    cloud: Cloud

    def decide(self, operations: Sequence[StartRequest | StopRequest]) -> Sequence[Event]:
        """Return the events of operations, each with a time of its own. A stop of what has ended has none."""


class LocalLine:
    """A line in this process. The log takes all events, also those that the cloud begins with."""

    def __init__(self, opened: Sequence[Event], log: EventSink | None) -> None:
        self.cloud = Cloud()
        self._log = log
        self._record(opened)

    def decide(self, operations: Sequence[StartRequest | StopRequest]) -> Sequence[Event]:
        """Decide each over the state that those before it leave."""
        found: list[Event] = []
        for one in operations:
            assert one.at_us is not None
            if isinstance(one, StartRequest):
                events = decide_start(self.cloud, one, one.at_us, None)
            else:
                events = decide_stop(self.cloud, one.instance_id, one.at_us)
            self._record(events)
            found += events
        return found

    def _record(self, events: Sequence[Event]) -> None:
        recorded = [self.cloud.apply(event) for event in events]
        self.cloud.commit()
        if self._log is not None:
            for one in recorded:
                self._log.write(one)


def opening(nodes: Sequence[Resources], kinds: Iterable[int], eviction: EvictionPolicy) -> list[Event]:
    """Return the events that a cloud begins with: its policy, its nodes, and a flavor for each number of cores."""
    policy = Policy(
        guarantee=Guarantee.NONE,
        warm_up_us=0,
        eviction_policy=eviction,
        clock=Clock.EXTERNAL,
        clock_step_us=None,  # jobs may be years apart
    )
    opened: list[Event] = [CloudCreated(at_us=0, policy=policy)]
    opened += [NodeAdded(at_us=0, node=node_name(at), capacity=one) for at, one in enumerate(_pooled(nodes))]
    return opened + [FlavorAdded(at_us=0, flavor=flavor_name(one), demand=Resources(one)) for one in sorted(kinds)]


class FederatedCloud:
    """One cloud. `native` is the use that its rule judges by, `book` what it promised to foreign jobs."""

    def __init__(self, name: str, line: CloudLine) -> None:
        self.name = name
        self.native = NativeUse()
        self._line = line
        self._hosted: dict[str, _Hosted] = {}
        self.book = HostBook()

    def start_native(self, job: Job) -> list[str] | None:
        """Start a job of its own users; return the foreign jobs that it preempts, None if it is rejected."""
        if not self._has_native_room(job):
            return None
        flavor = flavor_name(job.cores)
        events = self._line.decide(
            [
                StartRequest(member, Market.ON_DEMAND, flavor, job.lifetime_us, at_us=job.start_us)
                for member in _members(job)
            ]
        )
        started = [one for one in events if isinstance(one, InstanceStarted)]
        assert len(started) == job.count, "there is room for every instance"
        victims = [victim for one in started for victim in one.victims]
        for victim in victims:
            del self._hosted[victim]
            self.book.end(victim, preempted=True)
        self.native.record(job.start_us, self.native.now + job.all_cores)
        return victims

    def stop_native(self, job: Job, at_us: int) -> None:
        """Stop a job of its own users."""
        self._line.decide([StopRequest(member, at_us) for member in _members(job)])
        self.native.record(at_us, self.native.now - job.all_cores)

    def spare_beside(self, job: Job) -> int | None:
        """Return the cores that would be free beside a foreign job; None if it does not fit now."""
        if self._line.cloud.available_slots(flavor_name(job.cores)) < job.count:
            return None
        cluster = self._line.cloud.cluster
        return int(cluster.free[cluster.is_open, 0].sum()) - job.all_cores

    def ends_after(self, at_us: int) -> list[tuple[int, int]]:
        """Return of each foreign job how long it still runs at most, and its cores."""
        return [(one.end_us - at_us, one.cores) for one in self._hosted.values()]

    def start_foreign(self, foreign_id: str, job: Job, declared_us: int, risk: float) -> None:
        """Start a job of another cloud, which fits and was admitted at a risk."""
        flavor = flavor_name(job.cores)
        request = StartRequest(foreign_id, Market.SPOT, flavor, declared_us, at_us=job.start_us, count=job.count)
        assert isinstance(self._line.decide([request])[-1], InstanceStarted), "there is room for the group"
        self.book.admit(foreign_id, risk)
        self._hosted[foreign_id] = _Hosted(job.all_cores, job.start_us + declared_us)

    def stop_foreign(self, foreign_id: str, at_us: int) -> bool:
        """Stop a foreign job; return False if it was preempted before."""
        self._line.decide([StopRequest(foreign_id, at_us)])
        if self._hosted.pop(foreign_id, None) is None:
            return False
        self.book.end(foreign_id, preempted=False)
        return True

    def _has_native_room(self, job: Job) -> bool:
        """Return True if all instances of a job fit once all foreign jobs are gone."""
        cluster = self._line.cloud.cluster
        room = cluster.free[:, 0].copy()
        foreign = cluster.is_spot & (cluster.node_of >= 0)
        np.add.at(room, cluster.node_of[foreign], cluster.demand[foreign, 0])
        return int((room[cluster.is_open] // job.cores).sum()) >= job.count


def _pooled(nodes: Sequence[Resources]) -> Sequence[Resources]:
    """Return the nodes; those of one core each are one pool of fungible cores, hence one node."""
    return nodes if any(node.cores != 1 for node in nodes) else [Resources(len(nodes))]


def _members(job: Job) -> list[str]:
    return [f"{job.name}.{member}" for member in range(job.count)]
