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
    contact.answered(monotonic() - 0.5, is_offer=True)
    assert await most_at_once(contact, 10) == 4
    contact.answered(monotonic() - 1.5, is_offer=False)
    assert await most_at_once(contact, 10) == 1
    contact.answered(monotonic(), is_offer=True)
    assert await most_at_once(contact, 10) == 1, "for a minute, whatever it answers meanwhile"
    contact.slow_until_s = monotonic()
    assert await most_at_once(contact, 10) == 4


def test_more_offers_than_a_peer_answers_in_time_are_not_out() -> None:
    contact = Contact()
    assert contact.most_offers(5.0) == 16, "nothing is known of it yet"
    for took_s, most in ((3.2, 16), (0.5, 80), (0.001, 1000)):
        contact.offer_took_s = took_s
        assert contact.most_offers(5.0) == most
    contact.took_s = 0.5
    assert contact.most_offers(5.0) == 80, "awards take places beside the offers"
    contact.offer_took_s, contact.took_s = 3.2, 0.001
    assert contact.most_offers(5.0) == 16, "quick answers to other messages make no offer quicker"
    contact.failed(monotonic())
    assert contact.most_offers(5.0) == 16, "one failure is no reason to send it more"
    for _ in range(4):
        contact.failed(monotonic())
    assert contact.most_offers(5.0) == 1000, "no job waits for a peer that has not answered for long"
    contact.heard()
    assert contact.most_offers(5.0) == 16


PAIR = 1, "far"
TOLD, FAILED, WAITS = ("told", 1), ("failed", 1), ("waits", 1)


class Clock:
    """The clock of what is known of peers, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(contacts, "monotonic", lambda: self.now_s)


def asked(words: LastWords, *overdue: tuple[str, int]) -> LastWords:
    words.ask(PAIR, overdue)
    return words


def test_a_last_word_is_waited_for_until_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact, words = Clock(monkeypatch), Contact(), LastWords()
    assert not words.is_awaited(PAIR, TOLD, contact), "its lease is not over"
    contact.failed(clock.now_s)
    clock.now_s += 1
    assert asked(words, TOLD, WAITS).over(PAIR, contact) == set(), "what failed before says nothing of now"
    words.told(PAIR, TOLD)
    assert asked(words, TOLD, WAITS).over(PAIR, contact) == {TOLD}
    assert asked(words, WAITS).over(PAIR, contact) == set(), "what is over is forgotten"
    assert asked(words).over(PAIR, contact) == set()


def test_a_failure_ends_the_wait_for_what_it_was_about_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    words = asked(LastWords(), FAILED, WAITS)
    contact.failed(clock.now_s)
    words.failed(PAIR, FAILED)
    assert words.over(PAIR, contact) == set(), "answers may be on their way"
    clock.now_s += 2
    assert words.over(PAIR, contact) == {FAILED}
    contact.heard()
    assert words.over(PAIR, contact) == set(), "it answers for others, so it will for this one"
    contact.failed(clock.now_s)
    assert contact.failures == 0, "it answered just now"
    clock.now_s += 2
    for _ in range(5):
        contact.failed(clock.now_s)
    assert words.over(PAIR, contact) == {FAILED, WAITS}, "it has not answered for long"


def test_a_last_word_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact, words = Clock(monkeypatch), Contact(), asked(LastWords(), WAITS)
    clock.now_s += 59
    assert words.over(PAIR, contact) == set()
    contact.heard()
    clock.now_s += 59
    assert words.over(PAIR, contact) == set(), "it answered for others, and is slow"
    clock.now_s += 1
    assert words.over(PAIR, contact) == {WAITS}, "nothing for a minute"
    contact.heard()
    assert words.over(PAIR, contact) == set()
    clock.now_s += 600
    contact.heard()
    assert words.over(PAIR, contact) == {WAITS}


def test_offers_of_other_clouds_take_places_as_long_as_they_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, contact = 100.0, Contact()
    monkeypatch.setattr(contacts, "monotonic", lambda: now_s)
    contact.note_offers(1, 16)
    contact.note_offers(2, 3)
    assert (contact.offers_beside(1), contact.offers_beside(2), contact.offers_beside(3)) == (3, 16, 19)
    now_s += 6
    assert contact.offers_beside(2) == 0, "another worker may have to do with them by now"
