"""Every change that controllers and operators can request, by cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from app.admission.bounds import check_bounds
from app.admission.decide import decide_confirmation, decide_drill, decide_node_removal, drill_victim
from app.admission.extend import decide_extension
from app.admission.limits import MOST_FLAVORS, MOST_NODES
from app.admission.observe import decide_node_resize
from app.admission.outcomes import Change, Changed, Extended, Moved, Observed, Outcome, Started, Step, Stopped
from app.admission.quote import Quotes
from app.domain.errors import (
    FlavorExists,
    InstanceNotFound,
    NodeExists,
    NodeNotFound,
    PolicyInvalid,
    TenureError,
    TimeUnexpected,
    TooManyFlavors,
    TooManyNodes,
)
from app.domain.events import (
    CloudCreated,
    Event,
    EvictionScheduled,
    ExtensionDecision,
    FlavorAdded,
    InstanceEvicted,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    PolicyChanged,
    Recorded,
)
from app.domain.policies import protected_policy
from app.domain.requests import (
    AbortRequest,
    ExtendRequest,
    MoveRequest,
    ObserveRequest,
    Operation,
    StartRequest,
    StopRequest,
)
from app.domain.values import Clock, NodeStatus, Policy, Resources
from app.engine.cloud import Cloud, Node
from app.judging.attainment import Attainment, attainment_now
from app.judging.outcomes import Outcomes, outcomes_now
from app.platform.asked import CommonTurns, waiting_since
from app.scheduling.sequencer import Sequencer, SequencerParts
from app.scheduling.slots import beside, has_few_rows
from app.scheduling.store.clouds import Clouds

T = TypeVar("T", bound=Outcome)

_ATTAINMENTS_AT_ONCE = 2
"""Each has a copy of a large cloud's instances, some 20 MB."""


@dataclass(frozen=True, slots=True)
class Attainments:
    """The standing of a cloud's SLA classes after event `seq`, at a time on its clock. `cloud` may be ahead of it."""

    cloud: Cloud
    policy: Policy
    seq: int
    at_us: int
    classes: Sequence[Attainment]
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class ChangedNode:
    """A node right after a request to change it, with its free resources. `is_changed`: it was not so before."""

    node: Node
    free: Resources
    is_changed: bool


