"""The part of a cloud's state that tells what starts and running instances would find and leave now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors
from app.engine.cloud.records import Room
from app.engine.cloud.tally import Tally
from app.engine.cluster import NEVER_US, NO_NODE, Bools, Ints
from app.engine.displacing import displace
from app.engine.outlook import Outlook, look_ahead, slots_left, with_slots
from app.engine.standing import slots_seen, without


class Outlooks:
    """The outlooks of starts and of running spot instances; see engine.outlook."""

    def __init__(self, room: Room, instances: Instances, flavors: Flavors, tally: Tally) -> None:
        self._room, self._instances, self._flavors, self._tally = room, instances, flavors, tally

    def of_start(self, flavor: str, now_us: int, born: int = NEVER_US) -> Outlook:
        """Return what a start of this flavor would find and leave now, or had it been the event `born`."""
        sizes, demand = self._room.sizes, self._flavors.by_name[flavor].demand
        return look_ahead(self._room.cluster, self._were_extended, sizes, demand, *self._loads(), born, now_us)

    def seen_by(self, instance_id: str, now_us: int) -> tuple[int, Outlook]:
        """Return the slots that a running spot instance sees, and its outlook with these slots.

        It is seen like one that starts now at its age. So the slots are the free ones, its own, and those of instances
        that would be evicted before it; of a group, what the other members leave of them. It sees one slot at least,
        its own, also on a closed node.
        """
        running = self._instances.running[instance_id]
        rest, demand = without(self._room.cluster, running.rows), self._flavors.by_name[running.flavor].demand
        found = max(int(slots_seen(rest, demand, running.seq, now_us)), running.count)
        sizes = self._room.sizes
        outlook = look_ahead(rest, self._were_extended, sizes, demand, *self._loads(), running.seq, now_us)
        slots = slots_left(found, running.count)
        return slots, with_slots(outlook._replace(slots=found), slots)

    def now(self, flavors: Iterable[str], now_us: int) -> Callable[[], dict[str, Outlook]]:
        """Return a function that returns the outlooks of starts of these flavors as things are now, on any thread.

        It takes a tenth of a second if flavors, nodes and instances are many.
        """
        cluster, sizes = self._room.copy(), self._room.sizes.copy()
        loads, were_extended = self._loads(), self._were_extended.copy()
        demands = {flavor: self._flavors.by_name[flavor].demand for flavor in flavors}
        return lambda: {
            flavor: look_ahead(cluster, were_extended, sizes, demand, *loads, NEVER_US, now_us)
            for flavor, demand in demands.items()
        }

    def displacing(self, flavors: Iterable[str], now_us: int) -> Callable[[], dict[str, tuple[int, Outlook]]]:
        """Return a function that tells which overrunning instances starts of these flavors evict, on any thread.

        It returns how many, and the outlook once they are gone, of each flavor for which they make room. The flavors
        fit nowhere. A decision evicts the same ones.
        """
        cluster, sizes = self._room.copy(), self._room.sizes.copy()
        loads, were_extended = self._loads(), self._were_extended.copy()
        demands = {flavor: self._flavors.by_name[flavor].demand for flavor in flavors}

        def found() -> dict[str, tuple[int, Outlook]]:
            seen, victims = {}, np.empty(len(cluster.node_of), np.int64)
            for flavor, demand in demands.items():
                node, count = displace(cluster, demand, now_us, victims)
                if node != NO_NODE:
                    rest = without(cluster, victims[:count].tolist())
                    gone = len(np.unique(cluster.born[victims[:count]]))  # members of a group go as one
                    seen[flavor] = gone, look_ahead(rest, were_extended, sizes, demand, *loads, NEVER_US, now_us)
            return seen

        return found

    @property
    def _were_extended(self) -> Bools:
        return self._instances.rows.columns.were_extended

    def _loads(self) -> tuple[Ints, Ints]:
        """Return the on-demand load, and the highest so far, by resource."""
        return np.array(self._instances.on_demand, np.int64), np.array(self._tally.on_demand_peak, np.int64)
