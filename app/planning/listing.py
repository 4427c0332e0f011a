"""The list of plans. A plan never changes, so what the list tells of it is read once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from app.domain.paging import Page
from app.planning.store.plans import PlanKey, PlanStore, PlanSummary

_AT_ONCE = 100
"""Plans that one statement unpacks, so that none takes long."""
_MOST_KEPT = 10_000

__all__ = ["PlanList", "PlanSummary"]


class PlanList:
    """Lists plans, and keeps what it told of them lately."""

    def __init__(self, store: PlanStore) -> None:
        self._store = store
        self._kept = OrderedDict[PlanKey, PlanSummary]()

    async def page(self, before: int | None, limit: int) -> Page[PlanSummary]:
        """Return plans with smaller numbers, the newest first."""
        keys = await self._store.page(before, limit + 1)
        summaries = await self._summaries(keys[:limit])
        return Page(summaries, str(keys[limit - 1].number) if len(keys) > limit else None)

    async def _summaries(self, keys: Sequence[PlanKey]) -> list[PlanSummary]:
        found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key.number for key in keys if key not in found]
        for begin in range(0, len(missing), _AT_ONCE):
            read = await self._store.summaries(missing[begin : begin + _AT_ONCE])
            found |= {PlanKey(*one[:3]): one for one in read}
        for key in keys:
            if key in found:
                self._kept[key] = found[key]
                self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return [found[key] for key in keys if key in found]
