"""Texts that callers give and that others read on a terminal or a page: no character in them commands either."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.clusters.wire.clusters import ToldEventBody
from app.managing.reporting import _CONTROL
from app.planning.wire import PlanRateBody

COMMANDING = ["\x00", "\x1b[31m", "\x7f", "\x9b31m", "\u2028", "\u202e", "\u2066", "\u200f"]


def zone(text: str) -> PlanRateBody:
    return PlanRateBody(name="r", zone=text, price=1.0, lost_in_a_month=0.1)


def fact(text: str) -> ToldEventBody:
    return ToldEventBody.model_validate(
        {"key": "k", "at": "2026-01-01T00:00:00Z", "kind": "node_bought", "facts": {"why": text}}
    )


@pytest.mark.parametrize("commanding", COMMANDING)
def test_what_commands_a_terminal_or_turns_the_text_around_it_is_refused(commanding: str) -> None:
    for take in (zone, fact):
        with pytest.raises(ValidationError):
            take(f"a{commanding}b")
    assert _CONTROL.search(commanding), "a manager does not send it"


@pytest.mark.parametrize("plain", ["", "eu-west-1a", "Zürich", "東京", "שלום", "a b-c/d"])
def test_words_of_all_languages_are_taken(plain: str) -> None:
    assert zone(plain).zone == plain
    assert fact(plain).facts == {"why": plain}
