"""Reads of a cloud's log that bypass its state: pages of events, and records of instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from app.domain.errors import InstanceNotFound, MarkerInvalid
from app.domain.events import InstanceStarted, Recorded
from app.domain.paging import Page
from app.domain.values import InstanceStatus, Market, ToldRisk
from app.engine.cloud import Cloud
from app.scheduling.rules.instances import Instance, decision_in, end_in
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.extensions import newest_extensions
from app.scheduling.store.log import EventLog
from app.scheduling.store.moves import newest_moves
from app.scheduling.store.pages import LISTED_BYTES, STARTED_FOR
from app.scheduling.store.risks import newest_risks

_SCANNED_MAX = 10_000
"""The number of starts read at most for a page filtered by status, so a rare one does not read the whole log."""
_SCANNED_AT_ONCE = 500


class LogReads:
    """Reads events and instances by cloud name. Raises CloudNotFound for an unknown one, and LogUnavailable."""

    def __init__(self, clouds: Clouds, log: EventLog) -> None:
        self._clouds = clouds
        self._log = log

    async def events(self, cloud: str, after_seq: int, limit: int) -> Page[Recorded]:
        """Return the log's next events after a seq. Raise LogPutBack if the log ends before it."""
        cloud_id = await self._clouds.id_of(cloud)
        found = await self._log.tail(cloud_id, after_seq, limit + 1, LISTED_BYTES)
        if not found:
            await self._log.check_reaches(cloud_id, after_seq)
        page = found[:limit]
        return Page(page, str(page[-1].seq) if found.is_cut or len(found) > limit else None)

    async def instance(self, cloud: str, instance_id: str, project: str | None = None) -> Instance:
        """Return the record of an instance; with a project, InstanceNotFound if it is for another one."""
        cloud_id = await self._clouds.id_of(cloud)
        starts = await self._log.starts(cloud_id, [instance_id], whole=True)
        if instance_id not in starts or project not in (None, decision_in(starts[instance_id]).project):
            raise InstanceNotFound(f"there is no instance {instance_id!r}")
        (instance,) = await self._with_ends(cloud_id, [starts[instance_id]])
        return instance

    async def of_project(self, cloud: str, instance_ids: Sequence[str], project: str) -> set[str]:
        """Return those of these instances that are for a project."""
        cloud_id = await self._clouds.id_of(cloud)
        asked = {"cloud_id": cloud_id, "instance_ids": list(instance_ids), "project": project}
        return {decision_in(item).instance_id for item in await self._log.query(STARTED_FOR, asked)}

    async def proposed_moves(self, cloud: str, instance_ids: Sequence[str]) -> dict[str, ToldRisk]:
        """Return what was last told of each of these instances at risk, if that proposes moves."""
        found = await newest_risks(self._log, await self._clouds.id_of(cloud), instance_ids)
        return {name: told for name, told in found.items() if told.moves}

    async def instances(
        self,
        cloud: str,
        marker: str | None,
        limit: int,
        market: Market | None,
        status: InstanceStatus | None,
        project: str | None = None,
    ) -> Page[Instance]:
        """Return the instances after the one named `marker`, in the order of their starts, of one project or of all.

        The page may end before it is full, with a status above all; its marker then says how far the search went.
        """
        cloud_id = await self._clouds.id_of(cloud)
        after_seq = await self._seq_of_start(cloud_id, marker, project)
        found: list[Instance] = []
        read_at_once = limit + 1 if status is None else max(limit + 1, _SCANNED_AT_ONCE)
        for _ in range(max(1, _SCANNED_MAX // read_at_once)):
            starts = await self._log.started_page(cloud_id, after_seq, read_at_once, market, project)
            for instance in await self._with_ends(cloud_id, starts):
                if len(found) == limit:
                    return Page(found, found[-1].decision.instance_id)
                if status in (None, instance.status):
                    found.append(instance)
            if starts.is_cut:
                break
            if len(starts) < read_at_once:
                return Page(found, None)
            after_seq = starts[-1].seq
        return Page(found, decision_in(starts[-1]).instance_id)

    async def running(
        self,
        cloud: str,
        state: Callable[[], Awaitable[Cloud]],
        marker: str | None,
        limit: int,
        market: Market | None,
    ) -> Page[Instance]:
        """Return the running instances that started after the one named `marker`, of the state that `state` returns.

        Longer logs cost no more.
        """
        cloud_id = await self._clouds.id_of(cloud)
        after_seq = await self._seq_of_start(cloud_id, marker)
        ids = (await state()).oldest(after_seq, limit + 1, market)
        starts = await self._log.starts(cloud_id, ids[:limit])
        found = await self._with_ends(cloud_id, [starts[name] for name in ids[:limit]])
        still = [instance for instance in found if instance.status is InstanceStatus.RUNNING]
        return Page(still, ids[limit - 1] if len(ids) > limit else None)

    async def _seq_of_start(self, cloud_id: int, marker: str | None, project: str | None = None) -> int:
        if marker is None:
            return 0
        starts = await self._log.starts(cloud_id, [marker])
        if marker not in starts or project not in (None, decision_in(starts[marker]).project):
            raise MarkerInvalid(f"{marker!r} is not in this list")
        return starts[marker].seq

    async def _with_ends(self, cloud_id: int, starts: Sequence[Recorded]) -> list[Instance]:
        decisions = [(decision_in(recorded), recorded.seq) for recorded in starts]
        admitted = [decision.instance_id for decision, _ in decisions if isinstance(decision, InstanceStarted)]
        ends = await self._log.ends(cloud_id, admitted) if admitted else {}
        extended = await newest_extensions(self._log, cloud_id, admitted) if admitted else {}
        moved = await newest_moves(self._log, cloud_id, admitted) if admitted else {}
        return [
            Instance(decision, seq, end_in(ends.get(name := decision.instance_id)), extended.get(name), moved.get(name))
            for decision, seq in decisions
        ]
