"""The worker's job that keeps the history of utilisation: it folds every log into it, batch by batch.

A batch's buckets, levels and place in the log are one transaction, and one worker at a time writes it. So every event
is counted once, wherever a worker was killed. Reading goes on from that place: a longer log makes no batch dearer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.domain.errors import LogUnavailable
from app.domain.events import (
    CloudCreated,
    Event,
    InstanceEvicted,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeRemoved,
    NodeResized,
    Recorded,
)
from app.domain.times import SECOND_US
from app.domain.values import EvictionReason, Market
from app.platform.database.database import is_taken_back
from app.platform.each import for_each_cloud
from app.scheduling.rules.instances import decision_in, moved
from app.scheduling.store.moves import newest_moves
from app.utilisation.rules import KEPT, NODE_KEPT, NODE_WIDTHS_S, WIDTHS_S
from app.utilisation.store import WHOLE, BucketKey, Level, RollupProgress, RollupTurn, Row, UtilisationRows

logger = logging.getLogger(__name__)

_READ_EVENTS = 5_000
_MORE_EVENTS = 100
"""So many more are read after a whole turn, until it is `_READ_EVENTS` again."""
_LATER = (InstanceStopped, InstanceEvicted, InstanceMoved)
_PRUNED_EVERY = 100
"""Buckets of a width that pass between two prunings."""


class Rollup:
    """Folds the logs of all clouds into the history. Raises LogUnavailable.

    The database ends a turn that takes a busy machine too long. The next turn is for half as many events, and goes on
    from where the last one that was kept had come to.
    """

    def __init__(self, rows: UtilisationRows, read_events: int = _READ_EVENTS) -> None:
        self._rows = rows
        self._most_events = read_events
        self._read_events = read_events
        self._is_busy = False

    async def catch_up(self) -> int:
        """Fold the new events of all logs; return how many there were. Return 0 if another call is at it."""
        if self._is_busy:
            return 0
        self._is_busy = True
        try:
            return await for_each_cloud(await self._rows.behind(), self.catch_up_cloud)
        finally:
            self._is_busy = False

    async def catch_up_cloud(self, cloud_id: int) -> int:
        """Fold the new events of one log, unless another worker is at it."""
        count, is_behind = 0, True
        while is_behind:
            wanted = self._read_events
            try:
                folded, is_behind = await self._fold_next(cloud_id, wanted)
            except LogUnavailable as error:
                self._read_events = max(wanted // 2, 1)
                if wanted == 1 or not is_taken_back(error):
                    raise
                told = {"cloud_id": cloud_id, "event_count": wanted, "next_count": self._read_events}
                logger.warning("folding so many events took too long: the next turn is shorter (%s)", error, extra=told)
                continue
            count += folded
            if folded == wanted:
                self._read_events = min(wanted + _MORE_EVENTS, self._most_events)
        return count

    async def _fold_next(self, cloud_id: int, most: int) -> tuple[int, bool]:
        """Fold the next events, at most so many; return how many, and True if there may be more."""
        async with self._rows.turn(cloud_id) as turn:
            if turn is None:
                return 0, False
            tail = await turn.log.tail(cloud_id, turn.progress.seq, most)
            if not tail:
                if turn.progress.seq > await turn.log.last_seq(cloud_id):
                    logger.warning("the history of a log that was put back is begun anew", extra={"cloud_id": cloud_id})
                    await turn.begin_anew()
                return 0, False
            fold = await self._open_fold(cloud_id, turn, tail)
            for item in tail:
                fold.apply(item.event)
            at_us = tail[-1].event.at_us
            await turn.add(fold.rows, fold.levels, RollupProgress(tail[-1].seq, at_us, fold.begin_us))
            await _prune(turn, [*fold.levels], turn.progress.at_us, at_us)
            return len(tail), tail.is_cut or len(tail) == most

    async def _open_fold(self, cloud_id: int, turn: RollupTurn, tail: Sequence[Recorded]) -> BucketFold:
        """Return a fold that knows the starts, flavors and nodes that the next events concern."""
        events = [item.event for item in tail]
        later = [event.instance_id for event in events if isinstance(event, _LATER)]
        earlier = await turn.log.starts(cloud_id, later) if later else {}
        there = await newest_moves(turn.log, cloud_id, later, tail[0].seq) if later else {}
        starts = {name: moved(decision_in(recorded), there.get(name)) for name, recorded in earlier.items()}
        placed = [start for start in (*starts.values(), *events) if isinstance(start, InstanceStarted)]
        moves = [event for event in events if isinstance(event, InstanceMoved)]
        named = {start.flavor for start in placed} | {one.as_flavor for one in moves if one.as_flavor is not None}
        flavors = await turn.log.flavors(cloud_id, sorted(named))
        nodes = {node for start in placed for node in start.places} | {node for one in moves for node in _of(one)}
        nodes |= {event.node for event in events if isinstance(event, NodeAdded | NodeRemoved | NodeResized)}
        fold = BucketFold(
            {name: resources.cores for name, resources in flavors.items()},
            await turn.levels([WHOLE, *sorted(nodes)]),
            turn.progress.begin_us,
        )
        fold.running.update({name: start for name, start in starts.items() if isinstance(start, InstanceStarted)})
        return fold


class BucketFold:
    """Sums events up into buckets, to be added to the stored ones, and into the levels after them.

    `cores` is by flavor. `levels` is by node, as before the first event. `running` must hold every start whose end is
    applied.
    """

    def __init__(self, cores: dict[str, int], levels: dict[str, Level], begin_us: int) -> None:
        self.begin_us = begin_us
        self.levels = levels
        self.rows: dict[BucketKey, Row] = {}
        self.running: dict[str, InstanceStarted] = {}
        self._cores = cores

    def apply(self, event: Event) -> None:
        """Fold the next event. Events that change no cores and decide nothing leave no trace."""
        match event:
            case CloudCreated():
                self.begin_us = event.at_us
                self.levels[WHOLE] = Level(0, 0, 0, event.at_us)
            case NodeAdded(node=node, capacity=capacity):
                self._move(event.at_us, node, total=capacity.cores)
            case NodeResized(node=node, capacity=capacity):
                self._move(event.at_us, node, total=capacity.cores - self.levels[node].total)
            case NodeRemoved(node=node):
                self._move(event.at_us, node, total=-self.levels[node].total)
            case InstanceStarted():
                self.running[event.instance_id] = event
                self._change(event, event.at_us, 1, f"{event.market.value}_admitted")
            case InstanceStopped() | InstanceEvicted():
                counted = "evicted" if _is_eviction(event) else None
                self._change(self.running.pop(event.instance_id), event.at_us, -1, counted)
            case InstanceMoved():
                self._resettle(self.running[event.instance_id], event)
            case InstanceRejected(market=market):
                self._touch(event.at_us, [WHOLE], f"{market.value}_rejected")
            case _:
                pass

    def _resettle(self, start: InstanceStarted, event: InstanceMoved) -> None:
        """Let an instance use another node. The cloud's highest level stays as it is, because it leaves first."""
        self._change(start, event.at_us, -1, None)
        self.running[event.instance_id] = replace(start, node=event.node, flavor=event.as_flavor or start.flavor)
        self._change(self.running[event.instance_id], event.at_us, 1, None)

    def _change(self, start: InstanceStarted, at_us: int, sign: int, counted: str | None) -> None:
        """Change the levels by an instance. A group uses the nodes of all members, and is counted on the first."""
        for node, count in Counter(start.places).items():
            cores = sign * count * self._cores[start.flavor]
            on_demand, spot = (cores, 0) if start.market is Market.ON_DEMAND else (0, cores)
            self._move(at_us, node, on_demand=on_demand, spot=spot, counted=counted if node == start.node else None)

    def _move(
        self, at_us: int, node: str, *, on_demand: int = 0, spot: int = 0, total: int = 0, counted: str | None = None
    ) -> None:
        """Change the levels of the node and of the cloud."""
        self.levels.setdefault(node, Level(0, 0, 0, at_us))
        for name in (WHOLE, node):
            level = self.levels[name]
            moved = Level(level.on_demand + on_demand, level.spot + spot, level.total + total, level.last_us)
            self._touch(at_us, [name], counted, moved)

    def _touch(self, at_us: int, names: Iterable[str], counted: str | None, moved: Level | None = None) -> None:
        """Record an event in its buckets: the area up to it, the count of its kind, and the level after it."""
        for name in names:
            old = self.levels[name]
            new = replace(moved or old, last_us=at_us)
            for width_s in WIDTHS_S if name == WHOLE else NODE_WIDTHS_S:
                row = self._row(BucketKey(name, width_s, at_us // (width_s * SECOND_US)), old, at_us)
                if counted is not None:
                    setattr(row, counted, getattr(row, counted) + 1)
                row.on_demand_end, row.spot_end, row.total_end = new.on_demand, new.spot, new.total
                _raise_peaks(row, new)
            self.levels[name] = new

    def _row(self, key: BucketKey, old: Level, at_us: int) -> Row:
        """Return the bucket's row, with its areas filled up to `at_us` at the level that stood until then."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row(at_us)
        length_us = at_us - max(old.last_us, key.bucket * key.width_s * SECOND_US)
        if length_us > 0:
            row.on_demand_area += length_us * old.on_demand
            row.spot_area += length_us * old.spot
            row.total_area += length_us * old.total
            _raise_peaks(row, old)
        row.last_us = at_us
        return row


def _of(event: InstanceMoved) -> tuple[str, str]:
    return event.former_node, event.node


def _is_eviction(event: InstanceStopped | InstanceEvicted) -> bool:
    """True if the event is an eviction that made room. Drills are not counted."""
    return isinstance(event, InstanceEvicted) and event.reason is not EvictionReason.DRILL


def _raise_peaks(row: Row, level: Level) -> None:
    row.on_demand_peak = max(row.on_demand_peak, level.on_demand)
    row.spot_peak = max(row.spot_peak, level.spot)
    row.used_peak = max(row.used_peak, level.on_demand + level.spot)


async def _prune(turn: RollupTurn, names: list[str], before_us: int, at_us: int) -> None:
    """Delete old fine buckets whenever a good number of new ones has come."""
    nodes = [name for name in names if name != WHOLE]
    for widths, kept, pruned in ((WIDTHS_S, KEPT, [WHOLE]), (NODE_WIDTHS_S, NODE_KEPT, nodes)):
        for width_s in widths:
            step_us = width_s * SECOND_US
            if before_us // (step_us * _PRUNED_EVERY) != at_us // (step_us * _PRUNED_EVERY):
                await turn.prune(pruned, width_s, at_us // step_us - kept)
