"""A cloud of a federation: native jobs, which are never preempted, and foreign ones in the room that these leave.

It is the scheduler's own cloud. A native job is one on-demand start for each instance, a foreign job one spot group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from app.admission.decide import decide_start, decide_stop
from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, NodeAdded
from app.domain.names import flavor_name, node_name
from app.domain.requests import StartRequest
from app.domain.values import Guarantee, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.federation.rules.hosting import HostBook
from app.federation.rules.increase import NativeUse
from app.federation.rules.jobs import Job
from app.workbench.evaluate import EventSink


class _Hosted(NamedTuple):
    cores: int
    end_us: int


class FederatedCloud:
    """One cloud. `native` is the use that its rule judges by, `book` what it promised to foreign jobs."""

    def __init__(self, name: str, nodes: Sequence[Resources], kinds: Iterable[int], log: EventSink | None) -> None:
        self.name = name
        self.native = NativeUse()
        self._cloud = Cloud()
        self._log = log
        self._hosted: dict[str, _Hosted] = {}
        self.book = HostBook()
        policy = Policy(guarantee=Guarantee.NONE, warm_up_us=0)
        opened: list[Event] = [CloudCreated(at_us=0, policy=policy)]
        opened += [NodeAdded(at_us=0, node=node_name(at), capacity=one) for at, one in enumerate(_pooled(nodes))]
        opened += [FlavorAdded(at_us=0, flavor=flavor_name(one), demand=Resources(one)) for one in sorted(kinds)]
        self._record(opened)

    def start_native(self, job: Job) -> list[str] | None:
        """Start a job of its own users; return the foreign jobs that it preempts, None if it is rejected."""
        if not self._has_native_room(job):
            return None
        victims: list[str] = []
        for member in _members(job):
            request = StartRequest(member, Market.ON_DEMAND, flavor_name(job.cores), job.lifetime_us)
            events = decide_start(self._cloud, request, job.start_us, None)
            assert isinstance(events[-1], InstanceStarted), "there is room for every instance"
            self._record(events)
            victims += events[-1].victims
        for victim in victims:
            del self._hosted[victim]
            self.book.end(victim, preempted=True)
        self.native.record(job.start_us, self.native.now + job.all_cores)
        return victims

    def stop_native(self, job: Job, at_us: int) -> None:
        """Stop a job of its own users."""
        for member in _members(job):
            self._record(decide_stop(self._cloud, member, at_us))
        self.native.record(at_us, self.native.now - job.all_cores)

    def spare_beside(self, job: Job) -> int | None:
        """Return the cores that would be free beside a foreign job; None if it does not fit now."""
        if self._cloud.available_slots(flavor_name(job.cores)) < job.count:
            return None
        cluster = self._cloud.cluster
        return int(cluster.free[cluster.is_open, 0].sum()) - job.all_cores

    def ends_after(self, at_us: int) -> list[tuple[int, int]]:
        """Return of each foreign job how long it still runs at most, and its cores."""
        return [(one.end_us - at_us, one.cores) for one in self._hosted.values()]

    def start_foreign(self, foreign_id: str, job: Job, declared_us: int, risk: float) -> None:
        """Start a job of another cloud, which fits and was admitted at a risk."""
        flavor = flavor_name(job.cores)
        request = StartRequest(foreign_id, Market.SPOT, flavor, declared_us, count=job.count)
        events = decide_start(self._cloud, request, job.start_us, None)
        assert isinstance(events[-1], InstanceStarted), "there is room for the group"
        self._record(events)
        self.book.admit(foreign_id, risk)
        self._hosted[foreign_id] = _Hosted(job.all_cores, job.start_us + declared_us)

    def stop_foreign(self, foreign_id: str, at_us: int) -> bool:
        """Stop a foreign job; return False if it was preempted before."""
        self._record(decide_stop(self._cloud, foreign_id, at_us))
        if self._hosted.pop(foreign_id, None) is None:
            return False
        self.book.end(foreign_id, preempted=False)
        return True

    def _has_native_room(self, job: Job) -> bool:
        """Return True if all instances of a job fit once all foreign jobs are gone."""
        cluster = self._cloud.cluster
        room = cluster.free[:, 0].copy()
        foreign = cluster.is_spot & (cluster.node_of >= 0)
        np.add.at(room, cluster.node_of[foreign], cluster.demand[foreign, 0])
        return int((room[cluster.is_open] // job.cores).sum()) >= job.count

    def _record(self, events: Sequence[Event]) -> None:
        recorded = [self._cloud.apply(event) for event in events]
        self._cloud.commit()
        if self._log is not None:
            for one in recorded:
                self._log.write(one)


def _pooled(nodes: Sequence[Resources]) -> Sequence[Resources]:
    """Return the nodes; those of one core each are one pool of fungible cores, hence one node."""
    return nodes if any(node.cores != 1 for node in nodes) else [Resources(len(nodes))]


def _members(job: Job) -> list[str]:
    return [f"{job.name}.{member}" for member in range(job.count)]
