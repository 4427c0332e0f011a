"""Lengths of time for people. What is promised or offered is rounded down, because no more may be asked for."""

from __future__ import annotations

import pytest

from app.domain.inputs import parse_duration
from app.domain.times import DAY_US, HOUR_US, SECOND_US, at_least_text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 s"),
        (SECOND_US // 20, "0 s"),
        (1_999_999, "1.9 s"),
        (119_960_000, "119.9 s"),
        (1_412_317_545, "23.5 min"),
        (3_599_999_999, "59.9 min"),
        (HOUR_US, "1 h"),
        (7_198_295_392, "1.99 h"),
        (3_883_105_894, "1.07 h"),
        (2 * HOUR_US, "2 h"),
        (2 * DAY_US - 1, "47.99 h"),
        (10 * DAY_US, "10 d"),
        (283_086_118_772, "3.27 d"),
    ],
)
def test_what_is_promised_is_rounded_down(us: int, text: str) -> None:
    assert at_least_text(us) == text


@pytest.mark.parametrize("us", [1, 59_999_999, 1_412_317_545, 7_198_295_392, 86_399_999_999, 283_086_118_772])
def test_what_is_told_can_be_asked_for(us: int) -> None:
    told = parse_duration(at_least_text(us).replace(" ", ""))
    assert 0.9 * us - SECOND_US < told <= us
