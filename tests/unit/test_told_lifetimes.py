"""Lifetimes are told with one rounding, as far as they can be declared, and with what may be longer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.events import InstanceStarted
from app.domain.risks import longest_in_words
from app.domain.times import HOUR_US, LONGEST_LIFETIME_US, SECOND_US, at_least_text
from app.domain.values import Market, Rejection
from app.domain.wanted import Wanted
from app.explaining.rules.wantwords import given_in_words, lifetime_in_words
from app.forecasts.wire.forecasts import QuotesQuery
from app.platform.http.fields import guaranteed_seconds

LIFETIME_US = 6_050 * SECOND_US


def started(**more: Any) -> InstanceStarted:
    return InstanceStarted(
        at_us=0, instance_id="i", market=Market.SPOT, flavor="c1", node="n", lifetime_us=LIFETIME_US, **more
    )


def test_a_declared_lifetime_reads_like_the_one_that_was_quoted() -> None:
    assert lifetime_in_words(started()) == f", for at most {at_least_text(LIFETIME_US)}" == ", for at most 1.68 h"


def test_no_lifetime_is_told_that_cannot_be_declared() -> None:
    assert at_least_text(1 << 55) == at_least_text(LONGEST_LIFETIME_US) == "3660 d"
    assert guaranteed_seconds(1 << 55) == 316_224_000
    assert guaranteed_seconds(LIFETIME_US) == 6_050
    assert guaranteed_seconds(None) is None


def test_a_proposal_of_a_book_says_that_it_may_admit_more() -> None:
    assert longest_in_words(LIFETIME_US, of_book=False) == "a lifetime of up to 1.68 h"
    assert longest_in_words(LIFETIME_US, of_book=True).endswith(
        "1.68 h, the longest within the promise; what the book has earned may admit a longer one"
    )


def test_the_instance_of_the_past_is_told_of_in_the_past() -> None:
    start = started(wanted=Wanted(2 * HOUR_US, None), limited_by=Rejection.BUDGET_EXHAUSTED)
    assert "It is extended while" in " ".join(given_in_words(start, is_running=True))
    assert "It is extended" not in " ".join(given_in_words(start, is_running=False))


@pytest.mark.parametrize("text", ["-1", "-0.5", "-1e20", "316224001", "1e9", "1e400"])
def test_a_duration_out_of_range_is_refused_for_that(text: str) -> None:
    with pytest.raises(ValidationError, match="must be from 0 to 316224000 seconds"):
        QuotesQuery.model_validate({"lifetime_s": text})


@pytest.mark.parametrize("text", ["--1", "1.1234567", "1e-7", "1e99999999999999999999", "007", "", "-", "x"])
def test_what_is_no_duration_is_refused_for_its_form(text: str) -> None:
    with pytest.raises(ValidationError, match="a number of seconds with at most six decimals"):
        QuotesQuery.model_validate({"lifetime_s": text})


@pytest.mark.parametrize(
    ("text", "us"), [("1e3", 1_000_000_000), ("1.5E-3", 1_500), ("3.16224e8", LONGEST_LIFETIME_US)]
)
def test_a_duration_in_a_query_may_have_an_exponent(text: str, us: int) -> None:
    assert QuotesQuery.model_validate({"lifetime_s": text}).lifetime_us == us
