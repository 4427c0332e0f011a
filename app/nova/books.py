"""Tenure's side: the lives of servers as its log has them, its nodes and flavors, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from app.domain.values import Resources
from app.nova.rules.lives import Life, life_of
from app.nova.rules.nodes import NodeFacts, NodeStep, NodeStepKind
from app.nova.rules.seen import KnownLife, Server
from app.nova.rules.sizes import name_of_size
from tenure_client import Conflict, NotFound, TenureClient
from tenure_client.forms.events import EventAnswer
from tenure_client.forms.instances import InstanceAnswer
from tenure_client.forms.nodes import ResourcesAnswer
from tenure_client.values import Resources as Asked

_REMEMBERED_LIVES = 100_000
_NO_ROOM, _DRAINED = "preemptible.move.no_room", "preemptible.move.drained"


class _Seen(NamedTuple):
    """The numbers of the life that counted, which has ended, and of the last one, when a server was looked at."""

    counts: int
    last: int


class TenureSide:
    """A cloud of Tenure, by its HTTP interface. Threads may share it. `client` must give up at once."""

    def __init__(self, client: TenureClient, follower: TenureClient, cloud: str) -> None:
        self._client, self._follower, self._cloud = client, follower, cloud
        self._sizes: dict[str, Resources] = {}
        self._sizing = Lock()
        self._seen: dict[str, _Seen] = {}
        self.nodes: frozenset[str] = frozenset()

    def seq(self) -> int:
        """Return the number of the log's last event."""
        return self._client.cloud(self._cloud).seq

    def follow(self, after_seq: int) -> Iterator[EventAnswer]:
        """Yield the events after this one as they come."""
        return self._follower.follow(self._cloud, after_seq=after_seq)

    # Lives.

    def running(self) -> dict[str, KnownLife]:
        """Return the newest running life of each server, by the server's id. What is no server of Nova is left out."""
        found: dict[str, KnownLife] = {}
        for one in self._client.instances(self._cloud, status="running"):
            life = life_of(one.id)
            if life is not None and (life.server not in found or found[life.server].life.number < life.number):
                found[life.server] = self._known(one, life, {})
        return found

    def leaving(self) -> dict[str, datetime]:
        """Return the deadlines of evictions that nobody has confirmed, by instance."""
        return {one.id: one.deadline for one in self._client.handovers(self._cloud)}

    def newest(self, server: str) -> KnownLife | None:
        """Return the newest life of a server; None if it never had one. A life begins after the former has ended.

        A refusal to let a spot server that was evicted begin anew is none: it has to go, as before.
        """
        seen = self._seen.get(server)
        last = self._last(Life(server, 1 if seen is None else seen.last))
        if last is None and seen is not None:  # Tenure's log was put back to an earlier state
            seen, last = None, self._last(Life(server, 1))
        if last is None:
            return None
        (answer, life), (_, newest) = self._that_counts(*last, seen), last
        if answer.status != "running":
            self._remember(server, _Seen(life.number, newest.number))
        return self._known(answer, life, self.leaving() if answer.status == "evicted" else {})

    def _last(self, first: Life) -> tuple[InstanceAnswer, Life] | None:
        """Return the last life of a server from this one on, with few questions: lives have no gaps."""
        answer = self._instance(first)
        if answer is None:
            return None
        known, step = first, 1
        while answer.status != "running" and (further := self._instance(known.after(step))) is not None:
            answer, known, step = further, known.after(step), 2 * step
        missing = known.number + (1 if answer.status == "running" else step)
        while missing - known.number > 1:
            middle = known.after((missing - known.number) // 2)
            if (further := self._instance(middle)) is None:
                missing = middle.number
            else:
                answer, known = further, middle
        return answer, known

    def _that_counts(self, answer: InstanceAnswer, life: Life, seen: _Seen | None) -> tuple[InstanceAnswer, Life]:
        """Return the evicted spot life before refusals to begin anew, or else the last life itself."""
        if answer.status == "rejected" and answer.market == "spot":
            former = self._former(life, seen)
            if former is not None and former[0].status == "evicted":
                return former
        return answer, life

    def _former(self, life: Life, seen: _Seen | None) -> tuple[InstanceAnswer, Life] | None:
        """Return the newest life before this one that was not refused; what was seen before is not asked for again."""
        for number in range(life.number - 1, 0 if seen is None else seen.last, -1):
            found = self._instance(Life(life.server, number))
            if found is not None and found.status != "rejected":
                return found, Life(life.server, number)
        former = None if seen is None else Life(life.server, seen.counts)
        found = None if former is None else self._instance(former)
        return None if found is None or former is None else (found, former)

    def _instance(self, life: Life) -> InstanceAnswer | None:
        try:
            return self._client.instance(self._cloud, life.instance_id)
        except NotFound as error:
            if error.code == "preemptible.instance.not_found":
                return None
            raise

    def _remember(self, server: str, seen: _Seen) -> None:
        """Begin the next search where this one ended."""
        if len(self._seen) >= _REMEMBERED_LIVES:
            self._seen.clear()
        self._seen[server] = seen

    def _known(self, one: InstanceAnswer, life: Life, leaving: Mapping[str, datetime]) -> KnownLife:
        return KnownLife(
            life=life,
            status=one.status,
            is_spot=one.market == "spot",
            node=one.node,
            flavor=one.flavor,
            demand=self._size(one.flavor),
            at=one.at,
            deadline=None if one.lifetime_s is None else one.at + timedelta(seconds=one.lifetime_s),
            probability=None if one.quote is None else one.quote.eviction_probability,
            epoch=None if one.quote is None else one.quote.epoch,
            leaves_by=leaving.get(one.id),
            ended_at=one.ended_at,
            is_observed=one.observed,
        )

    # Flavors.

    def flavor(self, plain: str, demand: Resources) -> str:
        """Return the name of the flavor of this size, which is added if there is none."""
        with self._sizing:
            if not self._has(plain, demand):
                self._read_sizes()
            while not self._has(plain, demand):
                name = name_of_size(self._sizes, plain, demand)
                try:
                    self._client.add_flavor(self._cloud, name, Asked(*demand))
                    self._sizes[name] = demand
                except Conflict:  # somebody has just added one of this name
                    self._read_sizes()
            return name_of_size(self._sizes, plain, demand)

    def _has(self, plain: str, demand: Resources) -> bool:
        return name_of_size(self._sizes, plain, demand) in self._sizes

    def _size(self, flavor: str) -> Resources | None:
        with self._sizing:
            if flavor not in self._sizes:
                self._read_sizes()
            return self._sizes.get(flavor)

    def _read_sizes(self) -> None:
        self._sizes = {
            one.name: Resources(one.cores, one.memory_mib, one.disk_gib) for one in self._client.flavors(self._cloud)
        }

    # Nodes.

    def read_nodes(self) -> dict[str, NodeFacts]:
        """Return the nodes of the cloud, and keep their names in `nodes`."""
        found = {
            one.name: NodeFacts(_vector(one.capacity), one.status == "open") for one in self._client.nodes(self._cloud)
        }
        self.nodes = frozenset(found)
        return found

    def change_node(self, step: NodeStep) -> None:
        """Make a change of a node."""
        sizes = step.capacity or Resources(0)
        changes: dict[NodeStepKind, Callable[[], object]] = {
            NodeStepKind.ADD: lambda: self._client.add_node(self._cloud, step.node, Asked(*sizes)),
            NodeStepKind.RESIZE: lambda: self._client.resize_node(self._cloud, step.node, *sizes),
            NodeStepKind.DRAIN: lambda: self._client.drain_node(self._cloud, step.node),
            NodeStepKind.OPEN: lambda: self._client.open_node(self._cloud, step.node),
            NodeStepKind.REMOVE: lambda: self._client.remove_node(self._cloud, step.node),
        }
        changes[step.kind]()

    # What is told of instances.

    def stop(self, life: Life) -> None:
        """Tell that a life is over. Repeating it changes nothing."""
        self._client.stop(self._cloud, life.instance_id)

    def abort(self, life: Life) -> None:
        """Tell that a life never began."""
        self._client.abort_instance(self._cloud, life.instance_id)

    def confirm(self, life: Life) -> None:
        """Tell that an evicted server is gone."""
        self._client.confirm_handover(self._cloud, life.instance_id)

    def move(self, life: Life, node: str) -> bool:
        """Tell that a spot server runs on this node; return True if the node had to be changed to take it.

        One without room is made larger by the server, one that is drained is opened. Both are as they were when nodes
        are compared next, which evicts the youngest there where too much runs.
        """
        try:
            self._client.move(self._cloud, life.instance_id, node)
        except Conflict as error:
            if error.code not in (_NO_ROOM, _DRAINED):
                raise
            if error.code == _DRAINED:
                self._client.open_node(self._cloud, node)
            self._enlarge(node, self._size(self._client.instance(self._cloud, life.instance_id).flavor))
            self._client.move(self._cloud, life.instance_id, node)
            return True
        return False

    def _enlarge(self, node: str, demand: Resources | None) -> None:
        """Give a node the capacity that it lacks for a demand. A resource that it does not count stays so."""
        known, needed = self._client.node(self._cloud, node), demand or Resources(0)
        lacks = [max(size - free, 0) for size, free in zip(needed, _vector(known.free), strict=True)]
        capacity = _vector(known.capacity)
        enough = Resources(*(size and size + lack for size, lack in zip(capacity, lacks, strict=True)))
        if enough != capacity:
            self._client.resize_node(self._cloud, node, *enough)

    def observe(self, life: Life, server: Server) -> None:
        """Tell that an on-demand server runs where it does, with the size that it has."""
        assert server.node is not None
        assert server.demand is not None
        flavor = self.flavor(server.plain_flavor, server.demand)
        self._client.observe_instance(
            self._cloud, life.instance_id, server.node, flavor, project=server.project, user=server.user
        )


def _vector(told: ResourcesAnswer) -> Resources:
    return Resources(told.cores, told.memory_mib, told.disk_gib)
