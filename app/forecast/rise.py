"""The rise curve G(x, L): how likely the on-demand load grows by more than x within L, by the cloud's own past; and the
heights: how likely its highest load within L lies above a height, whatever it was at the start.

Every bin of ten minutes in the history is a past start. Its *rise* within L is the highest load of the next L less the
load at the start. G is the Kaplan-Meier estimate of the first time at which the rise exceeds x, in doubling intervals:
a start is at risk in an interval if the interval lies wholly in the past, so starts that the present cuts off are
censored and not dropped. Heights are counted alike, with every start at risk in the first interval, also one whose load
is above the height at once. Each resource has its curves. The load contains rejected on-demand starts until their
declared end, as `History` replays them. A peak within a bin counts; the load at a start is that at the beginning of its
bin.
"""

from __future__ import annotations

import json
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.strata import STRATA
from app.domain.times import DAY_US
from app.domain.values import Resources
from app.engine.cluster import UNCOUNTED, Ints
from app.engine.compiled import compiled, inlined, inner
from app.engine.intervals import BIN_US, INTERVAL_COUNT
from app.forecast.operations import END, NODE_ADDED, NODE_OPENED, NODE_RESIZED, START_ON_DEMAND, Operations
from app.forecast.survival import Floats

ROOM_COUNT = 49
"""The number of rooms at which a curve is published: x = capacity (i / 48)^1.5, denser where room is scarce."""
_POWER = 1.5
_EXACT = 128
_RATIO = 1.02
_KEPT = 1 << (INTERVAL_COUNT - 1)
"""The bins of the longest interval. Older bins have been counted in every interval and are forgotten."""
_CHUNK = 1 << 16
"""The bins that are counted at a time, so that a silence of a hundred years takes no memory."""


def _all_edges() -> Ints:
    """Return the rooms that are told apart: every number below 128, then steps of 2 %, up to the uncounted."""
    edges = list(range(_EXACT))
    while edges[-1] < UNCOUNTED:
        edges.append(int(edges[-1] * _RATIO) + 1)
    return np.array(edges, np.int64)


EDGES = _all_edges()
_LAST_BINS = DAY_US // BIN_US
"""The last day, whose demand is the present activity."""
_USUAL_SHARE, _CAPACITY_SHARE = 0.5, 0.02
"""Of a usual day's demand, and of the capacity: they are added, so that a silent day is no proof of safety."""
NO_ACTIVITY = np.zeros(len(Resources._fields))
NO_STARTS = np.zeros((len(STRATA), 3))
NO_EFFECTS = np.zeros(len(STRATA))
NO_SPREADS = np.zeros(len(Resources._fields))
SPREAD_SHARE = 0.2
SPREAD_DAYS = 1
"""Before anything is seen, daily peaks spread by this share of the capacity. It weighs as much as so many days."""
NO_HEIGHTS = np.zeros((len(Resources._fields), 0, INTERVAL_COUNT))
_DAY_BINS = DAY_US // BIN_US


