"""Rates of links: the quantile as plain counting finds it, estimates that hold, and what a host does with them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import comb
from random import Random

import pytest

from app.domain.jobs import LinkRate
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.federation.rules.links import (
    LEAST_SAMPLE_BYTES,
    LEAST_SAMPLES,
    MOST_SAMPLES,
    LinkSample,
    alone,
    learned,
    shared_us,
    stage_granted_us,
    takes_us,
    told,
)

MEBIBYTE = 2**20
SIZE = 8 * MEBIBYTE


def naively(samples: list[LinkSample]) -> int | None:
    """The largest rate of the newest that is a 10 % quantile or less nine times of ten, or else the smallest."""
    fit = [one for one in samples if one.age_us <= 7 * DAY_US and one.bytes >= 4 * MEBIBYTE]
    newest: list[LinkSample] = []
    while fit and len(newest) < 200:
        youngest = min(fit, key=lambda one: one.age_us)
        fit.remove(youngest)
        newest.append(youngest)
    if len(newest) < 5:
        return None
    rates = sorted(Fraction(one.bytes * SECOND_US, one.took_us) for one in newest)
    sure = [rate for place, rate in enumerate(rates, 1) if place == 1 or is_sure(place, len(rates))]
    return int(sure[-1])


@cache
def is_sure(place: int, draws: int) -> bool:
    """True if of so many draws, each of which succeeds once in ten, at least `place` do nine times of ten."""
    fewer = sum(comb(draws, successes) * 9 ** (draws - successes) for successes in range(place))
    return 10 * fewer <= 10**draws


def drawn(random: Random, count: int) -> list[LinkSample]:
    ages = random.sample(range(0, 9 * DAY_US, 1000), count)
    return [
        LinkSample(random.choice((MEBIBYTE, 4 * MEBIBYTE, 5 * MEBIBYTE, 999 * MEBIBYTE)), random.randint(1, 10**9), age)
        for age in ages
    ]


def test_the_rate_is_what_counting_finds() -> None:
    known = 0
    for seed in range(300):
        random = Random(seed)
        samples = drawn(random, random.choice((0, 4, 7, 20, 60, 400)))
        found = learned(samples, 3)
        expected = naively(samples)
        assert (found and found.bytes_per_s) == (expected and max(expected, 1)), seed
        if found is not None:
            known += 1
            assert found.active == 3
            assert LEAST_SAMPLES <= found.samples <= MOST_SAMPLES
    assert known > 100


def at_rate(bytes_per_s: float, age_us: int, size: int = SIZE) -> LinkSample:
    return LinkSample(size, round(size / bytes_per_s * SECOND_US), age_us)


def test_small_and_old_transfers_and_too_few_tell_nothing() -> None:
    assert learned([at_rate(10**6, 0)] * (LEAST_SAMPLES - 1), 0) is None
    assert learned([at_rate(10**6, 0, LEAST_SAMPLE_BYTES - 1)] * 50, 0) is None
    assert learned([at_rate(10**6, 7 * DAY_US + 1)] * 50, 0) is None
    found = learned([at_rate(10**6, 7 * DAY_US, LEAST_SAMPLE_BYTES)] * LEAST_SAMPLES, 0)
    assert found is not None
    assert found.bytes_per_s == pytest.approx(10**6, rel=1e-3)


def test_nine_transfers_of_ten_keep_the_estimate() -> None:
    """On links whose rate varies by a factor of some ten, each transfer judged by those before it."""
    kept = judged = 0
    for seed in range(20):
        random, samples = Random(seed), list[LinkSample]()
        for _ in range(400):
            one = at_rate(10**7 * random.lognormvariate(0, 0.6), 0, 100 * SIZE)
            found = learned(samples, 0)
            if found is not None and len(samples) >= 20:
                judged += 1
                kept += one.took_us <= takes_us(found, one.bytes)
            samples = [one, *(old._replace(age_us=old.age_us + SECOND_US) for old in samples[: MOST_SAMPLES - 1])]
    assert kept >= 0.9 * judged > 5000


def test_after_the_rate_has_halved_twenty_transfers_are_enough() -> None:
    fast = [at_rate(10**7, age) for age in range(100, 100 + MOST_SAMPLES)]
    found = [learned([at_rate(5 * 10**6, 0)] * number + fast, 0) for number in (14, 15)]
    assert [round(one.bytes_per_s / 10**6) for one in found if one is not None] == [10, 5]


def test_what_is_under_way_takes_its_share() -> None:
    single, third = LinkRate(10**6, 9, 0, 0), LinkRate(10**6, 9, 0, 2)
    assert takes_us(single, 10**7) == 10 * SECOND_US
    assert takes_us(third, 10**7) == shared_us(third, 10**7, 3) == 20 * SECOND_US, "another one may come to either"
    assert takes_us(single, 0) == 0
    assert takes_us(replace(third, samples=0), 10**7) == 30 * SECOND_US, "an operator tells the rate of the link"


@pytest.mark.parametrize("sharing", [1, 2, 3, 9])
def test_a_sample_tells_by_which_rate_its_estimate_would_have_been_right(sharing: int) -> None:
    rate = LinkRate(alone(SIZE, sharing) // 7, 9, 0, 0)
    assert shared_us(rate, SIZE, sharing) == pytest.approx(7 * SECOND_US, rel=1e-5)


@pytest.mark.parametrize(
    ("link", "size", "granted_s"),
    [
        (None, 10**12, 600),
        (LinkRate(10**6, 9, 0, 0), 100 * 10**6, 300),
        (LinkRate(10**6, 9, 0, 0), 10**6, 60),
        (LinkRate(10**6, 9, 0, 0), 300 * 10**6, 600),
        (LinkRate(10**6, 9, 0, 0), 600 * 10**6, 600),
        (LinkRate(10**6, 9, 0, 0), 600 * 10**6 + 1, None),
        (LinkRate(10**6, 9, 0, 8), 120 * 10**6, 600),
        (LinkRate(10**6, 9, 0, 8), 120 * 10**6 + 1, None),
        (LinkRate(10**6, 0, 0, 9), 60 * 10**6, 600),
        (LinkRate(10**6, 0, 0, 9), 60 * 10**6 + 1, None),
        (LinkRate(10**6, 9, HOUR_US + 1, 9), 60 * 10**6, 600),
    ],
)
def test_a_host_gives_three_times_the_estimate_at_most_what_is_asked_and_refuses_what_comes_too_late(
    link: LinkRate | None, size: int, granted_s: int | None
) -> None:
    granted_us = None if granted_s is None else granted_s * SECOND_US
    assert stage_granted_us(600 * SECOND_US, link, size) == granted_us


def test_a_host_never_gives_more_than_is_asked() -> None:
    assert stage_granted_us(30 * SECOND_US, LinkRate(10**9, 9, 0, 0), 1) == 30 * SECOND_US


def test_an_operators_rate_judges_as_a_learned_one_does() -> None:
    link = told(80, 1)
    assert link == LinkRate(10 * 10**6, 0, 0, 1)
    assert takes_us(link, 10**9) == 200 * SECOND_US
    assert stage_granted_us(199 * SECOND_US, link, 10**9) is None
    assert stage_granted_us(1000 * SECOND_US, link, 10**9) == 600 * SECOND_US
    assert told(0.001, 0).bytes_per_s == 125
