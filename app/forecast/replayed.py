"""The recorded history as flat operations that a replay runs again.

Whole requests are replayed: every on-demand start (a rejected one asks for room again, but for those that could take
certain nodes only, and those of owners who ask for the same already) and every admitted spot start.
A request ends at its stop in the log. If there is none, its end is made up: an evicted spot instance ends at its
declared lifetime (at its eviction if that is later), a rejected on-demand start at its declared lifetime or at once.
A move puts an instance on its recorded node, if a replay has it and room for it
there. An on-demand instance that was observed elsewhere, or with another flavor, ends and starts anew, so it makes room
for itself. A node that becomes too small loses spot instances, the youngest first; if that is not enough, it takes
nothing until there is room again. A group is a start and an end for each of its members, of one start order, by which
the engine knows it.
Made-up ends precede the log's events of the same time, and are in start order among themselves.
An operation depends only on earlier events, so a growing history keeps its operations. An event that was committed
after the history had been read beyond its time (possible on a system clock) takes the time of that reading.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import NamedTuple

import numpy as np

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    NodeResized,
    PolicyChanged,
    QuotaRemoved,
    QuotaSet,
    Recorded,
)
from app.domain.events.kinds import REGISTERED
from app.domain.values import EvictionReason, Market, Resources
from app.engine.cluster import GOES_FIRST_US, NEVER_US, NO_NODE, UNCOUNTED, Cluster, Ints
from app.forecast.opening import opening
from app.forecast.operations import (
    DRILLED,
    END,
    EVICTED,
    EXTENDED,
    MOVED,
    NO_SIZE,
    NODE_ADDED,
    NODE_DRAINED,
    NODE_OPENED,
    NODE_REMOVED,
    NODE_RESIZED,
    REJECTED,
    START_ON_DEMAND,
    START_SPOT,
    VIRTUAL,
    Omitted,
    Operations,
)

_R = len(Resources._fields)
_NOTHING = (0,) * _R
_TYPES = (np.int64, np.int8, np.int32, np.int64, np.int64, np.int32, np.int64, np.int32)
"""The types of the columns of `Operations`."""
_ENDED_US = Operations._fields.index("ended_us")


class _Request(NamedTuple):
    """A recorded instance that has not ended. `position` is the index of its start among the operations.

    The members of a group follow each other; `rows` has one for each. What `goes_first` does so whatever its deadline.
    """

    seq: int
    rows: tuple[int, ...]
    position: int
    deadline_us: int
    goes_first: bool = False


def _is_spot_start(event: Event) -> bool:
    return isinstance(event, InstanceStarted | InstanceRejected) and event.market is Market.SPOT


class History:
    """Folds a cloud's log, in order, into operations. Rows are reused after their request has ended."""

    def __init__(self, *, keeps_omitted: bool = False) -> None:
        """`keeps_omitted`: for `take_omitted`, which must be called now and then."""
        self.begin_us: int | None = None
        self.flavors: dict[str, Ints] = {}
        self.node_count = 0
        self.row_count = VIRTUAL + 1
        self._until_us = 0
        self._waiting: deque[Recorded] = deque()
        self._spot_us: deque[int] = deque()
        self._count = 0
        self._columns = [np.empty(0, kind) for kind in _TYPES]
        self._sizes: dict[tuple[int, ...], int] = {_NOTHING: NO_SIZE}
        self._capacities: dict[str, list[int]] = {}
        self._fresh: list[tuple[int, ...]] = []
        self._ended: list[tuple[int, int]] = []
        self._nodes: dict[str, int] = {}
        self._live: dict[str, _Request] = {}
        self._due: list[tuple[int, int, _Request]] = []
        self._free_rows: list[int] = []
        self._pressing_us: dict[tuple[str, str], int] = {}
        self._omitted: list[tuple[int, ...]] | None = [] if keeps_omitted else None

    def used_resources(self) -> list[int]:
        """Return the resource dimensions that some flavor asks for; the others never decide anything."""
        return [r for r in range(_R) if any(demand[r] > 0 for demand in self.flavors.values())]

    @property
    def taken_us(self) -> int:
        """The time up to which events were taken, or folded if that is later."""
        return max(self._until_us, self._waiting[-1].event.at_us if self._waiting else 0)

    @property
    def next_us(self) -> int | None:
        """The time of the first event that was taken and not folded; None if there is none."""
        return self._waiting[0].event.at_us if self._waiting else None

    @property
    def next_spot_us(self) -> int | None:
        """The time of the first decision on a spot start that was taken and not folded; None if there is none."""
        return self._spot_us[0] if self._spot_us else None

    def extend(self, recorded: Iterable[Recorded]) -> None:
        """Take the log's next events; `operations` folds them when their time has come."""
        self._waiting.extend(taken := [*recorded])
        self._spot_us.extend(item.event.at_us for item in taken if _is_spot_start(item.event))

    def take_omitted(self) -> Omitted:
        """Return what was folded since the last call and is no operation."""
        columns = np.array(self._omitted, np.int64).reshape(-1, len(Omitted._fields)).T.copy()
        self._omitted = []
        return Omitted._make(columns)

    def operations(self, until_us: int) -> Operations:
        """Return everything that happened before `until_us`, which must not be before that of an earlier call."""
        assert until_us >= self._until_us, "a history is read forwards"
        while self._waiting and max(self._waiting[0].event.at_us, self._until_us) < until_us:
            item = self._waiting.popleft()
            event = item.event
            if _is_spot_start(event):
                self._spot_us.popleft()
            if event.at_us < self._until_us:
                event = replace(event, at_us=self._until_us)
            self._end_due(event.at_us)
            _fold_of(type(event))(self, event, item.seq)
        self._end_due(until_us - 1)
        self._until_us = until_us
        self._flush()
        return self._operations()

    def opening(self, at_us: int) -> Cluster:
        """Return the recorded state just before `at_us`: the instances running then, on their recorded nodes."""
        return opening(self._operations(), self.node_count, self.row_count, at_us)

    @singledispatchmethod
    def _fold(self, event: object, seq: int) -> None:
        if REGISTERED[type(event)].decisive:
            raise TypeError(f"no fold for {type(event).__name__} (event {seq})")

    @_fold.register
    def _(self, event: CloudCreated, _seq: int) -> None:
        self.begin_us = event.at_us

    @_fold.register
    def _(self, event: PolicyChanged, _seq: int) -> None:
        """Ignore the change: the replay runs under the policy that its forecaster was given."""

    @_fold.register
    def _(self, event: QuotaSet | QuotaRemoved, _seq: int) -> None:
        """Ignore the change: a replay starts what was admitted."""

    @_fold.register
    def _(self, event: FlavorAdded, _seq: int) -> None:
        self.flavors[event.flavor] = np.array(event.demand, np.int64)

    @_fold.register
    def _(self, event: NodeAdded, _seq: int) -> None:
        self._nodes[event.node] = self.node_count
        self.node_count += 1
        capacity = self._capacities[event.node] = [c or UNCOUNTED for c in event.capacity]
        self._add(event.at_us, NODE_ADDED, self._nodes[event.node], demand=capacity)

    @_fold.register
    def _(self, event: NodeOpened, _seq: int) -> None:
        self._add(event.at_us, NODE_OPENED, self._nodes[event.node])

    @_fold.register
    def _(self, event: NodeDrained, _seq: int) -> None:
        self._add(event.at_us, NODE_DRAINED, self._nodes[event.node])

    @_fold.register
    def _(self, event: NodeRemoved, _seq: int) -> None:
        self._add(event.at_us, NODE_REMOVED, self._nodes[event.node])

    @_fold.register
    def _(self, event: NodeResized, _seq: int) -> None:
        former = self._size(self._capacities[event.node])
        capacity = self._capacities[event.node] = [c or UNCOUNTED for c in event.capacity]
        self._add(event.at_us, NODE_RESIZED, self._nodes[event.node], node=former, demand=capacity)

    @_fold.register
    def _(self, event: InstanceStarted, seq: int) -> None:
        self._live[event.instance_id] = self._start(event, seq, [self._nodes[node] for node in event.places])

    @_fold.register
    def _(self, event: InstanceRejected, seq: int) -> None:
        """Start what was rejected on demand, which presses on; of a spot start note only that there was one.

        A start that could take certain nodes only says nothing of the cloud. Nor does one more of an owner who presses
        with that flavor already: it asks again for the same.
        """
        if event.market is Market.ON_DEMAND and not event.allowed and not self._presses(event):
            self._end_at(event.at_us + (event.lifetime_us or 0), self._start(event, seq, [NO_NODE]), event.at_us)
        elif event.market is Market.SPOT and event.count == 1:  # of a group nothing of its size is put into a world
            size = self._size(self.flavors[event.flavor].tolist())
            self._omit(REJECTED, event.at_us, VIRTUAL, event.lifetime_us or 0, size)

    def _presses(self, event: InstanceRejected) -> bool:
        """Return True if an earlier rejected start of the owner counts at this time; if not, this one does."""
        if event.owner is None:
            return False
        asked = event.owner, event.flavor
        presses = self._pressing_us.get(asked, 0) > event.at_us
        if not presses:
            self._pressing_us[asked] = event.at_us + (event.lifetime_us or 0)
        return presses

    @_fold.register
    def _(self, event: InstanceExtended, _seq: int) -> None:
        request = self._live[event.instance_id]
        self._live[event.instance_id] = request._replace(deadline_us=event.deadline_us)
        for row in () if request.goes_first else request.rows:
            self._add(event.at_us, EXTENDED, row, deadline_us=event.deadline_us)

    @_fold.register
    def _(self, event: InstanceMoved, seq: int) -> None:
        if event.as_flavor is not None:
            self._end(event.at_us, self._leave(event))
            there = [self._nodes[event.node]]
            self._live[event.instance_id] = self._enter(event.at_us, seq, event.as_flavor, None, there)
            return
        (row,) = self._live[event.instance_id].rows
        self._add(event.at_us, MOVED, row, node=self._nodes[event.node])

    @_fold.register
    def _(self, event: InstanceStopped, _seq: int) -> None:
        request = self._leave(event)
        self._end(event.at_us, request)

    @_fold.register
    def _(self, event: InstanceEvicted, _seq: int) -> None:
        request = self._leave(event)
        for row in request.rows:
            self._omit(DRILLED if event.reason is EvictionReason.DRILL else EVICTED, event.at_us, row)
        self._end_at(request.deadline_us, request, event.at_us)

    def _leave(self, event: InstanceStopped | InstanceEvicted | InstanceMoved) -> _Request:
        request = self._live.pop(event.instance_id)
        self._ended += [(request.position + member, event.at_us) for member in range(len(request.rows))]
        return request

    def _start(self, event: InstanceStarted | InstanceRejected, seq: int, nodes: Sequence[int]) -> _Request:
        deadline_us = event.at_us + (event.lifetime_us or 0) if event.market is Market.SPOT else None
        goes_first = isinstance(event, InstanceStarted) and event.goes_first
        return self._enter(event.at_us, seq, event.flavor, deadline_us, nodes, goes_first=goes_first)

    def _enter(
        self,
        at_us: int,
        seq: int,
        flavor: str,
        deadline_us: int | None,
        nodes: Sequence[int],
        *,
        goes_first: bool = False,
    ) -> _Request:
        """Start an instance, a spot one if it has a deadline."""
        rows = tuple(self._take_row() for _ in nodes)
        position = self._count + len(self._fresh)
        until_us = NEVER_US if deadline_us is None else deadline_us
        kind, demand = START_ON_DEMAND if deadline_us is None else START_SPOT, self.flavors[flavor].tolist()
        for row, node in zip(rows, nodes, strict=True):
            self._add(at_us, kind, row, 2 * seq, GOES_FIRST_US if goes_first else until_us, node, demand)
        return _Request(seq, rows, position, until_us, goes_first)

    def _take_row(self) -> int:
        if self._free_rows:
            return self._free_rows.pop()
        self.row_count += 1
        return self.row_count - 1

    def _end_at(self, end_us: int, request: _Request, now_us: int) -> None:
        if end_us <= now_us:
            self._end(now_us, request)
        else:
            heapq.heappush(self._due, (end_us, request.seq, request))

    def _end_due(self, now_us: int) -> None:
        while self._due and self._due[0][0] <= now_us:
            end_us, _, request = heapq.heappop(self._due)
            self._end(end_us, request)

    def _end(self, at_us: int, request: _Request) -> None:
        for row in request.rows:
            self._add(at_us, END, row)
            self._free_rows.append(row)

    def _add(
        self,
        at_us: int,
        kind: int,
        target: int,
        born: int = 0,
        deadline_us: int = NEVER_US,
        node: int = NO_NODE,
        demand: Iterable[int] = _NOTHING,
    ) -> None:
        self._fresh.append((at_us, kind, target, born, deadline_us, node, NEVER_US, self._size(demand)))

    def _size(self, demand: Iterable[int]) -> int:
        return self._sizes.setdefault(tuple(demand), len(self._sizes))

    def _omit(self, kind: int, at_us: int, row: int, lifetime_us: int = 0, size: int = 0) -> None:
        if self._omitted is not None:
            self._omitted.append((self._count + len(self._fresh), kind, at_us, row, lifetime_us, size))

    def _flush(self) -> None:
        """Append the fresh operations to the columns, then note which recorded instances ended."""
        count = self._count + len(self._fresh)
        if count > len(self._columns[0]):
            self._columns = [_longer(column, count + count // 4) for column in self._columns]
        for column, values in zip(self._columns, zip(*self._fresh, strict=True), strict=False):
            column[self._count : count] = values
        self._count = count
        for index, at_us in self._ended:
            self._columns[_ENDED_US][index] = at_us
        self._fresh, self._ended = [], []

    def _operations(self) -> Operations:
        sizes = np.array([*self._sizes], np.int64).reshape(-1, _R)
        return Operations._make([*(column[: self._count] for column in self._columns), sizes])


_FOLDS: dict[type, Callable[[History, object, int], None]] = {}


def _fold_of(kind: type) -> Callable[[History, object, int], None]:
    """Return the fold of a kind of events."""
    if kind not in _FOLDS:
        _FOLDS[kind] = History.__dict__["_fold"].dispatcher.dispatch(kind)
    return _FOLDS[kind]


def _longer(column: np.ndarray, size: int) -> np.ndarray:
    longer = np.empty(size, column.dtype)
    longer[: len(column)] = column
    return longer
