"""Head-room: a rule of thumb that knows of the future only how high the on-demand load has lately been."""

from __future__ import annotations

import numpy as np

from app.domain.events import FlavorAdded, InstanceStarted, InstanceStopped, Recorded
from app.domain.requests import StartRequest
from app.domain.values import Market, Resources
from app.engine.cloud import Cloud
from app.engine.cluster import Ints

PERCENT = 120
"""The room left for on-demand instances, of their highest load."""


class HeadRoom:
    """Remembers the on-demand load. A spot start leaves room for 1.2 times its peak in the last such lifetime."""

    def __init__(self, on_demand_count: int) -> None:
        """`on_demand_count`: the number of on-demand starts to come."""
        self._times_us = np.zeros(2 * on_demand_count + 1, np.int64)
        self._loads = np.zeros((len(self._times_us), len(Resources._fields)), np.int64)
        self._last = 0
        self._flavors: dict[str, Resources] = {}
        self._running: dict[str, Resources] = {}

    def write(self, recorded: Recorded) -> None:
        """Take the log's next event."""
        event = recorded.event
        if isinstance(event, FlavorAdded):
            self._flavors[event.flavor] = event.demand
        elif isinstance(event, InstanceStarted) and event.market is Market.ON_DEMAND:
            demand = self._running[event.instance_id] = self._flavors[event.flavor]
            self._change(event.at_us, np.array(demand))
        elif isinstance(event, InstanceStopped) and event.instance_id in self._running:
            self._change(event.at_us, -np.array(self._running.pop(event.instance_id)))

    def admits(self, cloud: Cloud, request: StartRequest, _node: str) -> bool:
        """Return True if the open nodes hold that room beside all spot instances and this one, in every resource."""
        peak = self.peak((request.at_us or 0) - (request.lifetime_us or 0))
        free = cloud.cluster.free[cloud.cluster.is_open].sum(axis=0)
        room = free + self._loads[self._last] - np.array(cloud.flavors[request.flavor].resources)
        return bool((100 * room >= PERCENT * peak).all())

    def peak(self, since_us: int) -> Ints:
        """Return the highest load (R) since then, by resource."""
        first = int(np.searchsorted(self._times_us[: self._last + 1], since_us, side="right")) - 1
        peak: Ints = self._loads[max(first, 0) : self._last + 1].max(axis=0)
        return peak

    def _change(self, at_us: int, by: Ints) -> None:
        self._last += 1
        self._times_us[self._last] = at_us
        self._loads[self._last] = self._loads[self._last - 1] + by
