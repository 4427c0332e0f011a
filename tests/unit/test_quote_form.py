"""The form of the quote calculator: what it does not understand is a problem and no other question."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from app.domain.times import HOUR_US
from app.domain.values import Policy
from app.forecasts.pages.quotes import Asked, read_form


def read(query: str) -> Asked:
    return read_form(Request({"type": "http", "query_string": query.encode(), "headers": []}), Policy())


def test_a_form_in_order_has_no_problems() -> None:
    asked = read("lifetime=10&unit=h&probability=1")
    assert (asked.problems, asked.lifetime_us, asked.probability) == ((), 10 * HOUR_US, 0.01)
    assert read("").problems == ()
    assert read("lifetime=1,5").lifetime_us == HOUR_US * 3 // 2
    assert read("probability=0,125").probability == 0.00125


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("lifetime=10&unit=days", "The unit must be one of min, h, d."),
        ("lifetime=10&unit=", "The unit must be one of min, h, d."),
        ("probability=0", "The probability must be a number above 0 and below 100 per cent."),
        ("lifetime=1,000", "The comma of 1,000 may stand for thousands or for a fraction: write 1000 or 1.5."),
        ("probability=1,000", "The comma of 1,000 may stand for thousands or for a fraction: write 1000 or 1.5."),
        ("lifetime=-1", "The lifetime must be a number in the unit beside it, from 0 to ten years."),
    ],
)
def test_what_is_not_understood_is_told(query: str, problem: str) -> None:
    assert read(query).problems == (problem,)
