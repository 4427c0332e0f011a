"""The part of a cloud's state that holds what each owner's spot instances come to, and the quotas that are its own."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import add
from typing import Any, NamedTuple

import numpy as np

from app.domain.events import (
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    QuotaRemoved,
    QuotaSet,
)
from app.domain.values import EvictionReason, Market
from app.domain.weeks import begin_of_week, week_of
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, Nodes
from app.engine.cloud.records import (
    NOBODY,
    Facts,
    Fold,
    Folded,
    OwnerAccount,
    OwnerWeek,
    Quota,
    Room,
    Running,
    Undo,
)
from app.engine.cluster import NO_NODE, place, release
from app.engine.displacing import displace

WEEKS_COUNTED = 4
"""The number of weeks, the present one included, for which an owner's record counts."""


class Overrun(NamedTuple):
    """The core-microseconds of an owner's spot instances lately.

    `core_us`: of those that ended, within their declared lifetimes; `overrun_core_us`: beyond, of all.
    """

    core_us: int
    overrun_core_us: int


class Owners:
    """The accounts of all owners. It folds an event before the instances do: it reads what ran before an end."""

    def __init__(self, room: Room, instances: Instances, nodes: Nodes, flavors: Flavors) -> None:
        self.accounts: dict[str, OwnerAccount] = {}
        self.quotas: dict[str, Quota] = {}
        self.names: list[str] = []
        """Everybody who has an account or a quota, in order. A page of them is found without a look at the others."""
        self.forgets_us = begin_of_week(week_of(0) + 1)
        """The time from which on the next event is of another week than the one before it; see `forget`."""
        self._weeks: dict[str, tuple[OwnerWeek, ...]] = {}
        self._room, self._instances, self._nodes, self._flavors = room, instances, nodes, flavors

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
            QuotaSet: self._set,
            QuotaRemoved: self._remove,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        parts: Mapping[str, Mapping[str, Any]] = {
            "owners": self.accounts,
            "quotas": self.quotas,
            "owner_weeks": self._weeks,
        }
        return {fact: [(name, part[name]) for name in self.names if name in part] for fact, part in parts.items()}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.accounts |= dict(facts.owners)
        self.quotas |= dict(facts.quotas)
        self._weeks |= dict(facts.owner_weeks)
        self.names += sorted({*self.accounts, *self.quotas})
        self.forgets_us = begin_of_week(week_of(facts.at_us) + 1)

    def forget(self, at_us: int) -> Undo:
        """Forget, before the first event of a week, every account that tells nothing which counts from then on.

        So it is with an owner that runs nothing, has no quota of its own, and whose record is older than what counts.
        No decision depends on it. The weeks of events alone say when, so every fold forgets the same.
        """
        before, since = (self.names, self.forgets_us), week_of(at_us) - WEEKS_COUNTED
        self.forgets_us = begin_of_week(week_of(at_us) + 1)
        gone = {name: account for name, account in self.accounts.items() if self._tells_nothing(name, account, since)}
        weeks = {name: self._weeks.pop(name) for name in gone if name in self._weeks}
        for name in gone:
            del self.accounts[name]
        if gone:
            self.names = [name for name in self.names if name not in gone]

        def undo() -> None:
            self.names, self.forgets_us = before
            self.accounts |= gone
            self._weeks |= weeks

        return undo

    def _tells_nothing(self, name: str, account: OwnerAccount, since: int) -> bool:
        if account.running or name == NOBODY or name in self.quotas:
            return False
        weeks = self._weeks.get(name)
        return weeks is None or weeks[-1].week <= since

    def overrunning_now(self, now_us: int) -> Callable[[], dict[str, tuple[int, int, int]]]:
        """Return a function that counts what overruns now by owner: instances, cores, core-microseconds; on any thread.

        Owners without any are left out.
        """
        return self._instances.rows.overrunning_now(self._room.copy(), now_us)

    def borne_by(
        self, owner: str, promises: Sequence[float], stratum: int, now_us: int, *, by_core_hours: bool
    ) -> list[float]:
        """Return the risk that an owner's running instances bear in a stratum, by promise, in the books' unit.

        `promises` rise.
        """
        return self._instances.rows.borne_by(owner, promises, stratum, now_us, by_core_hours=by_core_hours)

    def overrunning_cores(self, owner: str, now_us: int) -> int:
        """Return the cores of an owner's spot instances that overrun."""
        return self._overrunning(owner, now_us)[0]

    def overrun_lately(self, owner: str, now_us: int) -> Overrun:
        """Return what an owner's instances that run now, or ended in the newest weeks, ran within and beyond."""
        core_us, overrun_core_us = self.ended_lately(owner, now_us)
        return Overrun(core_us, overrun_core_us + self._overrunning(owner, now_us)[1])

    def ended_lately(self, owner: str, now_us: int) -> Overrun:
        """Return the same of those alone that ended."""
        return _counted(self._weeks.get(owner, ()), now_us)

    def ended_now(self, now_us: int) -> Callable[[str], Overrun]:
        """Return a function that returns the same of any owner as things are now."""
        weeks = dict(self._weeks)
        return lambda owner: _counted(weeks.get(owner, ()), now_us)

    def _overrunning(self, owner: str, now_us: int) -> tuple[int, int]:
        """Return the cores that overrun, and their core-microseconds so far. No pass over all rows if none runs."""
        account = self.accounts.get(owner)
        return self._instances.rows.overrunning(owner, now_us) if account and account.running else (0, 0)

    def displace(self, flavor: str, now_us: int) -> tuple[str | None, tuple[str, ...]]:
        """Return the node for a spot start that fits nowhere, and the overrunning instances that make room for it.

        (None, ()) if they cannot.
        """
        demand, cluster = self._flavors.by_name[flavor].demand, self._room.cluster
        victims = np.empty(len(cluster.node_of), np.int64)
        node, count = displace(cluster, demand, now_us, victims)
        return (
            (None, ())
            if node == NO_NODE
            else (self._nodes.names[node], self._instances.rows.at(victims[:count].tolist()))
        )

    @contextmanager
    def without(self, names: Iterable[str]) -> Iterator[None]:
        """Let the room of these instances be free within the block."""
        cluster, rows = self._room.cluster, [row for name in names for row in self._instances.running[name].rows]
        nodes = [int(cluster.node_of[row]) for row in rows]
        for row in rows:
            release(cluster, row)
        try:
            yield
        finally:
            for row, node in zip(rows, nodes, strict=True):
                place(cluster, row, node)

    def enter(self, moved: Folded) -> Undo:
        """Count starts and stops of spot instances that follow each other."""
        changed: dict[str, OwnerAccount | None] = {}
        weeks: dict[str, tuple[OwnerWeek, ...] | None] = {}
        started: Counter[tuple[str | None, int]] = Counter()
        stopped: Counter[tuple[str | None, int, int]] = Counter()
        for event, running in moved:
            cores = running.count * self._cores(running.flavor)
            if isinstance(event, InstanceStarted):
                started[event.owner, cores] += 1
            else:
                stopped[running.owner, cores, max(event.at_us - running.deadline_us, 0)] += 1
                self._add_week(weeks, running, event.at_us)
        for (owner, cores), count in started.items():
            self._add(changed, owner, _started(cores, count))
        for (owner, cores, over_us), count in stopped.items():
            self._add(changed, owner, _stopped(cores, over_us, count))
        return lambda: self._put_back(changed, weeks)

    def _start(self, event: InstanceStarted) -> Undo | None:
        if event.market is not Market.SPOT:
            return None
        changed: dict[str, OwnerAccount | None] = {}
        self._add(changed, event.owner, _started(event.count * self._cores(event.flavor)))
        return lambda: self._put_back(changed, {})

    def _stop(self, event: InstanceStopped) -> Undo | None:
        running = self._instances.running[event.instance_id]
        return self._strike(running) if event.aborted else self._end(running, event.at_us)

    def _strike(self, running: Running) -> Undo | None:
        """Take out again an instance that never ran."""
        if running.market is not Market.SPOT:
            return None
        changed: dict[str, OwnerAccount | None] = {}
        cores = running.count * self._cores(running.flavor)
        self._add(changed, running.owner, OwnerAccount(running=-1, cores=-cores, admitted=-1))
        return lambda: self._put_back(changed, {})

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        running = self._instances.running[event.instance_id]
        return self._end(running, event.at_us, evicted=event.reason is not EvictionReason.DRILL)

    def _end(self, running: Running, at_us: int, *, evicted: bool = False) -> Undo | None:
        if running.market is not Market.SPOT:
            return None
        over_us = max(at_us - running.deadline_us, 0)
        end = _stopped(running.count * self._cores(running.flavor), over_us)
        if evicted:
            end = end._replace(evicted=int(not over_us), overrun_evicted=int(over_us > 0))
        changed: dict[str, OwnerAccount | None] = {}
        weeks: dict[str, tuple[OwnerWeek, ...] | None] = {}
        self._add(changed, running.owner, end)
        self._add_week(weeks, running, at_us)
        return lambda: self._put_back(changed, weeks)

    def _cores(self, flavor: str) -> int:
        return self._flavors.by_name[flavor].resources.cores

    def _add(self, changed: dict[str, OwnerAccount | None], owner: str | None, more: OwnerAccount) -> None:
        """Add to an account, and keep in `changed` what it was before."""
        name = NOBODY if owner is None else owner
        old = self.accounts.get(name)
        changed.setdefault(name, old)
        if old is None:
            self._note(name)
        self.accounts[name] = more if old is None else OwnerAccount(*map(add, old, more))

    def _note(self, name: str) -> None:
        """Take a name that is about to have an account or a quota in among the others, if it has neither."""
        if name not in self.accounts and name not in self.quotas:
            insort(self.names, name)

    def _strike_out(self, name: str) -> None:
        """Take a name out that has neither an account nor a quota any more."""
        if name not in self.accounts and name not in self.quotas:
            del self.names[bisect_left(self.names, name)]

    def _add_week(self, changed: dict[str, tuple[OwnerWeek, ...] | None], ended: Running, at_us: int) -> None:
        """Add what an instance ran to the week of its end, forget weeks that count no more, and keep what was before.

        What has no owner is not counted.
        """
        if ended.owner is None:
            return
        old, week = self._weeks.get(ended.owner), week_of(at_us)
        changed.setdefault(ended.owner, old)
        *earlier, newest = old or (OwnerWeek(week),)
        if newest.week != week:
            earlier, newest = [*earlier, newest], OwnerWeek(week)
        cores, until_us = ended.count * self._cores(ended.flavor), min(at_us, ended.deadline_us)
        newest = OwnerWeek(
            week,
            newest.core_us + cores * (until_us - ended.started_us),
            newest.overrun_core_us + cores * (at_us - until_us),
        )
        self._weeks[ended.owner] = (*(one for one in earlier if one.week > week - WEEKS_COUNTED), newest)

    def _put_back(
        self, changed: Mapping[str, OwnerAccount | None], weeks: Mapping[str, tuple[OwnerWeek, ...] | None]
    ) -> None:
        for name, old in changed.items():
            self._put_value_back(self.accounts, name, old)
        for name, before in weeks.items():
            _put_back(self._weeks, name, before)

    def _put_value_back(self, values: dict[str, Any], name: str, old: object) -> None:
        """Give a name the account or the quota that it had, and its place among the names."""
        if old is not None:
            self._note(name)
            values[name] = old
        elif values.pop(name, None) is not None:
            self._strike_out(name)

    def _set(self, event: QuotaSet) -> Undo:
        old = self.quotas.get(event.owner)
        self._put_value_back(self.quotas, event.owner, Quota(event.cores, event.share, event.overrun_share))
        return lambda: self._put_value_back(self.quotas, event.owner, old)

    def _remove(self, event: QuotaRemoved) -> Undo:
        old = self.quotas.get(event.owner)
        self._put_value_back(self.quotas, event.owner, None)
        return lambda: self._put_value_back(self.quotas, event.owner, old)


def _counted(weeks: Sequence[OwnerWeek], now_us: int) -> Overrun:
    """Return the sum of the weeks that count."""
    counted = [one for one in weeks if one.week > week_of(now_us) - WEEKS_COUNTED]
    return Overrun(sum(one.core_us for one in counted), sum(one.overrun_core_us for one in counted))


def _started(cores: int, count: int = 1) -> OwnerAccount:
    """Return what starts of instances with so many cores add to an account."""
    return OwnerAccount(running=count, cores=count * cores, admitted=count)


def _stopped(cores: int, over_us: int, count: int = 1) -> OwnerAccount:
    """Return what stops of instances that ran on for so long add to an account."""
    overran = count if over_us else 0
    return OwnerAccount(-count, -count * cores, overran=overran, overrun_core_us=count * cores * over_us)


def _put_back(values: dict[str, Any], name: str, old: object) -> None:
    if old is None:
        values.pop(name, None)
    else:
        values[name] = old
