"""A peer that is slow to answer takes few of the places of a worker's talks."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from app.federation.contacts import Contact


async def most_at_once(contact: Contact, talks: int) -> int:
    """Return how many of some talks were under way together at most."""
    now = most = 0

    async def talk() -> None:
        nonlocal now, most
        async with contact.lane():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

    await asyncio.gather(*(talk() for _ in range(talks)))
    return most


@pytest.mark.anyio
async def test_one_peer_takes_four_places_and_a_slow_one_a_single_place() -> None:
    contact = Contact()
    contact.answered(monotonic() - 0.5)
    assert await most_at_once(contact, 10) == 4
    contact.answered(monotonic() - 1.5)
    assert await most_at_once(contact, 10) == 1
    contact.answered(monotonic())
    assert await most_at_once(contact, 10) == 1, "for a minute, whatever it answers meanwhile"
    contact.slow_until_s = monotonic()
    assert await most_at_once(contact, 10) == 4