class Scheduler:
    """Passes steps to the cloud's sequencer and returns their outcomes. Outcomes that are errors are raised."""

    def __init__(self, clouds: Clouds, parts: SequencerParts) -> None:
        self._clouds = clouds
        self._parts = parts
        self._sequencers: dict[str, Sequencer] = {}
        self._opening = CommonTurns()
        self._is_stopping = False
        self._attaining = CommonTurns(_ATTAINMENTS_AT_ONCE)

    def new_policy(self, named: Mapping[str, Any]) -> Policy:
        """Return the policy that a cloud gets that is created now with these fields of its policy."""
        return protected_policy(named, self._parts.logs.log.log_format)

    async def create_cloud(self, name: str, policy: Policy, at_us: int | None) -> Cloud:
        """Create a cloud. Its log begins at `at_us`, by default now, or at second 0 of an external clock."""
        check_policy(policy)
        if policy.clock is Clock.SYSTEM and at_us is not None:
            raise TimeUnexpected("a cloud on the system clock begins now: leave the time out")
        begin_us = (at_us or 0) if policy.clock is Clock.EXTERNAL else self._parts.now_us()
        await self._clouds.create(name, Recorded(1, CloudCreated(at_us=begin_us, policy=policy)))
        return await self.state(name)

    async def change_policy(
        self, name: str, change: Callable[[Policy], Policy], at_us: int | None, *, jump: bool = False
    ) -> Cloud:
        """Put a change of the policy in force. The kind of clock cannot change, for the log's times would lose their
        meaning.

        With `jump`, `at_us` may be further ahead of an external clock than its step; the log continues from there.
        """

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            policy = change(cloud.policy)
            check_policy(policy)
            if policy.clock is not cloud.policy.clock:
                raise PolicyInvalid("a cloud's clock cannot be changed")
            moves = jump and now_us > cloud.at_us
            return [PolicyChanged(at_us=now_us, policy=policy)] if moves or policy != cloud.policy else []

        await self._one(name, Change(decide, at_us, jump), Changed)
        return await self.state(name)

    async def add_node(self, name: str, node: str, capacity: Resources, at_us: int | None) -> ChangedNode:
        """Add a node at the end of the node order. Nothing happens if it exists with the same capacity."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            old = cloud.nodes.get(node)
            if old is None:
                if len(cloud.nodes) >= MOST_NODES:
                    raise TooManyNodes(f"the cloud has {MOST_NODES} nodes, as many as it may")
                return [NodeAdded(at_us=now_us, node=node, capacity=capacity)]
            if old.capacity != capacity:
                raise NodeExists(f"node {node!r} exists with another capacity")
            return []

        return await self._change_node(name, node, decide, at_us)

    async def drain_node(self, name: str, node: str, at_us: int | None) -> ChangedNode:
        """Let the node take no more placements; its instances continue to run."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            return [NodeDrained(at_us=now_us, node=node)] if find_node(cloud, node).status is NodeStatus.OPEN else []

        return await self._change_node(name, node, decide, at_us)

    async def open_node(self, name: str, node: str, at_us: int | None) -> ChangedNode:
        """Let a drained node take placements again."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            return [NodeOpened(at_us=now_us, node=node)] if find_node(cloud, node).status is NodeStatus.DRAINED else []

        return await self._change_node(name, node, decide, at_us)

    async def remove_node(self, name: str, node: str, at_us: int | None) -> dict[str, int | None]:
        """Remove a node without on-demand instances. Return the spot instances evicted from it, youngest first.

        Each comes with its deadline, None without a grace period.
        """

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            find_node(cloud, node)
            return decide_node_removal(cloud, node, now_us)

        return _deadlines((await self.change(name, decide, at_us)).events)

    async def resize_node(
        self, name: str, node: str, change: Callable[[Resources], Resources], at_us: int | None
    ) -> tuple[Resources, dict[str, int | None]]:
        """Let a node have another capacity. Return it, and the spot instances evicted as `remove_node` does."""
        found: list[Resources] = []

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            known = find_node(cloud, node)
            found[:] = [change(known.capacity)]
            return decide_node_resize(cloud, known, found[0], now_us)

        deadlines = _deadlines((await self.change(name, decide, at_us)).events)
        return found[0], deadlines

    async def drill(self, name: str, instance_id: str | None, at_us: int | None) -> InstanceEvicted:
        """Evict one spot instance as a test, the named one or the youngest. Raise DrillImpossible if there is none."""
        changed = await self.change(name, lambda cloud, now_us: decide_drill(cloud, instance_id, now_us), at_us)
        evicted = changed.events[-1]
        assert isinstance(evicted, InstanceEvicted)
        return evicted

    async def drill_victim(self, name: str, instance_id: str | None) -> str:
        """Return the id of the instance that `drill` would evict now. Raise DrillImpossible if there is none."""
        return drill_victim(await self.state(name), instance_id)

    async def confirm(self, name: str, instance_id: str, at_us: int | None) -> bool:
        """Record a controller's confirmation that an evicted instance is stopped. Return False if none was awaited."""
        changed = await self.change(name, lambda cloud, now_us: decide_confirmation(cloud, instance_id, now_us), at_us)
        return bool(changed.events)

    async def add_flavor(self, name: str, flavor: str, demand: Resources, at_us: int | None) -> bool:
        """Add a flavor. Return False if it exists with the same resource vector."""

        def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
            old = cloud.flavors.get(flavor)
            if old is None:
                if len(cloud.flavors) >= MOST_FLAVORS:
                    raise TooManyFlavors(f"the cloud has {MOST_FLAVORS} flavors, as many as it may")
                return [FlavorAdded(at_us=now_us, flavor=flavor, demand=demand)]
            if old.resources != demand:
                raise FlavorExists(f"flavor {flavor!r} exists with another resource vector; flavors never change")
            return []

        return bool((await self.change(name, decide, at_us)).events)

    async def start(self, name: str, request: StartRequest) -> Started:
        """Decide a start. The same request repeated has the same answer."""
        return await self._one(name, request, Started)

    async def stop(self, name: str, request: StopRequest) -> Stopped:
        """Stop an instance. Nothing happens if it has ended already."""
        return await self._one(name, request, Stopped)

    async def extend(self, name: str, request: ExtendRequest) -> Extended:
        """Decide on a longer lifetime of a running spot instance. A repeated request has the same answer."""
        return await self._one(name, request, Extended)

    async def move(self, name: str, request: MoveRequest) -> Moved:
        """Record that a running instance runs on another node now. Nothing happens if it ran there already."""
        return await self._one(name, request, Moved)

    async def observe(self, name: str, request: ObserveRequest) -> Observed:
        """Record where an on-demand instance runs, and what it is. Nothing happens if that was known."""
        return await self._one(name, request, Observed)

    async def abort(self, name: str, request: AbortRequest) -> Stopped:
        """Record that an accepted instance never ran. Nothing happens if it has ended already."""
        return await self._one(name, request, Stopped)

    async def extension_quote(self, name: str, request: ExtendRequest) -> ExtensionDecision:
        """Return what `extend` would decide now. Nothing is recorded."""
        table = await self._parts.tables.load(await self.cloud_id(name))
        cloud, now_us = await self.present(name)
        if request.instance_id not in cloud.running:
            past = await self._parts.logs.log.starts(await self.cloud_id(name), [request.instance_id])
            if not past:
                raise InstanceNotFound(f"there is no instance {request.instance_id!r}")
            cloud, now_us = await self.present(name)
        quotes = None if table is None or table.seq > cloud.seq else table
        (decision,) = decide_extension(cloud, request, now_us, quotes)
        return decision

    async def quotes(self, name: str) -> Callable[[Cloud], Quotes | None]:
        """Return what gives the table to decide with, for a change that needs one, when it is decided."""
        return (await self._sequencer(name)).quotes

    async def batch(self, name: str, operations: Sequence[Operation]) -> list[Outcome]:
        """Decide operations in order. Each has its own outcome; an error of one does not affect the others."""
        sequencer = await self._sequencer(name)
        return await sequencer.submit(operations)

    async def state(self, name: str) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        sequencer = await self._sequencer(name)
        return await sequencer.state()

    async def present(self, name: str) -> tuple[Cloud, int]:
        """Return the state, and the cloud's present time."""
        cloud = await self.state(name)
        return cloud, cloud.present_us(self._parts.now_us())

    async def attainments(self, name: str) -> Attainments:
        """Return the standing of each SLA class. In a large cloud it is read beside the event loop."""
        cloud, at_us = await self.present(name)
        if has_few_rows(cloud):
            classes, outcomes = attainment_now(cloud, at_us), outcomes_now(cloud, at_us)
            return Attainments(cloud, cloud.policy, cloud.seq, at_us, classes(), outcomes())
        async with self._attaining.taken():
            cloud, at_us = await self.present(name)
            policy, seq = cloud.policy, cloud.seq
            read, count = attainment_now(cloud, at_us), outcomes_now(cloud, at_us)
            return Attainments(cloud, policy, seq, at_us, *await beside(lambda: (read(), count())))

    async def names(self) -> list[str]:
        """Return the names of all clouds, sorted."""
        return sorted(await self._clouds.list())

    async def cloud_id(self, name: str) -> int:
        """Return the number by which the store knows the cloud. Raise CloudNotFound."""
        return await self._clouds.id_of(name)

    def end_waits(self) -> None:
        """Refuse the starts that wait for a table, now and later. Nothing of them was written."""
        self._is_stopping = True
        for sequencer in self._sequencers.values():
            sequencer.end_waits()

    async def close(self) -> None:
        """Stop deciding."""
        await asyncio.gather(*(sequencer.close() for sequencer in self._sequencers.values()))

    async def change(
        self,
        name: str,
        decide: Callable[[Cloud, int], Sequence[Event]],
        at_us: int | None,
        starts: tuple[str, ...] = (),
        keeps: tuple[str, ...] = (),
    ) -> Changed:
        """Apply a change: `decide` returns its events, given the state and a time in microseconds.

        `starts`: ids of the instances that it may start; `keeps`: those that it may keep for later.
        InstanceConflict if one of those that it starts or keeps is not new.
        """
        return await self._one(name, Change(decide, at_us, starts=starts, keeps=keeps), Changed)

    async def _change_node(
        self, name: str, node: str, decide: Callable[[Cloud, int], Sequence[Event]], at_us: int | None
    ) -> ChangedNode:
        """Apply a change of a node, and return the node as the change leaves it: it may be removed right after."""
        found: list[ChangedNode] = []

        def decide_and_look(cloud: Cloud, now_us: int) -> Sequence[Event]:
            events = decide(cloud, now_us)
            with cloud.tried():
                for event in events:
                    cloud.apply(event)
                found[:] = [ChangedNode(cloud.nodes[node], cloud.free(node), is_changed=bool(events))]
            return events

        await self.change(name, decide_and_look, at_us)
        return found[0]

    async def _one(self, name: str, step: Step, kind: type[T]) -> T:
        sequencer = self._sequencers.get(name) or await self._sequencer(name)
        (outcome,) = await sequencer.submit((step,))
        if isinstance(outcome, TenureError):
            raise outcome
        assert isinstance(outcome, kind)
        return outcome

    async def _sequencer(self, name: str) -> Sequencer:
        if name in self._sequencers:
            return self._sequencers[name]
        asked_s = monotonic()
        async with self._opening.taken():
            if name not in self._sequencers:
                with waiting_since(asked_s):
                    await self._find(name)
                self._sequencers[name] = Sequencer(partial(self._find, name), name, self._parts)
                if self._is_stopping:
                    self._sequencers[name].end_waits()
            return self._sequencers[name]

    async def _find(self, name: str) -> int:
        """Return the cloud's number after loading its newest table. Raise CloudNotFound."""
        cloud_id = await self.cloud_id(name)
        await self._parts.tables.load(cloud_id)
        return cloud_id


def _deadlines(events: Iterable[Event]) -> dict[str, int | None]:
    """Return who is evicted among these events, each with the deadline under a grace period."""
    found = [*events]
    deadlines = {event.instance_id: event.deadline_us for event in found if isinstance(event, EvictionScheduled)}
    evicted = [event.instance_id for event in found if isinstance(event, InstanceEvicted)]
    return {victim: deadlines.get(victim) for victim in evicted}


def find_node(cloud: Cloud, node: str) -> Node:
    """Return the node. Raise NodeNotFound if there is none of that name."""
    found = cloud.nodes.get(node)
    if found is None:
        raise NodeNotFound(f"there is no node {node!r}")
    return found


def check_policy(policy: Policy) -> None:
    """Raise PolicyInvalid if the policy's values contradict each other."""
    if policy.table_max_age_us < policy.recompute_every_us:
        raise PolicyInvalid("table_max_age_s is below recompute_every_s: every table would be stale before the next")
    if policy.history_window_us is not None and policy.history_window_us < policy.recompute_every_us:
        raise PolicyInvalid("history_window_s is below recompute_every_s: parts of the log would never be replayed")
    check_bounds(policy)
