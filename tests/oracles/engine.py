"""The engine in plain Python: lists, no arrays, no tricks; the rules read anew (docs/architecture.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

ENDLESS = 1 << 40


@dataclass
class NaiveNode:
    name: str
    capacity: tuple[int, ...]
    is_open: bool = True


@dataclass
class NaiveInstance:
    name: str
    is_spot: bool
    demand: tuple[int, ...]
    born: float
    deadline_us: int
    node: NaiveNode
    more: list[NaiveNode] = field(default_factory=list)
    """Of a group, the nodes of its members but the first."""
    count: int = 1
    goes_first: bool = False

    @property
    def nodes(self) -> list[NaiveNode]:
        return [self.node, *self.more]

    def uses(self, node: NaiveNode, r: int) -> int:
        return self.demand[r] * sum(one is node for one in self.nodes)

    def overruns(self, now_us: int) -> bool:
        """Return True if its lifetime is over; what goes first has none that could be."""
        return now_us > self.deadline_us and not self.goes_first

    def is_on(self, node: NaiveNode | None) -> bool:
        """Return True if a machine runs on the node; None: on any open one."""
        return any(one.is_open if node is None else one is node for one in self.nodes)


@dataclass
class NaiveCluster:
    """Nodes in node order, instances in start order."""

    nodes: list[NaiveNode] = field(default_factory=list)
    instances: dict[str, NaiveInstance] = field(default_factory=dict)
    placement: str = "first_fit"

    def node(self, name: str) -> NaiveNode:
        """The newest node of that name."""
        return [node for node in self.nodes if node.name == name][-1]

    def on(self, node: NaiveNode) -> list[NaiveInstance]:
        return [instance for instance in self.instances.values() if instance.is_on(node)]

    def holds(self, node: NaiveNode, instances: list[NaiveInstance], demand: tuple[int, ...]) -> bool:
        """Return True if the node, with these instances on it, has room for one more."""
        for r, capacity in enumerate(node.capacity):
            used = sum(instance.uses(node, r) for instance in instances)
            if capacity and used + demand[r] > capacity:
                return False
        return True

    def fitting_node(self, demand: tuple[int, ...]) -> NaiveNode | None:
        having_room = [n for n in self.nodes if n.is_open and self.holds(n, self.on(n), demand)]
        if not having_room:
            return None
        if self.placement == "first_fit":
            return having_room[0]
        tightest = min(self.room_on(node, demand) for node in having_room)
        return next(node for node in having_room if self.room_on(node, demand) == tightest)

    def room_on(self, node: NaiveNode, demand: tuple[int, ...]) -> list[int]:
        """Return what is free of the resources asked for; a resource that a node does not count is endless."""
        return [
            (capacity or ENDLESS) - sum(instance.uses(node, r) for instance in self.on(node))
            for r, capacity in enumerate(node.capacity)
            if demand[r]
        ]

    def slots(self, demand: tuple[int, ...]) -> int:
        return sum(self.slots_on(node, demand) for node in self.nodes if node.is_open)

    def slots_on(self, node: NaiveNode, demand: tuple[int, ...]) -> int:
        """Return how often the demand fits in what is left, resource by resource."""
        counts = [ENDLESS]
        for r, capacity in enumerate(node.capacity):
            left = capacity - sum(i.uses(node, r) for i in self.on(node))
            if capacity and left < 0:
                counts.append(0)
            elif capacity and demand[r]:
                counts.append(left // demand[r])
        return min(counts)

    def youngest_first(self, node: NaiveNode | None, now_us: int) -> list[NaiveInstance]:
        """Spot instances of a node (or of all open ones); what goes first and overrunning ones come before the rest."""
        found = [i for i in self.instances.values() if i.is_spot and i.is_on(node)]
        return sorted(found, key=lambda i: youth(i, now_us), reverse=True)

    def plan_yjf(self, demand: tuple[int, ...], now_us: int) -> tuple[NaiveNode, list[NaiveInstance]] | None:
        plans = []
        for position, node in enumerate(self.nodes):
            victims = self.clear(node, demand, now_us) if node.is_open else None
            if victims is not None:
                oldest = min(youth(victim, now_us) for victim in victims)
                plans.append(((oldest, -sum(one.count for one in victims), -position), node, victims))
        if not plans:
            return None
        _, node, victims = max(plans, key=lambda plan: plan[0])
        return node, victims

    def clear(self, node: NaiveNode, demand: tuple[int, ...], now_us: int) -> list[NaiveInstance] | None:
        """The node's shortest youngest-first run that makes room, less those, oldest first, who are not needed."""
        spot = self.youngest_first(node, now_us)
        for length in range(1, len(spot) + 1):
            victims = spot[:length]
            if self.holds(node, [i for i in self.on(node) if i not in victims], demand):
                return self.spare(node, victims, demand)
        return None

    def clear_or_empty(self, node: NaiveNode, demand: tuple[int, ...], now_us: int) -> list[NaiveInstance]:
        """The instances that the node must lose for a demand; all of its spot instances if that is not enough."""
        if self.holds(node, self.on(node), demand):
            return []
        cleared = self.clear(node, demand, now_us)
        return self.youngest_first(node, now_us) if cleared is None else cleared

    def spare(self, node: NaiveNode, victims: list[NaiveInstance], demand: tuple[int, ...]) -> list[NaiveInstance]:
        for candidate in reversed(list(victims)):
            fewer = [victim for victim in victims if victim is not candidate]
            if self.holds(node, [i for i in self.on(node) if i not in fewer], demand):
                victims = fewer
        return victims

    def plan_global(self, demand: tuple[int, ...], now_us: int) -> tuple[NaiveNode, list[NaiveInstance]] | None:
        """The seeds' rule: evict the youngest of the whole cloud until something fits."""
        victims: list[NaiveInstance] = []
        for instance in self.youngest_first(None, now_us):
            victims.append(instance)
            for node in self.nodes:
                if node.is_open and self.holds(node, [i for i in self.on(node) if i not in victims], demand):
                    return node, victims
        return None

    def place_on_demand(
        self, demand: tuple[int, ...], now_us: int, policy: str
    ) -> tuple[NaiveNode, list[NaiveInstance]] | None:
        """The node and the victims, youngest first."""
        node = self.fitting_node(demand)
        if node is not None:
            return node, []
        return self.plan_yjf(demand, now_us) if policy == "yjf" else self.plan_global(demand, now_us)

    def start_on_demand(self, instance: NaiveInstance, now_us: int, policy: str) -> list[str] | None:
        """Place it and evict its victims (their names are returned); None where it cannot be placed."""
        plan = self.place_on_demand(instance.demand, now_us, policy)
        if plan is None:
            return None
        instance.node, victims = plan
        for victim in victims:
            del self.instances[victim.name]
        self.instances[instance.name] = instance
        return [victim.name for victim in victims]

    def displace(self, demand: tuple[int, ...], now_us: int) -> tuple[NaiveNode, list[NaiveInstance]] | None:
        """The node to clear of overrunning instances, and those that go: as for an on-demand start, of them alone."""
        staying = {name for name, one in self.instances.items() if not (one.is_spot and one.overruns(now_us))}
        marked = {name: self.instances[name].is_spot for name in staying}
        for name in staying:
            self.instances[name].is_spot = False
        plan = self.plan_yjf(demand, now_us)
        for name, is_spot in marked.items():
            self.instances[name].is_spot = is_spot
        return plan

    def start_spot(self, instance: NaiveInstance, now_us: int = 0, *, displaces: bool = False) -> list[str] | None:
        """Place all of its machines or none; a single one if need be in the room of overrunning instances.

        Their names are returned; None where it cannot be placed.
        """
        found: list[NaiveNode] = []
        victims: list[NaiveInstance] = []
        for _ in range(instance.count):
            node = self.fitting_node(instance.demand)
            if node is None and displaces and instance.count == 1:
                node, victims = self.displace(instance.demand, now_us) or (None, [])
            if node is None:
                self.instances.pop(instance.name, None)
                return None
            for victim in victims:
                del self.instances[victim.name]
            found.append(node)
            instance.node, instance.more = found[0], found[1:]
            self.instances[instance.name] = instance
        return [victim.name for victim in victims]


def youth(instance: NaiveInstance, now_us: int) -> tuple[bool, bool, float]:
    """Greater is younger; an overrunning instance counts as younger than others, and what goes first than all."""
    return instance.goes_first, instance.overruns(now_us), instance.born
