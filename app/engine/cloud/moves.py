"""The part of a cloud's state that lets running instances have their room on other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.domain.events import InstanceMoved
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, Nodes
from app.engine.cloud.records import Facts, Fold, Room, Running, Undo
from app.engine.cluster import fits, place, release


class Moves:
    """Moves running instances, which are no groups. Their rows stay, so age and rank do too."""

    def __init__(self, room: Room, instances: Instances, nodes: Nodes, flavors: Flavors) -> None:
        self._room, self._instances, self._nodes, self._flavors = room, instances, nodes, flavors

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {InstanceMoved: self._move}

    def facts(self) -> Mapping[str, Any]:
        """Return nothing: the instances tell where they run."""
        return {}

    def restore(self, facts: Facts) -> None:
        """Load nothing."""

    def fits_on(self, flavor: str, node: str) -> bool:
        """Return True if a node has room for an instance of this flavor, open or not."""
        free = self._room.cluster.free[self._nodes.by_name[node].index]
        return bool(fits(free, self._flavors.by_name[flavor].demand))

    def _move(self, event: InstanceMoved) -> Undo:
        old = self._instances.running[event.instance_id]
        self._put(replace(old, node=self._nodes.by_name[event.node].name))
        return lambda: self._put(old)

    def _put(self, running: Running) -> None:
        self._instances.running[running.instance_id] = running
        release(self._room.cluster, running.row)
        place(self._room.cluster, running.row, self._nodes.by_name[running.node].index)
