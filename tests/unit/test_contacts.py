"""A peer that is slow to answer takes few places and few offers, and how long a host's last word is waited for."""

from __future__ import annotations

from time import monotonic

import pytest

from app.federation import contacts
from app.federation.contacts import Contact, LastWords


def test_a_peer_that_has_not_answered_lately_is_sent_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    assert contact.at_once == 4
    contact.heard()
    assert contact.at_once == 16
    clock.now_s += 2
    contact.failed(clock.now_s)
    assert contact.at_once == 4
    contact.heard()
    clock.now_s += 59
    assert contact.at_once == 16
    clock.now_s += 2
    assert contact.at_once == 4


def test_more_offers_than_a_peer_answers_in_time_are_not_out() -> None:
    contact = Contact()
    assert contact.most_offers(5.0) == 4, "nothing is known of it yet"
    contact.heard()
    for took_s, most in ((3.2, 16), (0.5, 80), (0.001, 1000)):
        contact.offer_took_s, contact.timed_s = took_s, monotonic()
        assert contact.most_offers(5.0) == most
    contact.took_s = 0.5
    assert contact.most_offers(5.0) == 80, "awards take places beside the offers"
    contact.offer_took_s, contact.took_s = 3.2, 0.001
    assert contact.most_offers(5.0) == 16, "quick answers to other messages make no offer quicker"
    contact.heard_s -= 10
    contact.failed(monotonic())
    assert contact.most_offers(5.0) == 4, "one failure is no reason to send it more"
    for _ in range(4):
        contact.failed(monotonic())
    assert contact.most_offers(5.0) == 1000, "no job waits for a peer that has not answered for long"
    contact.heard()
    assert contact.most_offers(5.0) == 16


def test_a_peer_that_was_quick_some_time_ago_gets_few_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    contact.heard()
    contact.answered(clock.now_s - 0.01, is_offer=True, is_word=True)
    assert contact.most_offers(5.0) == 1000
    clock.now_s += 4
    contact.answered(clock.now_s, is_offer=False, is_word=True)
    assert contact.most_offers(5.0) == 1000
    clock.now_s += 2
    assert contact.most_offers(5.0) == 4, "another worker may talk to it by now, or it has much to do"
    contact.answered(clock.now_s - 3.2, is_offer=True, is_word=True)
    assert contact.most_offers(5.0) == 32


def test_what_fails_at_once_is_no_quick_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    contact.answered(clock.now_s, is_offer=True, is_word=False)
    assert contact.offer_took_s is None
    contact.answered(clock.now_s - 3, is_offer=True, is_word=True)
    contact.answered(clock.now_s - 2, is_offer=True, is_word=False)
    assert contact.offer_took_s == 3.0
    contact.answered(clock.now_s - 5, is_offer=True, is_word=False)
    assert contact.offer_took_s == pytest.approx(3.6), "no answer in time"


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
    words.unheard(PAIR, TOLD)
    assert asked(words, TOLD, WAITS).over(PAIR, contact) == set(), "its word was lost"
    words.told(PAIR, TOLD)
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
    go_on(clock, words, 59)
    assert words.over(PAIR, contact) == set()
    contact.heard()
    go_on(clock, words, 59)
    assert words.over(PAIR, contact) == set(), "it answered for others, and is slow"
    go_on(clock, words, 1)
    assert words.over(PAIR, contact) == {WAITS}, "nothing for a minute"
    contact.heard()
    assert words.over(PAIR, contact) == set()
    go_on(clock, words, 600)
    contact.heard()
    assert words.over(PAIR, contact) == {WAITS}


def test_a_time_in_which_nobody_asked_is_no_silence_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker was stopped, or had no database."""
    clock, contact, words = Clock(monkeypatch), Contact(), asked(LastWords(), WAITS)
    clock.now_s += 70
    assert words.over(PAIR, contact) == set(), "answers may have come meanwhile"
    assert asked(words, WAITS).over(PAIR, contact) == set()
    go_on(clock, words, 59)
    assert words.over(PAIR, contact) == set()
    go_on(clock, words, 1)
    assert words.over(PAIR, contact) == {WAITS}


def go_on(clock: Clock, words: LastWords, seconds: int) -> None:
    """Let time pass, in which the host is asked for what waits."""
    for _ in range(seconds):
        clock.now_s += 1
        asked(words, WAITS)


def test_offers_of_other_clouds_take_places_as_long_as_they_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    contact.heard()
    contact.note_offers(1, 13, 0)
    assert contact.has_place(2, 2, 5.0)
    assert not contact.has_place(2, 3, 5.0), "sixteen are out"
    assert contact.has_place(1, 15, 5.0), "its own are not counted twice"
    clock.now_s += 6
    assert contact.has_place(2, 15, 5.0), "another worker may have to do with them by now"


def test_clouds_that_wait_for_a_peer_have_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, contact = Clock(monkeypatch), Contact()
    contact.heard()
    contact.note_offers(2, 0, 5)
    assert contact.has_place(1, 7, 5.0)
    assert not contact.has_place(1, 8, 5.0), "the other half is for the one that waits"
    for cloud in range(3, 43):
        contact.note_offers(cloud, 0, 1)
    assert contact.has_place(1, 0, 5.0), "each has one at least"
    assert not contact.has_place(1, 1, 5.0)
    clock.now_s += 6
    assert contact.has_place(1, 15, 5.0)
