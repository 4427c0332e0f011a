"""A peer that is slow to answer takes few places and few offers, and how long a host's last word is waited for."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from app.federation import contacts
from app.federation.contacts import Contact, LastWords


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


def test_more_offers_than_a_peer_answers_in_time_are_not_out() -> None:
    contact = Contact()
    assert contact.most_offers(5.0) == 16, "nothing is known of it yet"
    for took_s, most in ((3.2, 16), (0.5, 80), (0.001, 1000)):
        contact.took_s = took_s
        assert contact.most_offers(5.0) == most
    contact.took_s = 3.2
    contact.failed(monotonic())
    assert contact.most_offers(5.0) == 1000, "no job waits for a peer that does not answer"
    contact.heard()
    assert contact.most_offers(5.0) == 16


def test_a_last_word_is_waited_for_until_it_comes_or_the_host_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, contact, words = 100.0, Contact(), LastWords()
    monkeypatch.setattr(contacts, "monotonic", lambda: now_s)
    told, failed, waits = (("told", 1), ("failed", 1), ("waits", 1))

    def awaited(*overdue: tuple[str, int]) -> set[tuple[str, int]]:
        return words.awaited(1, dict.fromkeys(overdue, contact))

    assert not words.is_awaited(1, told, contact), "its lease is not over"
    contact.failed(now_s)
    now_s += 1
    assert awaited(told, failed) == {told, failed}, "what failed before says nothing of now"
    assert words.is_awaited(1, told, contact)
    words.told(1, told)
    assert awaited(told, failed) == {failed}
    now_s += 1
    contact.failed(now_s)
    assert awaited(told, failed) == set()
    now_s += 1
    assert awaited(waits) == {waits}
    now_s += 61
    assert awaited(waits) == set(), "not for ever"
    contact.heard()
    assert awaited(waits) == {waits}, "it answers for others, so it will for this one"
    now_s += 600
    contact.heard()
    assert awaited(waits) == set()


def test_offers_of_other_clouds_take_places_as_long_as_they_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, contact = 100.0, Contact()
    monkeypatch.setattr(contacts, "monotonic", lambda: now_s)
    contact.note_offers(1, 16)
    contact.note_offers(2, 3)
    assert (contact.offers_beside(1), contact.offers_beside(2), contact.offers_beside(3)) == (3, 16, 19)
    now_s += 6
    assert contact.offers_beside(2) == 0, "another worker may have to do with them by now"
