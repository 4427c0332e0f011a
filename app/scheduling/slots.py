"""Available slots of many flavors, counted beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.engine.cloud import Cloud
from app.platform.turns import Turns

T = TypeVar("T")

_FEW = 50_000
"""So many pairs of a flavor and a node are counted at once, which takes less than a millisecond."""
_BESIDE = ThreadPoolExecutor(1, thread_name_prefix="slots")
"""One thread: whoever asks much waits for others who ask much, and one core stays for all the rest."""


async def slots_of(cloud: Cloud, flavors: Sequence[str]) -> dict[str, int]:
    """Return the available slots of these flavors, all of the moment of the call."""
    count = cloud.slots_now(flavors)
    if len(flavors) * len(cloud.cluster.is_open) <= _FEW:
        found = count()
    else:
        found = await asyncio.get_running_loop().run_in_executor(_BESIDE, count)
    return dict(zip(flavors, found, strict=True))


async def made_of_each(slots: Mapping[str, int], make: Callable[[str, int], T]) -> list[T]:
    """Return what is made of each flavor and its slots, with turns for other tasks."""
    made = []
    with Turns() as turns:
        for flavor, count in slots.items():
            made.append(make(flavor, count))
            if turns.is_due():
                await turns.give()
    return made
