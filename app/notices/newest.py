"""Common needs of the worker's jobs that append to logs: the newest table, and the log's end to append to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from app.domain.events import Event, Recorded
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.store.tables import Tables
from app.forecasts.tables import decode_table, is_of
from app.platform.turns import Turns
from app.scheduling.appending import States
from app.scheduling.store.log import LogAccess


class NewestTables:
    """The newest table of each cloud, decoded once."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._newest: dict[int, QuantileTable] = {}

    async def of(self, cloud_id: int) -> QuantileTable | None:
        """Return the newest table of the cloud; None if there is none."""
        newest = await self._tables.page(cloud_id, 1)
        if not newest:
            return None
        held = self._newest.get(cloud_id)
        if not is_of(held, newest[0]):
            stored = await self._tables.get(cloud_id, newest[0].epoch)
            if stored is not None:
                self._newest[cloud_id] = held = await asyncio.to_thread(decode_table, stored)
        return held


async def append_at_end(
    states: States, cloud_id: int, present_us: Callable[[Cloud], int], decide: Callable[[Cloud, int], Iterable[Event]]
) -> Sequence[Event]:
    """Decide over the log's end at its present time, append there, and return the events.

    `decide` may yield its events one by one: each is applied before the next is decided.
    """

    async def decide_now(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
        return await apply_in_turns(cloud, decide(cloud, present_us(cloud)))

    return [item.event for item in await states.appender(cloud_id).append_decided(decide_now)]


async def apply_in_turns(cloud: Cloud, events: Iterable[Event]) -> Sequence[Recorded]:
    """Apply events one by one, and let others run in between."""
    recorded: list[Recorded] = []
    with Turns() as turns:
        for event in events:
            recorded.append(cloud.apply(event))
            if turns.is_due():
                await turns.give()
    return recorded
