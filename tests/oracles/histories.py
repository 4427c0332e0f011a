"""Random small clouds with a random, valid log: whatever the decisions can produce."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from app.admission.decide import (
    decide_confirmation,
    decide_drill,
    decide_node_removal,
    decide_overdue,
    decide_start,
    decide_stop,
)
from app.admission.extend import decide_extension
from app.admission.move import decide_move
from app.admission.observe import decide_abort, decide_node_resize, decide_observation, is_as_observed
from app.admission.risk import Assessed, Crossed, decide_risk, exposed_instances
from app.domain.errors import DrillImpossible, NodeNotEmpty, NodeTooSmall, TenureError
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceStarted,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    Recorded,
    RoomHeld,
)
from app.domain.requests import ExtendRequest, MoveRequest, ObserveRequest, StartRequest
from app.domain.values import EvictionPolicy, Guarantee, Market, NodeStatus, Placement, Policy, Resources, RiskLevel
from app.engine.cloud import Cloud


@dataclass
class RandomCloud:
    """Takes random steps; `log` is what came of them."""

    random: Random
    policy: Policy
    memory: bool = True
    commits: bool = True
    cloud: Cloud = field(default_factory=Cloud)
    log: list[Recorded] = field(default_factory=list)
    now_us: int = 0
    started: int = 0
    nodes: int = 0
    flavors: int = 0
    groups: bool = True
    """Let some spot starts be groups."""
    told: bool = False
    """Let a controller say which nodes it can use, what it observes, and what never ran."""
    holds: bool = False
    """Let some spot starts be room that is held for a peer."""

    def open(self) -> None:
        self.now_us = self.random.choice([0, 1000])
        self.apply([CloudCreated(at_us=self.now_us, policy=self.policy)])
        for _ in range(self.random.randint(1, 4)):
            self.add_node()
        for _ in range(self.random.randint(1, 3)):
            self.add_flavor()

    def apply(self, events: list[Event]) -> None:
        self.log += [self.cloud.apply(event) for event in events]
        if self.commits:
            self.cloud.commit()

    def step(self) -> None:
        self.now_us += self.random.choice([0, 0, 1, 2, 5, 20])
        self.notice()
        choice = self.random.random()
        if self.told and self.random.random() < 0.2:
            self.random.choice([self.observe, self.observe, self.resize_node, self.abort])()
        elif choice < 0.6:
            self.start()
        elif choice < 0.87:
            self.stop()
        elif choice < 0.90:
            self.extend()
        elif choice < 0.92:
            self.move()
        elif choice < 0.94:
            self.drill()
        elif choice < 0.97:
            self.change_node()
        else:
            self.random.choice([self.add_node, self.add_flavor])()

    def notice(self) -> None:
        """Now and then a controller's word, its want, or a change of risk; nothing where the cloud has no grace."""
        if not self.policy.grace_us or self.random.random() < 0.5:
            return
        self.apply([*decide_overdue(self.cloud, self.now_us)])
        if self.cloud.handovers and self.random.random() < 0.5:
            name = self.random.choice(sorted(self.cloud.handovers))
            self.apply([*decide_confirmation(self.cloud, name, self.now_us)])
        exposed = [*exposed_instances(self.cloud, self.now_us)()]
        if exposed:
            one = self.random.choice(exposed)
            raised = one.instance_id not in self.cloud.at_risk
            level, probability = (RiskLevel.RAISED, 0.75) if raised else (RiskLevel.CLEARED, 0.25)
            changed = [Crossed(one, level, probability)]
            self.apply([*decide_risk(self.cloud, changed, Assessed(0.5, 1), {}, self.now_us)])

    def drill(self) -> None:
        with suppress(DrillImpossible):
            self.apply([*decide_drill(self.cloud, None, self.now_us)])

    def start(self) -> None:
        market = self.random.choice([Market.SPOT, Market.ON_DEMAND])
        lifetime_us = self.random.choice([0, 1, 3, 10, 40, 100, 400])
        if market is Market.ON_DEMAND and self.random.random() < 0.3:
            lifetime_us = None
        self.started += 1
        flavor = self.random.choice(list(self.cloud.flavors))
        owner = (None, "a", "b")[self.started % 3]
        is_group = self.groups and market is Market.SPOT and self.random.random() < 0.3
        count = self.random.choice([2, 2, 3, 5]) if is_group else 1
        request = StartRequest(f"i{self.started}", market, flavor, lifetime_us, owner=owner, count=count)
        if self.told and self.random.random() < 0.5:
            request = replace(request, nodes=self.some_nodes(), project="p", user="u")
        events = list(decide_start(self.cloud, request, self.now_us, None))
        is_room = self.holds and market is Market.SPOT and self.random.random() < 0.4
        self.apply(self.held(events) if is_room else events)

    def held(self, events: list[Event]) -> list[Event]:
        """Return the start as room that is held for a peer; nothing if it was rejected, or evicts."""
        (*evicted, start) = events
        if evicted or not isinstance(start, InstanceStarted):
            return []
        room = RoomHeld(
            at_us=self.now_us,
            peer="peer",
            job=start.instance_id,
            attempt=1,
            instance_id=start.instance_id,
            flavor=start.flavor,
            count=start.count,
            lifetime_us=1000,
            until_us=self.now_us + (start.lifetime_us or 0),
            ends_us=self.now_us + 2000,
        )
        return [room, replace(start, goes_first=True)]

    def some_nodes(self) -> tuple[str, ...]:
        """Nodes that a controller can use, in any order; one of them may be unknown."""
        known = [*self.cloud.nodes, "unknown"]
        return tuple(self.random.sample(known, self.random.randint(1, len(known))))

    def observe(self) -> None:
        """Tell of an on-demand instance that is new, or runs elsewhere or with another flavor than it was known to."""
        if not self.cloud.nodes:
            return
        self.started += 1
        known = [one.instance_id for one in self.cloud.running.values() if one.market is Market.ON_DEMAND]
        name = self.random.choice(known) if known and self.random.random() < 0.5 else f"o{self.started}"
        flavor, node = self.random.choice([*self.cloud.flavors]), self.random.choice([*self.cloud.nodes])
        request = ObserveRequest(name, flavor, node, project="p")
        if not is_as_observed(self.cloud, request, ran=False):
            self.apply([*decide_observation(self.cloud, request, self.now_us)])

    def resize_node(self) -> None:
        if self.cloud.nodes:
            node = self.random.choice(self.cloud.nodes_in_order())
            capacity = Resources(self.random.randint(1, 9), self.random.choice([0, 8, 16]) if self.memory else 0)
            with suppress(NodeTooSmall):
                self.apply([*decide_node_resize(self.cloud, node, capacity, self.now_us)])

    def abort(self) -> None:
        if self.cloud.running:
            self.apply([*decide_abort(self.cloud, self.random.choice([*self.cloud.running]), self.now_us)])

    def stop(self) -> None:
        if self.cloud.running:
            name = self.random.choice(list(self.cloud.running))
            self.apply(list(decide_stop(self.cloud, name, self.now_us)))

    def extend(self) -> None:
        """Give a spot instance a longer lifetime, if one runs within its own."""
        spot = [i for i in self.cloud.running.values() if i.market is Market.SPOT and self.now_us <= i.deadline_us]
        spot = [one for one in spot if not one.goes_first]
        if spot:
            one = self.random.choice(spot)
            request = ExtendRequest(one.instance_id, (one.lifetime_us or 0) + self.random.choice([1, 5, 50, 500]))
            self.apply(list(decide_extension(self.cloud, request, self.now_us, None)))

    def move(self) -> None:
        """Move an instance to some other node, if it may be moved there."""
        if self.cloud.running and self.cloud.nodes:
            one = self.random.choice([*self.cloud.running.values()])
            request = MoveRequest(one.instance_id, self.random.choice([*self.cloud.nodes]))
            with suppress(TenureError):
                if request.node != one.node:
                    self.apply(list(decide_move(self.cloud, request, self.now_us)))

    def add_node(self) -> None:
        self.nodes += 1
        memory = self.random.choice([0, 8, 16]) if self.memory else 0
        self.apply(
            [NodeAdded(at_us=self.now_us, node=f"n{self.nodes}", capacity=Resources(self.random.randint(2, 8), memory))]
        )

    def add_flavor(self) -> None:
        self.flavors += 1
        memory = self.random.choice([0, 1, 4]) if self.memory else 0
        demand = Resources(self.random.randint(1, 5), memory)
        self.apply([FlavorAdded(at_us=self.now_us, flavor=f"f{self.flavors}", demand=demand)])

    def change_node(self) -> None:
        nodes = self.cloud.nodes_in_order()
        if not nodes:
            return
        node = self.random.choice(nodes)
        if node.status is NodeStatus.DRAINED and self.random.random() < 0.5:
            self.apply([NodeOpened(at_us=self.now_us, node=node.name)])
        elif node.status is NodeStatus.OPEN and self.random.random() < 0.5:
            self.apply([NodeDrained(at_us=self.now_us, node=node.name)])
        else:
            self.remove_node(node.name)

    def remove_node(self, name: str) -> None:
        """Removes it, and now and then adds another one of the same name."""
        try:
            self.apply(list(decide_node_removal(self.cloud, name, self.now_us)))
        except NodeNotEmpty:
            return
        if self.random.random() < 0.5:
            self.apply([NodeAdded(at_us=self.now_us, node=name, capacity=Resources(4))])


def random_log(
    seed: int,
    steps: int,
    eviction_policy: EvictionPolicy,
    *,
    memory: bool = True,
    placement: Placement = Placement.FIRST_FIT,
    displaces: bool = False,
    told: bool = False,
    holds: bool = False,
) -> list[Recorded]:
    """Every other one under a grace period."""
    policy = Policy(
        guarantee=Guarantee.NONE,
        eviction_policy=eviction_policy,
        placement=placement,
        grace_us=7 * (seed % 2),
        displaces_overrunning=displaces,
    )
    cloud = RandomCloud(Random(seed), policy, memory, told=told, holds=holds)
    cloud.open()
    for _ in range(steps):
        cloud.step()
    return cloud.log
