"""Passes over all nodes or instances of a cloud, made beside the event loop if they are many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.engine.cloud import Cloud
from app.platform.turns import Turns

T = TypeVar("T")
S = TypeVar("S")

_FEW = 50_000
"""So many pairs of a flavor and a node are counted at once, which takes less than a millisecond."""
_BESIDE = ThreadPoolExecutor(1, thread_name_prefix="slots")
"""One thread: whoever asks much waits for others who ask much, and one core stays for all the rest."""
_PAIRS_OF_CALL = 5000
"""An outlook takes as long as so many pairs of a flavor and a row, and then as long as its rows."""


async def slots_of(cloud: Cloud, flavors: Sequence[str]) -> dict[str, int]:
    """Return the available slots of these flavors, all of the moment of the call."""
    count = cloud.slots_now(flavors)
    if len(flavors) * len(cloud.cluster.is_open) <= _FEW:
        found = count()
    else:
        found = await asyncio.get_running_loop().run_in_executor(_BESIDE, count)
    return dict(zip(flavors, found, strict=True))


async def outlooks_beside(cloud: Cloud, flavors: Sequence[str], look: Callable[[], T]) -> T:
    """Return what `look` finds, which takes an outlook of each of these flavors."""
    rows = len(cloud.cluster.is_open) + len(cloud.cluster.node_of)
    if len(flavors) * (rows + _PAIRS_OF_CALL) <= _FEW:
        return look()
    return await beside(look)


def has_few_rows(cloud: Cloud) -> bool:
    """Return True if a pass over the running instances takes no more than about a millisecond."""
    return len(cloud.cluster.node_of) <= _FEW


async def beside(look: Callable[[], T]) -> T:
    """Return what `look` finds on another thread."""
    return await asyncio.get_running_loop().run_in_executor(_BESIDE, look)


async def made_of_each(found: Mapping[str, S], make: Callable[[str, S], T]) -> list[T]:
    """Return what is made of each flavor and what was found of it, with turns for other tasks."""
    made = []
    with Turns() as turns:
        for flavor, one in found.items():
            made.append(make(flavor, one))
            if turns.is_due():
                await turns.give()
    return made
