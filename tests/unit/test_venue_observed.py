"""Survival from what was observed of machines: runs, Kaplan-Meier with delayed entry, pooling, and providers' rates."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.history import PoolName
from app.venues.rules.observed import (
    ObservedPools,
    ObservedRun,
    PoolRuns,
    QuoteSource,
    RunEvidence,
    Sighting,
    SightingKind,
    as_arrays,
    family_of,
    runs_of,
)
from app.venues.rules.rates import ProviderRate, RateKind

POOL = PoolName("aws", "us-east-1", "us-east-1a", "c3.xlarge", "Linux/UNIX")
STARTED, REVOKED, ENDED, UP, DOWN, NOTICE = (SightingKind(word) for word in (
    "started", "revoked", "ended", "probe_up", "probe_down", "notice",
))  # fmt: skip


def seen(*told: tuple[int, SightingKind], instance: str = "i") -> list[Sighting]:
    return [Sighting(POOL, instance, hour * HOUR_US, kind) for hour, kind in told]


def hours(runs: PoolRuns) -> list[tuple[float, float, bool]]:
    return [
        (begin / HOUR_US, end / HOUR_US, bool(was_revoked))
        for begin, end, was_revoked in zip(runs.from_us, runs.to_us, runs.revoked, strict=True)
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([(1, STARTED), (5, REVOKED)], [(0, 4, True)]),
        ([(1, STARTED), (5, ENDED)], [(0, 4, False)]),
        ([(1, STARTED)], [(0, 9, False)]),
        ([(1, STARTED), (2, REVOKED), (4, STARTED), (7, ENDED)], [(0, 1, True), (0, 3, False)]),
        ([(1, STARTED), (5, NOTICE), (5, ENDED)], [(0, 4, True)]),
        ([(1, STARTED), (2, NOTICE), (5, ENDED)], [(0, 4, False)]),
        ([(3, REVOKED)], []),
        ([(1, STARTED), (12, REVOKED)], [(0, 9, False)]),
        ([(0, DOWN), (2, UP), (6, UP), (8, DOWN)], [(1, 6, True)]),
        ([(0, UP), (2, DOWN)], []),
        ([(0, DOWN), (2, UP), (6, UP)], [(1, 5, False)]),
        ([(0, DOWN), (2, UP)], []),
    ],
)
def test_runs_are_those_that_were_seen(
    told: list[tuple[int, SightingKind]], expected: list[tuple[int, int, bool]]
) -> None:
    for order in (told, told[::-1]):
        found = runs_of(seen(*order), 10 * HOUR_US)
        assert hours(found.get(POOL, as_arrays([]))) == expected


def plain_share(runs: list[ObservedRun], lifetime_us: int) -> float:
    """Kaplan-Meier with delayed entry, as the definition has it."""
    share = 1.0
    for age in sorted({run.to_us for run in runs if run.revoked and run.to_us < lifetime_us}):
        at_risk = sum((run.from_us < age or run.from_us == 0) and run.to_us >= age for run in runs)
        lost = sum(run.revoked and run.to_us == age for run in runs)
        share *= 1.0 - lost / max(at_risk, lost)
    return share


def test_the_estimate_is_that_of_the_definition() -> None:
    draw = np.random.default_rng(3)
    for _ in range(200):
        count = int(draw.integers(1, 30))
        ends = draw.integers(0, 20, count)
        begins = np.where(draw.random(count) < 0.3, np.minimum(ends, draw.integers(0, 20, count)), 0)
        runs = [
            ObservedRun(int(a), int(b), bool(r)) for a, b, r in zip(begins, ends, draw.random(count) < 0.6, strict=True)
        ]
        for lifetime in (1, 5, 10, 25):
            assert RunEvidence([as_arrays(runs)]).share_living(lifetime) == pytest.approx(
                plain_share(runs, lifetime), abs=1e-12
            )


def test_a_late_entry_counts_only_from_its_age_on() -> None:
    young = [ObservedRun(0, HOUR_US, revoked=True)]
    old = [ObservedRun(2 * HOUR_US, 5 * HOUR_US, revoked=False)] * 9
    assert RunEvidence([as_arrays([*young, *old])]).share_living(3 * HOUR_US) == 0.0
    entered = [ObservedRun(0, 5 * HOUR_US, revoked=False)] * 9
    assert RunEvidence([as_arrays([*young, *entered])]).share_living(3 * HOUR_US) == pytest.approx(0.9)


def pools(runs: dict[PoolName, list[ObservedRun]], rates: dict[PoolName, ProviderRate] | None = None) -> ObservedPools:
    return ObservedPools({name: as_arrays(some) for name, some in runs.items()}, rates or {})


def share(found: ObservedPools, pool: PoolName = POOL, lifetime_us: int = 6 * HOUR_US) -> float:
    estimate = found.survival(pool, lifetime_us, 8, 0.95)
    assert estimate is not None
    return estimate.share


def test_a_pool_leans_on_what_it_belongs_to_until_it_has_seen_much() -> None:
    """Twenty revocations weigh as much as everything else."""
    calm = POOL._replace(instance_type="c3.2xlarge")
    safe = [ObservedRun(0, DAY_US, revoked=False)] * 50
    for count in (1, 20, 2000):
        lost = [ObservedRun(0, HOUR_US, revoked=True)] * count
        found = pools({POOL: lost, calm: safe})
        of_family = 1.0 - count / (count + 50)
        weight = count / (count + 20)
        assert share(found) == pytest.approx((1 - weight) * of_family + weight * 0.0, abs=1e-9)
    elsewhere = POOL._replace(region="eu-west-1", zone="eu-west-1a")
    assert pools({POOL: safe}).survival(elsewhere, HOUR_US, 8, 0.95) is None
    assert pools({}).survival(POOL, HOUR_US, 8, 0.95) is None


def test_a_providers_rate_is_a_prior_that_is_worth_one_revocation() -> None:
    rate = {POOL._replace(zone="us-east-1"): ProviderRate(0, RateKind.OF_A_MONTH, 0.25)}
    found = pools({}, rate).survival(POOL, 15 * DAY_US, 8, 0.95)
    assert found is not None
    assert (found.share, found.source) == (pytest.approx(0.75**0.5), QuoteSource.PROVIDER_RATE)
    assert (found.windows, found.at_least) == (0, 0.0)
    runs = [ObservedRun(0, HOUR_US, revoked=True), ObservedRun(0, DAY_US, revoked=False)]
    both = pools({POOL: runs}, rate).survival(POOL, 6 * HOUR_US, 8, 0.95)
    assert both is not None
    told = exp(log(0.75) * 6 / 720)
    region = 0.5 * 0.5 + 0.5 * told
    for _ in range(3):
        region = 0.5 / 21 + region * 20 / 21
    assert both.share == pytest.approx(region)
    assert (both.source, both.revocations, both.windows) == (QuoteSource.OBSERVED, 1, 4)


def test_a_share_of_stops_needs_own_stops() -> None:
    rate = {POOL: ProviderRate(0, RateKind.OF_STOPS, 0.5)}
    assert pools({}, rate).survival(POOL, HOUR_US, 8, 0.95) is None
    runs = [ObservedRun(0, 10 * HOUR_US, revoked=False)] * 10
    assert share(pools({POOL: runs}, rate), lifetime_us=4 * HOUR_US) == pytest.approx(exp(-0.5 * 4 / 10), abs=1e-9)


def test_what_never_failed_is_never_certain() -> None:
    runs = [ObservedRun(0, 100 * HOUR_US, revoked=False)] * 10
    found = pools({POOL: runs}).survival(POOL, HOUR_US, 8, 0.95)
    assert found is not None
    assert (found.share, found.windows) == (1.0, 1000)
    assert 0.9 < found.at_least < 1.0


def test_families_of_all_providers() -> None:
    assert [family_of(one) for one in ("c3.xlarge", "n2-standard-4", "Standard_D2_v3", "Standard_NC6", "plain")] == [
        "c3", "n2-standard", "Standard_D", "Standard_NC", "plain",
    ]  # fmt: skip
