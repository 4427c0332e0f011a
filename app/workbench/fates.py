"""Follows every quoted spot start of an evaluation to its end, admitted or not.

An admitted start has its own fate. A rejected one is followed as a virtual instance in a replay of the log: it takes
room at its moment, is the youngest there, and evicts nobody. Of two starts at the same moment the virtual one comes
last. So each is a case with a known end: evicted within its declared lifetime, or not. A virtual instance that is alive
at the log's end survived, because the workload holds no more on-demand starts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from app.admission.quote import Quotes
from app.domain.events import InstanceEvicted, InstanceStarted, Recorded
from app.domain.requests import StartRequest
from app.domain.values import Forecast, Policy
from app.engine.cloud import Cloud
from app.forecast.replay import Replay
from app.forecast.replayed import History
from app.forecast.table import QuantileTable

_ENDLESS_US = 1 << 50


class Said(NamedTuple):
    """An estimate and its upper bound; None if nothing is known."""

    probability: float
    bound: float | None


class Quoted(NamedTuple):
    """A spot start that fitted and that a table said something of."""

    instance_id: str
    at_us: int
    flavor: str
    lifetime_us: int
    epoch: int
    said: Mapping[Forecast, Said]


class Case(NamedTuple):
    """A quoted start with its end: the time from its start to its eviction within its declared lifetime, or None."""

    quoted: Quoted
    evicted_after_us: int | None


class Fates:
    """Notes quotes and the log while an evaluation runs, and finds the ends afterwards."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._quoted: list[Quoted] = []
        self._log: list[Recorded] = []

    def write(self, recorded: Recorded) -> None:
        """Take the log's next event."""
        self._log.append(recorded)

    def quote(self, cloud: Cloud, request: StartRequest, at_us: int, table: QuantileTable) -> None:
        """Note all that the table says of a spot start, just before it is decided; nothing if it does not fit."""
        slots, lifetime_us = cloud.available_slots(request.flavor), request.lifetime_us or 0
        if not slots:
            return
        foreseen, said = table.seen_from({request.flavor: cloud.outlook(request.flavor, at_us)}), {}
        known: dict[Forecast, Quotes] = {Forecast.REPLAY: table, Forecast.CALIBRATED: foreseen}
        for forecast, quotes in known.items():
            probability = quotes.probability(request.flavor, slots, lifetime_us)
            if probability is not None:
                bound = quotes.bound(request.flavor, slots, lifetime_us, self._policy.confidence)
                said[forecast] = Said(probability, bound)
        if said:
            quoted = Quoted(request.instance_id, at_us, request.flavor, lifetime_us, table.epoch, said)
            self._quoted.append(quoted)

    def cases(self) -> list[Case]:
        """Return all cases in the order of their starts. The log must be complete."""
        ends = {item.event.instance_id: item.event for item in self._log if isinstance(item.event, InstanceEvicted)}
        admitted = {item.event.instance_id for item in self._log if isinstance(item.event, InstanceStarted)}
        virtual = self._follow_virtual([one for one in self._quoted if one.instance_id not in admitted])
        found = []
        for one in self._quoted:
            if one.instance_id in admitted:
                end = ends.get(one.instance_id)
                evicted_us = None if end is None else end.at_us - one.at_us
            else:
                evicted_us = virtual.get((one.flavor, one.at_us))
            within = evicted_us is not None and evicted_us <= one.lifetime_us
            found.append(Case(one, evicted_us if within else None))
        return found

    def _follow_virtual(self, rejected: Iterable[Quoted]) -> dict[tuple[str, int], int]:
        """Return the time until eviction of each flavor's virtual instances that are ever evicted, by their start."""
        by_flavor: dict[str, set[int]] = defaultdict(set)
        for one in rejected:
            by_flavor[one.flavor].add(one.at_us)
        history = History()
        history.extend(self._log)
        found = {}
        for flavor, times in by_flavor.items():
            for at_us, evicted_us in self._evictions(history, flavor, np.array(sorted(times), np.int64)):
                found[flavor, at_us] = evicted_us
        return found

    def _evictions(self, history: History, flavor: str, times_us: np.ndarray) -> Sequence[tuple[int, int]]:
        until_us, begin_us = self._log[-1].event.at_us + 1, history.begin_us or 0
        operations, used = history.operations(until_us), history.used_resources()
        operations = operations.counting_only(used)
        opening = history.opening(begin_us)
        opening = opening._replace(free=opening.free[:, used], demand=opening.demand[:, used])
        endless = replace(self._policy, horizon_us=_ENDLESS_US)
        replay = Replay(opening, begin_us, history.flavors[flavor][used], endless)
        gaps = np.searchsorted(operations.at_us, times_us, side="right")
        replay.advance(operations, history.node_count, history.row_count, gaps)
        samples = replay.samples(operations.at_us, until_us, times_us)
        evicted = samples.was_evicted
        return list(zip(samples.started_us[evicted].tolist(), samples.lasted_us[evicted].tolist(), strict=True))
