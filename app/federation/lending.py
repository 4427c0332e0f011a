"""The origin's part in data: what an award tells of it, and what hosts tell of inputs that they pull."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from time import monotonic
from typing import Any

from app.domain.errors import ObjectsUnavailable
from app.domain.jobs import AttemptKey, DataFault, DataObject, Word
from app.domain.times import SECOND_US
from app.engine.cloud import JobRecord
from app.federation.rules.data import LONGEST_LINK_S
from app.federation.store import Transfers
from app.platform.outbound.objects import NoSuchObject, ObjectStore, StoreUnavailable

_FAULTS = frozenset(map(str, DataFault))
_LEAST_LINK_S = 60
_CHECKED_WITHIN_S = 10.0
"""The time that the store has to tell of all inputs of a job."""
_MOST_TOLD = 10_000
"""The number of attempts of which it is remembered what was entered last."""
_TELLING = frozenset({Word.STAGING, Word.RUNNING, Word.FINISHED})
"""Words that tell how far the inputs are: a job that runs, or that has finished, has all of them."""


class Lender:
    """Gives hosts links to read inputs. `link_s`: the longest time for which one is good; None: the whole lease."""

    def __init__(self, transfers: Transfers, objects: ObjectStore | None, link_s: int | None) -> None:
        self._transfers, self._objects, self._link_s = transfers, objects, link_s
        self._told: dict[tuple[int, AttemptKey], tuple[int, str | None]] = {}

    @property
    def has_store(self) -> bool:
        """True if this service has an object store."""
        return self._objects is not None

    async def award(self, record: JobRecord, now_us: int) -> Mapping[str, Any] | None:
        """Return the body of an award: links to the inputs, which are good for the lease, and the outputs."""
        asked = record.asked
        if self._objects is None or not (asked.inputs or asked.outputs):
            return None
        left_s = (record.away.reclaim_us - now_us) // SECOND_US
        for_s = min(max(left_s, _LEAST_LINK_S), LONGEST_LINK_S, self._link_s or LONGEST_LINK_S)
        inputs = [{**asdict(one), "url": await self._objects.link(one.key, for_s)} for one in asked.inputs]
        return {"inputs": inputs, "outputs": [asdict(one) for one in asked.outputs]}

    async def heard(self, cloud_id: int, record: JobRecord, word: Word | None, told: Mapping[str, Any]) -> None:
        """Enter how far a host is with the inputs, where it says something new."""
        whole = sum(one.bytes for one in record.asked.inputs)
        if word not in _TELLING or not record.asked.inputs:
            return
        key = AttemptKey(record.away.peer, record.asked.job, record.away.attempt)
        news = _staged(told, whole) if word is Word.STAGING else (whole, None)
        if self._told.get((cloud_id, key)) != news:
            await self._transfers.tell(cloud_id, key, whole, *news)
            if len(self._told) >= _MOST_TOLD:  # what was told is told again, which changes nothing
                self._told.clear()
            self._told[cloud_id, key] = news

    async def check(self, inputs: tuple[DataObject, ...]) -> str | None:
        """Return the reason why inputs cannot be given to a host; None: they can.

        Raises ObjectsUnavailable if the store does not tell in time.
        """
        if self._objects is None:
            return "this service has no object store (TENURE_OBJECTS_URL)"
        until_s = monotonic() + _CHECKED_WITHIN_S
        for one in inputs:
            try:
                async with asyncio.timeout(until_s - monotonic()):
                    size = await self._objects.size(one.key)
            except NoSuchObject:
                return f"there is no object {one.key!r}"
            except (StoreUnavailable, TimeoutError) as error:
                raise ObjectsUnavailable(f"the object store does not tell whether {one.key!r} is there") from error
            if size != one.bytes:
                return f"object {one.key!r} has {size} bytes, not {one.bytes}"
        return None


def _staged(told: Mapping[str, Any], most: int) -> tuple[int, str | None]:
    """Return the bytes that a host says have come, and its fault; what is no such word counts as nothing."""
    staged, fault = told.get("staged_bytes"), told.get("fault")
    done = staged if isinstance(staged, int) and not isinstance(staged, bool) and 0 <= staged <= most else 0
    return done, fault if isinstance(fault, str) and fault in _FAULTS else None