class Rises(NamedTuple):
    """The published curves of an epoch.

    rooms (R, ROOM_COUNT): rising rooms, the last one repeated as padding; counts (R): how many of them there are, 0 for
    a resource that the cloud does not count; shares (R, ROOM_COUNT, INTERVAL_COUNT): G, which falls along the rooms and
    rises along the intervals; seen_us: the length of the history; level: what past starts taught (`level`), 0 before;
    starts (strata, 3): on how many it rests, how many of those were evicted, and windows; effects (strata): how many
    windows are worth one in a bound (`design`), 0 in tables from before there were any; spreads (R): the deviation of
    the daily peaks of the load, 0 in tables from before there were any; activity (R): by how much more on-demand room
    was asked for in the last day than on a usual one, as a logarithm; 0 is usual, as in tables from before it; heights
    (R, ROOM_COUNT, INTERVAL_COUNT): the share of past starts whose highest load within the interval's end lay above
    this room, taken as a height; without rooms, (R, 0, INTERVAL_COUNT), in tables from before there were any.
    """

    rooms: Ints
    counts: Ints
    shares: Floats
    seen_us: int
    level: float = 0.0
    starts: Floats = NO_STARTS
    effects: Floats = NO_EFFECTS
    spreads: Floats = NO_SPREADS
    activity: Floats = NO_ACTIVITY
    heights: Floats = NO_HEIGHTS

    def to_bytes(self) -> bytes:
        """Return the curves for storage: a line of counts and of all that is newer than they, then rooms and shares.

        A program that does not know a name in the line reads over it.
        """
        learned = {"level": self.level, "starts": self.starts.tolist(), "effects": self.effects.tolist()}
        learned["spreads"] = self.spreads.tolist()
        learned["activity"] = self.activity.tolist()
        if self.heights.shape[1]:
            learned["heights"] = self.heights.tolist()
        line = json.dumps({"counts": self.counts.tolist(), "seen_us": self.seen_us, **learned}).encode() + b"\n"
        return line + self.rooms.astype("<i8").tobytes() + self.shares.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[Rises, bytes]:
        """Return the curves that `to_bytes` wrote, and what follows them."""
        line, rest = data.split(b"\n", 1)
        written = json.loads(line)
        counts = np.array(written["counts"], np.int64)
        room_count = len(counts) * ROOM_COUNT
        rooms = np.frombuffer(rest, "<i8", room_count).astype(np.int64).reshape(-1, ROOM_COUNT)
        rest = rest[rooms.nbytes :]
        shares = np.frombuffer(rest, "<f8", room_count * INTERVAL_COUNT).astype(np.float64)
        rest = rest[shares.nbytes :]
        shares = shares.reshape(-1, ROOM_COUNT, INTERVAL_COUNT)
        level, starts = written.get("level", 0.0), np.array(written.get("starts", NO_STARTS), np.float64)
        effects = np.array(written.get("effects", NO_EFFECTS), np.float64)
        spreads = np.array(written.get("spreads", NO_SPREADS), np.float64)
        activity = np.array(written.get("activity", NO_ACTIVITY), np.float64)
        heights = np.array(written.get("heights", NO_HEIGHTS), np.float64)
        found = cls(rooms, counts, shares, written["seen_us"], level, starts, effects, spreads, activity, heights)
        return found, rest


class _Passages(NamedTuple):
    """Past starts (R, INTERVAL_COUNT, edges), by steps along the edges.

    at_risk: of how many the load had not passed an edge before an interval; passed: of how many of them it did in it.
    """

    at_risk: Ints
    passed: Ints

    @classmethod
    def none(cls, resource_count: int) -> _Passages:
        """Return the counts before anything is seen."""
        return cls(*np.zeros((2, resource_count, INTERVAL_COUNT, len(EDGES)), np.int64))

    def shares(self, r: int, at: Ints) -> Floats:
        """Return the share that passed of a resource, at some of the edges; it never rises along them."""
        at_risk, passed = np.cumsum(self.at_risk[r], axis=1), np.cumsum(self.passed[r], axis=1)
        hazard = passed[:, at] / np.maximum(at_risk[:, at], 1)
        return np.minimum.accumulate(1.0 - np.cumprod(1.0 - hazard, axis=0).T, axis=0)


class _Reading(NamedTuple):
    """The on-demand load while the history is read.

    now, opened, highest (R): the load, that at the beginning of the present bin, and the highest since; asked (R): what
    all starts so far asked for; capacity (R): that of the open nodes; size_of (S): index of a row's demand, or -1 if no
    on-demand request is there; node_size, is_open (N): likewise of nodes.
    """

    now: Ints
    opened: Ints
    highest: Ints
    asked: Ints
    capacity: Ints
    size_of: Ints
    node_size: Ints
    is_open: NDArray[np.bool_]


