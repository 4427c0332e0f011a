"""The baselines of an evaluation in plain Python: whole worlds are copied and played to their end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from app.domain.requests import Operation, StartRequest
from app.domain.values import Market
from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode

ENDLESS_US = 1 << 60


class NaiveWorld:
    """A cloud of nodes with so many cores; flavors are named c1, c2 and so on."""

    def __init__(self, cores: Sequence[int], policy: str, placement: str) -> None:
        self.cluster = NaiveCluster(
            [NaiveNode(f"n{at}", (size,)) for at, size in enumerate(cores)], placement=placement
        )
        self.policy = policy
        self.admitted: list[str] = []
        self.evicted: list[str] = []
        self.loads: list[tuple[int, int]] = [(0, 0)]

    def play(self, rule: str, steps: Sequence[Operation]) -> None:
        """Decide all steps, spot starts by the rule of that name."""
        for at, step in enumerate(steps):
            if isinstance(step, StartRequest) and step.market is Market.SPOT:
                if getattr(self, rule)(step, steps[at + 1 :]):
                    self.start(step)
            else:
                self.take(step)

    def take(self, step: Operation) -> None:
        """Take a stop or an on-demand start."""
        if isinstance(step, StartRequest):
            self.start(step)
        else:
            self.cluster.instances.pop(step.instance_id, None)
            self.loads.append((step.at_us or 0, self.used(is_spot=False)))

    def start(self, step: StartRequest) -> bool:
        """Start an instance if it fits, whatever it may cost."""
        at_us, is_spot = step.at_us or 0, step.market is Market.SPOT
        one = NaiveInstance(
            step.instance_id, is_spot, demand(step), len(self.admitted), at_us + (step.lifetime_us or 0),
            self.cluster.nodes[0],
        )  # fmt: skip
        if is_spot:
            fits = self.cluster.start_spot(one) is not None
        else:
            victims = self.cluster.start_on_demand(one, at_us, self.policy)
            self.evicted += victims or []
            fits = victims is not None
            self.loads.append((at_us, self.used(is_spot=False)))
        if fits:
            self.admitted.append(step.instance_id)
        return fits

    def used(self, *, is_spot: bool) -> int:
        return sum(one.demand[0] for one in self.cluster.instances.values() if one.is_spot is is_spot)

    def admit_all(self, _step: StartRequest, _later: Sequence[Operation]) -> bool:
        return True

    def head_room(self, step: StartRequest, _later: Sequence[Operation]) -> bool:
        """Leave a fifth more than the highest load since a lifetime ago, the load at that moment included."""
        since_us = (step.at_us or 0) - (step.lifetime_us or 0)
        before = [load for at_us, load in self.loads if at_us <= since_us][-1:]
        peak = max([*before, *(load for at_us, load in self.loads if at_us > since_us)])
        capacity = sum(node.capacity[0] for node in self.cluster.nodes)
        return peak * 1.2 <= capacity - self.used(is_spot=True) - demand(step)[0]

    def clairvoyant(self, step: StartRequest, later: Sequence[Operation]) -> bool:
        """Play the future in a copy, with this start and without any other spot start."""
        copy = deepcopy(self)
        if not copy.start(step):
            return False
        for other in later:
            if not isinstance(other, StartRequest) or other.market is Market.ON_DEMAND:
                copy.take(other)
        return copy.evicted == self.evicted


def demand(step: StartRequest) -> tuple[int]:
    """Return the cores of a flavor."""
    return (int(step.flavor.removeprefix("c")),)
