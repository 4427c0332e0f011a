"""The words on a class of promises that lost an instance."""

from __future__ import annotations

import pytest

from app.explaining.rules.classwords import standing_in_words
from app.judging.attainment import Attainment
from app.judging.verdicts import Judged, judge_promise


@pytest.mark.parametrize(
    ("admitted", "evicted", "said"),
    [
        (11, 2, "; so far 2 of 11 (18.2 %) were: that is more than was promised, perhaps by chance."),
        (14, 1, "; so far 1 of 14 (7.14 %) were, too few instances to judge."),
        (50, 1, "; so far 1 of 50 (2 %) were: that is more than was promised, perhaps by chance."),
        (50, 9, "; so far 9 of 50 (18 %) were: that is more than was promised."),
        (1000, 1, "; so far 1 of 1,000 (0.1 %) were: the promise is kept so far."),
        (200, 2, "; so far 2 of 200 (1 %) were: the promise is kept so far."),
    ],
)
def test_a_broken_promise_is_told_with_the_standing_of_its_class(admitted: int, evicted: int, said: str) -> None:
    standing = Attainment(0.01, admitted, 0, evicted, judge_promise(0.01, evicted, admitted), 0.0)
    assert (standing.judgement.verdict is Judged.TOO_FEW) is ("too few" in said)
    words = standing_in_words(standing, "1 %")
    assert words == f"At most 1 % of those with this promise may be evicted within their lifetime{said}"


def test_without_a_standing_nothing_is_claimed_of_the_others() -> None:
    words = standing_in_words(None, "1 %")
    assert words == "At most 1 % of those with this promise may be evicted within their lifetime."