class RiseHistory:
    """Reads a growing history and counts rises. Its memory does not grow with the history, its time does linearly."""

    def __init__(self, begin_us: int, resource_count: int) -> None:
        """`begin_us`: the beginning of the log, and of the first bin."""
        self._begin_us, self._until_us, self._end_us = begin_us, begin_us, begin_us
        self._done = 0
        none, closed = np.empty(0, np.int64), np.empty(0, np.bool_)
        now, opened, highest, asked, capacity = np.zeros((5, resource_count), np.int64)
        self._load = _Reading(now, opened, highest, asked, capacity, none, none, closed)
        self._levels, self._peaks = np.empty((2, 0, resource_count), np.int64)
        self._asked = np.zeros((1, resource_count), np.int64)
        self._risen, self._reached = _Passages.none(resource_count), _Passages.none(resource_count)

    def extend(self, operations: Operations, node_count: int, row_count: int, until_us: int) -> None:
        """Read the operations that are new, and count the bins that end by `until_us`.

        `operations`: all of the history before `until_us`, in all resources; those read before are skipped.
        """
        load = self._load
        self._load = load._replace(
            size_of=_longer(load.size_of, row_count, -1),
            node_size=_longer(load.node_size, node_count, -1),
            is_open=_longer(load.is_open, node_count, 0),
        )
        while self._end_us + BIN_US <= until_us:
            self._read_bins(operations, min((until_us - self._end_us) // BIN_US, _CHUNK))
        self._done = _read_load(self._load, operations, self._done, until_us)
        self._until_us = until_us

    def publish(self) -> Rises:
        """Return the curves as of the last bin read, for rooms up to the present capacity."""
        rooms = [_rooms_up_to(int(capacity)) for capacity in self._load.capacity]
        counts = np.array([len(some) for some in rooms], np.int64)
        padded = np.zeros((len(rooms), ROOM_COUNT), np.int64)
        shares, heights = np.zeros((2, len(rooms), ROOM_COUNT, INTERVAL_COUNT))
        for r in np.flatnonzero(counts).tolist():
            padded[r] = np.pad(rooms[r], (0, ROOM_COUNT - len(rooms[r])), "edge")
            at = np.searchsorted(EDGES, padded[r])
            shares[r], heights[r] = self._risen.shares(r, at), self._reached.shares(r, at)
        rises = Rises(padded, counts, shares, self._until_us - self._begin_us)
        return rises._replace(spreads=self._spreads(), activity=self._activity(counts), heights=heights)

    def _activity(self, counts: Ints) -> Floats:
        """Return the activity of each resource; 0 for one that is not counted, and of which nothing was asked."""
        seen_us, last_us = self._until_us - self._begin_us, self._until_us - self._end_us
        last_us += (len(self._asked) - 1) * BIN_US
        found = np.zeros(len(counts))
        for r in np.flatnonzero((counts > 0) & (self._load.asked > 0)).tolist():
            asked, capacity = int(self._load.asked[r]), _CAPACITY_SHARE * int(self._load.capacity[r])
            usual, last = asked / seen_us * DAY_US, (asked - int(self._asked[0, r])) / last_us * DAY_US
            found[r] = log((last + _USUAL_SHARE * usual + capacity) / ((1 + _USUAL_SHARE) * usual + capacity))
        return found

    def _read_bins(self, operations: Operations, count: int) -> None:
        """Close the next `count` bins, and count what became known by them."""
        known, more = len(self._peaks), np.empty((count, self._peaks.shape[1]), np.int64)
        levels, peaks = np.concatenate([self._levels, more]), np.concatenate([self._peaks, more])
        asked = np.empty_like(more)
        self._done = _fill_bins(self._load, operations, self._done, self._end_us, levels, peaks, asked, known)
        _count_passages(levels, peaks, known, EDGES, self._risen, self._reached)
        self._end_us += count * BIN_US
        self._levels, self._peaks = levels[-_KEPT:].copy(), peaks[-_KEPT:].copy()
        self._asked = np.concatenate([self._asked, asked])[-_LAST_BINS - 1 :].copy()

    def _spreads(self) -> Floats:
        """Return the deviation of the peaks (R) of the last days (57 at most), counted back from the last bin."""
        days, resources = len(self._peaks) // _DAY_BINS, self._peaks.shape[1]
        if not days:
            return np.asarray(SPREAD_SHARE * self._load.capacity, np.float64)
        last = self._peaks[len(self._peaks) - days * _DAY_BINS :].reshape(days, _DAY_BINS, resources)
        seen = days * last.max(axis=1).var(axis=0)
        expected = SPREAD_DAYS * (SPREAD_SHARE * self._load.capacity) ** 2
        return np.asarray(np.sqrt((seen + expected) / (days + SPREAD_DAYS)))


def _rooms_up_to(capacity: int) -> Ints:
    """Return the published rooms, each rounded down to an edge; none if the capacity is not counted."""
    if capacity >= UNCOUNTED:
        return EDGES[:0]
    wanted = capacity * (np.arange(ROOM_COUNT) / (ROOM_COUNT - 1)) ** _POWER
    return EDGES[np.unique(np.searchsorted(EDGES, wanted, side="right") - 1)]


def _longer(column: np.ndarray, size: int, fill: int) -> np.ndarray:
    return np.concatenate([column, np.full(max(size - len(column), 0), fill, column.dtype)])


@compiled
def _fill_bins(
    load: _Reading,
    operations: Operations,
    done: int,
    begin_us: int,
    levels: Ints,
    peaks: Ints,
    asked: Ints,
    known: int,
) -> int:
    """Write the levels and peaks (B, R) from bin `known` on, which begins at `begin_us`; return the operations read.

    asked (new B, R): what all starts up to the end of each new bin asked for.
    """
    for at in range(known, levels.shape[0]):
        done = _read_load(load, operations, done, begin_us + (at + 1 - known) * BIN_US)
        for r in range(load.now.shape[0]):
            levels[at, r], peaks[at, r] = load.opened[r], load.highest[r]
            asked[at - known, r] = load.asked[r]
            load.opened[r] = load.highest[r] = load.now[r]
    return done


@compiled
def _read_load(load: _Reading, operations: Operations, done: int, until_us: int) -> int:
    """Read the operations before `until_us`; return how many are read in all."""
    count = operations.at_us.shape[0]
    while done < count and operations.at_us[done] < until_us:
        kind, target, size = operations.kind[done], operations.target[done], operations.size[done]
        if kind == START_ON_DEMAND:
            load.size_of[target] = size
            load.asked[:] += operations.sizes[size]
            _change_load(load, operations.sizes[size], 1)
        elif kind == END:
            if load.size_of[target] >= 0:
                _change_load(load, operations.sizes[load.size_of[target]], -1)
            load.size_of[target] = -1
        elif kind == NODE_RESIZED:
            if load.is_open[target]:
                load.capacity[:] += operations.sizes[size] - operations.sizes[load.node_size[target]]
            load.node_size[target] = size
        elif kind >= NODE_ADDED:
            if kind == NODE_ADDED:
                load.node_size[target] = size
            _open_node(load, operations.sizes[load.node_size[target]], target, kind in (NODE_ADDED, NODE_OPENED))
        done += 1
    return done


@inner
def _change_load(load: _Reading, demand: Ints, sign: int) -> None:
    for r in range(load.now.shape[0]):
        load.now[r] += sign * demand[r]
        load.highest[r] = max(load.highest[r], load.now[r])


@inner
def _open_node(load: _Reading, capacity: Ints, node: int, is_open: bool) -> None:  # noqa: FBT001 - compiled
    change = int(is_open) - int(load.is_open[node])
    load.is_open[node] = is_open
    for r in range(load.capacity.shape[0]):
        load.capacity[r] += change * capacity[r]


@compiled
def _count_passages(levels: Ints, peaks: Ints, known: int, edges: Ints, risen: _Passages, reached: _Passages) -> None:
    """Count every start and interval that ends after bin `known`, by rises and by heights.

    Levels and peaks (B, R). By heights every start is at risk in the first interval.
    """
    count = levels.shape[0]
    for r in range(levels.shape[1]):
        highest = peaks[:, r].copy()
        for k in range(risen.at_risk.shape[1]):
            span = 1 << k
            for at in range(count - span + 1):
                before, level = levels[at, r] if k == 0 else highest[at], levels[at, r]
                if k > 0:
                    highest[at] = max(highest[at], highest[at + span // 2])
                if at + span > known:
                    _count_passage(risen, r, k, edges, before - level, highest[at] - level)
                    _count_passage(reached, r, k, edges, before if k > 0 else 0, highest[at])


@inlined
def _count_passage(counts: _Passages, r: int, k: int, edges: Ints, before: int, within: int) -> None:
    """Count a start at risk from the first edge on that held `before`; it passes up to that which holds `within`."""
    held = np.searchsorted(edges, before)
    counts.at_risk[r, k, held] += 1
    if within > before:
        counts.passed[r, k, held] += 1
        counts.passed[r, k, np.searchsorted(edges, within)] -= 1
