"""The rows of the compiled form: which instance has which, and what is kept of it in columns beside the cluster's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.strata import BOUNDARIES_US, stratum_index
from app.domain.values import Market, Resources
from app.engine.books import CORE_HOUR_PARTS, PARTS, Bearers, borne, core_hours_of
from app.engine.cloud.nodes import Flavors
from app.engine.cloud.records import FIRST_ROWS, NOBODY, Room, Running
from app.engine.cluster import NO_NODE, Bools, Cluster, Ints, empty_cluster
from app.engine.owners import OwnerNumbers, borne_by, overrunning_of

MOST_UNWRITTEN = 256
"""The number of rows that may wait to be written together."""
FEW = 4
"""So few rows are written one by one, because that is quicker."""


class Columns(NamedTuple):
    """Columns beside the rows (S) of a cluster. An empty row has zeros.

    promises: the probabilities promised, 0 for none; rates: the risk recorded at the start, for each microsecond of the
    declared lifetime, 0 in the rows of instances that stand in no book; book_lifetimes_us: that lifetime; strata: the
    position of its stratum; started_us; owners and flavors: numbers that stand for a name in this process alone. All
    but promises, owners, core_hours and were_extended stand in the first row of a group alone. are_first: True for the
    first row of an instance; count_there: True for one row of each of its nodes; core_hours: those that it declares
    with all members; were_extended: True for instances that run for longer than they first declared.
    """

    promises: NDArray[np.float64]
    rates: NDArray[np.float64]
    book_lifetimes_us: Ints
    strata: NDArray[np.int8]
    started_us: Ints
    owners: OwnerNumbers
    flavors: NDArray[np.int16]
    are_first: Bools
    count_there: Bools
    core_hours: NDArray[np.float64]
    were_extended: Bools


_TYPES = (
    *(np.float64, np.float64, np.int64, np.int8, np.int64),
    *(np.int32, np.int16, np.bool_, np.bool_, np.float64, np.bool_),
)
_Values = tuple[float, float, int, int, int, int, int, bool, bool, float, bool]
_EMPTY: _Values = 0.0, 0.0, 0, 0, 0, 0, 0, False, False, 0.0, False
_ON_DEMAND: _Values = 0.0, 0.0, 0, 0, 0, 0, 0, True, True, 0.0, False


class InstanceRows:
    """The ids of the running instances by row, the free rows, and the columns.

    Spot instances take rows from below and on-demand ones from above, so that a pass over the rows meets one market
    after the other: it reads little of the on-demand ones. A row is taken again by an instance of the same market.
    Columns are written behind, many rows at once, before somebody reads them. `at_risk` holds the ids of those at risk.
    """

    def __init__(self, room: Room, at_risk: set[str], flavors: Flavors) -> None:
        self._room, self._at_risk, self._known = room, at_risk, flavors
        self._names: list[str | None] = [None] * FIRST_ROWS
        self._free: dict[Market, list[int]] = {market: [] for market in Market}
        self._untaken = range(FIRST_ROWS)
        self._columns = _empty_columns(FIRST_ROWS)
        self._unwritten: dict[int, _Values] = {}
        self._boundaries_us: tuple[int, ...] = BOUNDARIES_US
        self._owners = {NOBODY: 0}
        self._flavors: dict[str, int] = {}
        self.are_at_risk: Bools = np.zeros(FIRST_ROWS, np.bool_)

    @property
    def taken(self) -> int:
        """The number of rows in use."""
        return len(self._names) - len(self._untaken) - sum(map(len, self._free.values()))

    @property
    def columns(self) -> Columns:
        """The columns, up to date until the next row changes."""
        self._write()
        return self._columns

    @property
    def flavors(self) -> list[str]:
        """The flavors by their numbers."""
        return [*self._flavors]

    def at(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the ids of the instances in these rows, each once."""
        return tuple(dict.fromkeys(name for row in rows if (name := self._names[row]) is not None))

    def ids(self) -> list[str | None]:
        """Return the id of the instance in each row (S), None in free ones, as they are now."""
        return [*self._names]

    def take(self, market: Market) -> int:
        """Return a free row for an instance of this market: the one that was freed last. It is in use from now on."""
        if self._free[market]:
            return self._free[market].pop()
        if not self._untaken:
            self._grow()
        if market is Market.SPOT:
            row, self._untaken = self._untaken[0], self._untaken[1:]
        else:
            row, self._untaken = self._untaken[-1], self._untaken[:-1]
        return row

    def enter(self, running: Running) -> None:
        """Enter an instance in its rows."""
        if running.market is Market.ON_DEMAND and not running.nodes:
            self._put(running.row, running.instance_id, _ON_DEMAND)
        else:
            self._enter_more(running)
        if running.instance_id in self._at_risk:
            self.are_at_risk[running.row] = True

    def leave(self, running: Running) -> None:
        """Empty the rows of an instance; the first is the next that is taken."""
        if running.instance_id in self._at_risk:
            self.are_at_risk[running.row] = False
        for row in reversed(running.rows):
            self._put(row, None, _EMPTY)
            self._free[running.market].append(row)

    def borne(
        self,
        asked: NDArray[np.float64],
        boundaries_us: tuple[int, ...],
        now_us: int,
        *,
        by_core_hours: bool,
    ) -> tuple[Ints, Ints, Ints]:
        """Return what engine.books computes for the books asked for, by their promises."""
        bearers, cluster, count = self._bearers(boundaries_us), self._room.cluster, len(boundaries_us) + 1
        return borne(bearers, cluster.deadline_us, cluster.is_spot, count, asked, now_us, by_core_hours)

    def borne_now(
        self,
        asked: NDArray[np.float64],
        boundaries_us: tuple[int, ...],
        now_us: int,
        *,
        by_core_hours: bool,
    ) -> Callable[[], tuple[Ints, Ints, Ints]]:
        """Return a function that returns the same as things are now, on any thread."""
        bearers = Bearers._make(column.copy() for column in self._bearers(boundaries_us))
        deadlines_us, are_spot = self._room.cluster.deadline_us.copy(), self._room.cluster.is_spot.copy()
        count = len(boundaries_us) + 1
        return lambda: borne(bearers, deadlines_us, are_spot, count, asked, now_us, by_core_hours)

    def borne_by(
        self, owner: str, promises: Sequence[float], stratum: int, now_us: int, *, by_core_hours: bool
    ) -> list[float]:
        """Return the risk that an owner's running instances bear in a stratum of `borne`, by promise; these rise.

        It is in evictions, or in core-hours.
        """
        number = self._owners.get(owner, NO_NODE)  # which no row has
        bearers, cluster = self._bearers(self._boundaries_us), self._room.cluster
        owners, parts = self._columns.owners, CORE_HOUR_PARTS if by_core_hours else PARTS
        ends, known = (cluster.deadline_us, cluster.is_spot), np.array(promises, np.float64)
        found = borne_by(bearers, owners, number, *ends, known, stratum, now_us, by_core_hours)
        return [count / parts for count in found.tolist()]

    def overrunning_now(self, cluster: Cluster, now_us: int) -> Callable[[], dict[str, tuple[int, int, int]]]:
        """Return a function that counts what overruns by owner: instances, cores, core-microseconds; on any thread.

        `cluster` must not change meanwhile. Owners without any are left out.
        """
        columns = self.columns
        names, owners, are_first = [*self._owners], columns.owners.copy(), columns.are_first.copy()

        def count() -> dict[str, tuple[int, int, int]]:
            found = overrunning_of(cluster, owners, are_first, len(names), now_us)
            overrun = np.flatnonzero(found[:, 0])
            counts = zip(overrun.tolist(), found[overrun].tolist(), strict=True)
            return {names[number]: (over, cores, core_us) for number, (over, cores, core_us) in counts}

        return count

    def overrunning(self, owner: str, now_us: int) -> tuple[int, int]:
        """Return the cores of an owner's spot instances that overrun, and their core-microseconds so far."""
        columns, number = self.columns, self._owners.get(owner)
        if number is None:
            return 0, 0
        found = overrunning_of(self._room.cluster, columns.owners, columns.are_first, len(self._owners), now_us)
        return int(found[number, 1]), int(found[number, 2])

    def _bearers(self, boundaries_us: tuple[int, ...]) -> Bearers:
        """Return the columns of what is borne, with strata of these boundaries."""
        columns = self.columns
        if boundaries_us != self._boundaries_us:
            self._boundaries_us = boundaries_us
            columns.strata[:] = np.searchsorted(boundaries_us, columns.book_lifetimes_us, side="right")
        return Bearers(columns.promises, columns.rates, columns.strata, columns.core_hours)

    def _enter_more(self, running: Running) -> None:
        """Enter a spot instance, or one with members."""
        lifetime_us, promise = running.book_lifetime_us, running.probability or 0.0
        rate = 0.0 if running.risk is None else running.risk / max(lifetime_us, 1)
        stratum = stratum_index(lifetime_us, self._boundaries_us)
        owner = self._number_of(running.owner or NOBODY)
        flavor = self._flavors.setdefault(running.flavor, len(self._flavors))
        cores = running.count * self._known.by_name[running.flavor].resources.cores
        hours, is_longer = core_hours_of(cores, running.lifetime_us), running.first_lifetime_us is not None
        first = promise, rate, lifetime_us, stratum, running.started_us, owner, flavor, True, True, hours, is_longer
        self._put(running.row, running.instance_id, first)
        before = {running.node}
        for row, node in zip(running.more_rows, running.nodes[1:], strict=True):
            is_new = node not in before
            values = promise, 0.0, 0, 0, 0, owner, 0, False, is_new, hours, is_longer
            self._put(row, running.instance_id, values)
            before.add(node)

    def _number_of(self, owner: str) -> int:
        """Return the number that stands for an owner. Those of owners without a row are given up once they are many."""
        if owner not in self._owners and len(self._owners) >= 2 * len(self._names):
            owners, names = self.columns.owners, [*self._owners]
            used = np.union1d(owners, [0])  # NOBODY, whose are the empty rows too
            self._owners = {names[number]: at for at, number in enumerate(used.tolist())}
            owners[:] = np.searchsorted(used, owners)
        return self._owners.setdefault(owner, len(self._owners))

    def _put(self, row: int, name: str | None, values: _Values) -> None:
        self._names[row], self._unwritten[row] = name, values
        if len(self._unwritten) >= MOST_UNWRITTEN:
            self._write()

    def _write(self) -> None:
        """Write the rows that wait."""
        columns: tuple[NDArray[Any], ...] = self._columns
        if len(self._unwritten) <= FEW:
            for row, of_row in self._unwritten.items():
                for column, value in zip(columns, of_row, strict=True):
                    column[row] = value
        else:
            rows, by_column = np.array([*self._unwritten]), zip(*self._unwritten.values(), strict=True)
            for column, values in zip(columns, by_column, strict=True):
                column[rows] = values
        self._unwritten.clear()

    def _grow(self) -> None:
        """Double the number of rows, of the cluster too."""
        count, cluster = len(self._names), self._room.cluster
        more = empty_cluster(0, count, len(Resources._fields))
        grown = [np.concatenate(both) for both in zip(cluster[2:], more[2:], strict=True)]
        self._room.cluster = Cluster(cluster.free, cluster.is_open, *grown)
        columns: tuple[NDArray[Any], ...] = self._columns
        self._columns = Columns._make(np.append(column, np.zeros(count, column.dtype)) for column in columns)
        self.are_at_risk = np.append(self.are_at_risk, np.zeros(count, np.bool_))
        self._names += [None] * count
        self._untaken = range(count, 2 * count)


def _empty_columns(count: int) -> Columns:
    return Columns._make(np.zeros(count, of) for of in _TYPES)
