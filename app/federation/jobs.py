"""The worker's part in jobs: it tells which have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.domain.events import Event, Recorded
from app.engine.cloud import Cloud
from app.federation.rules.homeside import decide_completed
from app.platform.each import for_each_cloud
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess


class JobKeeper:
    """Appends the ends of jobs to the logs of all clouds. `now_us` is the server's clock, in microseconds."""

    def __init__(self, clouds: Clouds, states: States, now_us: Callable[[], int]) -> None:
        self._clouds, self._states, self._now_us = clouds, states, now_us

    async def tell_ends(self) -> int:
        """Tell of every job that ran here that nothing of it runs any more; return how many events were written."""
        return await for_each_cloud((await self._clouds.list()).values(), self._tell)

    async def _tell(self, cloud_id: int) -> int:
        cloud = await self._states.current(cloud_id)
        if not decide_completed(cloud, cloud.at_us):
            return 0
        return len(await self._append(cloud_id, decide_completed))

    async def _append(self, cloud_id: int, decide: Callable[[Cloud, int], Sequence[Event]]) -> Sequence[Recorded]:
        async def decide_now(cloud: Cloud, _: LogAccess) -> Sequence[Recorded]:
            return [cloud.apply(event) for event in decide(cloud, cloud.present_us(self._now_us()))]

        return await self._states.appender(cloud_id).append_decided(decide_now)
