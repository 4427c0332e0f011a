"""Leasing by expected profit: the rules against plain twins, the books of a lease, and a whole small backtest."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venue_costs as plain

from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US
from app.venues.rules import cost
from app.venues.rules.choose import ON_DEMAND, MachineOption, can_serve, expected_profit, most_profitable
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import PoolName, PriceSteps, VenuePrices
from app.venues.rules.survival import lattice, prices_at
from app.workbench.venues import walking
from app.workbench.venues.jobs import place_jobs, read_jobs
from app.workbench.venues.leases import NEVER, first_above, new_lease, use_until
from app.workbench.venues.ramp import backtest_ramp
from app.workbench.venues.setting import BacktestSetting, setting_of

KTH = Path(__file__).parents[3] / "shared/traces/workloads/kth-sp2.swf.gz"
HALF = HOUR_US // 2
RISING = PriceSteps(np.array([0, 4 * HOUR_US + HALF]), np.array([0.1, 0.9]), 99 * HOUR_US)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0.1, 0.11, 0.3, float("nan")])), min_size=1, max_size=15),
    st.sampled_from([0.1, 0.2]),
    st.integers(1, 300),
    st.integers(0, 59),
)
def test_the_cost_of_failing_is_that_of_its_plain_twin(lengths: list, bid: float, minutes: int, paid: int) -> None:
    ends = np.cumsum([length * 20 * 60_000_000 for length, _ in [*lengths, (2, 0.11)]])
    prices = np.array([price for _, price in [*lengths, (2, 0.11)]])
    steps = PriceSteps(np.concatenate(([0], ends[:-1])), prices, int(ends[-1]))
    told = list(zip(steps.at_us.tolist(), prices.tolist(), strict=True))
    lifetime_us, paid_us = minutes * 60_000_000, paid * 60_000_000
    starts = lattice(0, steps.end_us, EVERY_US).tolist()
    found = cost.failed_cost(cost.past_starts(steps, 60 * DAY_US, bid), 0.11, lifetime_us, paid_us)
    expected = plain.failed_cost(told, steps.end_us, starts, bid, lifetime_us, paid_us)
    assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0.1, 0.11, 0.3, float("nan")])), min_size=1, max_size=15),
    st.sampled_from([0.11, 0.2, 0.5]),
    st.integers(1, 300),
)
def test_replayed_costs_are_those_of_the_plain_twin(lengths: list, bid: float, minutes: int) -> None:
    ends = np.cumsum([length * 20 * 60_000_000 for length, _ in [*lengths, (2, 0.11)]])
    known = np.array([price for _, price in [*lengths, (2, 0.11)]])
    steps = PriceSteps(np.concatenate(([0], ends[:-1])), known, int(ends[-1]))
    told = list(zip(steps.at_us.tolist(), known.tolist(), strict=True))
    starts_us = lattice(0, steps.end_us, EVERY_US)
    prices = prices_at(steps.at_us, steps.price, starts_us)
    near = starts_us[np.abs(np.log(prices / 0.11)) <= 0.15][::2].tolist()
    done, failed = cost.replayed_costs(steps, starts_us, prices, np.array([bid]), minutes * 60_000_000)
    expected = plain.replayed_cost(told, steps.end_us, near, bid, minutes * 60_000_000)
    assert (done[0], failed[0]) == pytest.approx(expected, abs=1e-9)


def test_expected_profit_weighs_success_and_failure() -> None:
    option = MachineOption(0, 0.2, 0.9, 1.0, 0.4)
    assert expected_profit(option, 3.0, 0.5) == pytest.approx(0.9 * 2.0 + 0.1 * (-0.4 - 1.5))
    others = [option._replace(survival=0.5), option, option._replace(pool=1)]
    assert most_profitable(others, 3.0, 0.5) == option
    assert can_serve(14, 7.5, 14, 7.5)
    assert not can_serve(26, 7.0, 14, 7.5)


def test_a_last_hour_that_the_provider_ends_is_free_and_one_that_the_user_ends_is_not() -> None:
    lease = new_lease(RISING, 0, 0.5, HALF)
    assert lease.revoked_us == 4 * HOUR_US + HALF
    assert use_until(lease, RISING, 1.0, 2 * HOUR_US) == pytest.approx(0.2)
    assert lease.paid_us == 2 * HOUR_US + HALF
    assert lease.is_idle(2 * HOUR_US)
    assert not lease.is_idle(2 * HOUR_US + HALF)
    assert use_until(lease, RISING, 1.0, 9 * HOUR_US) == pytest.approx(0.2)
    assert lease.ready_us == 4 * HOUR_US + HALF
    shifted = new_lease(RISING, 0, 0.5, 0)
    assert use_until(shifted, RISING, 1.0, 9 * HOUR_US) == pytest.approx(0.4)
    held = new_lease(RISING, 0, 0.5, 0)
    assert use_until(held, RISING, 1.0, 4 * HOUR_US + HALF // 3) == pytest.approx(0.4)
    assert (held.ready_us, held.paid_us) == (4 * HOUR_US + HALF // 3, 5 * HOUR_US)
    fixed = new_lease(RISING, 0, ON_DEMAND, 0)
    assert use_until(fixed, RISING, 2.0, 3 * HOUR_US + 1) == pytest.approx(8.0)
    assert first_above(RISING.at_us, RISING.price, 0, 0.9) == NEVER


def small(seed: int = 0) -> BacktestSetting:
    draw = np.random.default_rng(seed)
    pools = {}
    for zone, kind, level in (("a", "m3.medium", 0.01), ("b", "c3.xlarge", 0.04)):
        at_us = 1_430_000_000_000_000 + np.cumsum(draw.integers(600, 5400, 30 * 28)) * 1_000_000
        price = np.round(level * np.exp(draw.normal(0, 0.3, len(at_us))), 4)
        name = PoolName("aws", "us-east-1", f"us-east-1{zone}", kind, "Linux/UNIX")
        pools[name] = PriceSteps(at_us, price, int(at_us[-1]))
    prices = VenuePrices(pools, ())
    return setting_of(prices, {}, (prices.from_us + 20 * DAY_US, None), 15 * DAY_US, seed, lambda *_: None)


def test_a_backtest_earns_more_at_higher_prices_and_fails_less_at_higher_levels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walking, "DRAWN_PER_BLOCK", 200)
    made = small()
    thesis = backtest_ramp(made, "thesis", [0.0, 1.0], None, 60)
    learned = backtest_ramp(made, "tenure", [], None, 60)
    cells = thesis["cells"]
    assert thesis["profit"] == cells["S_lb 1 e 0.25 p 0.25"]["profit"]
    assert cells["S_lb 0 e 0.25 p 0.25"]["tau"] > cells["S_lb 1 e 0.25 p 0.25"]["tau"]
    profits = [cells[f"S_lb 1 e 0.25 p {price:g}"]["profit"] for price in (0.0, 0.15, 0.25, 0.5)]
    assert profits == sorted(profits)
    assert learned["profit"] > cells["S_lb 0 e 0.25 p 0.25"]["profit"]
    assert learned["profit_low"] <= learned["profit"] <= learned["profit_high"]
    careful = learned["cells"]["survival >= 0.97 e 0.25 p 0.25"]
    assert careful["tau"] < learned["tau"]
    assert 0.0 < careful["paid_over_calibrated"] < 3.0


def test_jobs_are_read_from_logs_and_scaled_onto_the_tested_time(tmp_path: Path) -> None:
    rows = [
        f"{number} {number * 100} 0 {run} 1 {'-1 ' * 13}".strip() for number, run in ((1, 3600), (2, 30), (3, 7200))
    ]
    log, packed, table = tmp_path / "log.swf", tmp_path / "log.swf.gz", tmp_path / "jobs.csv"
    log.write_text("; a comment\n" + "\n".join(rows) + "\n")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    table.write_text("start_s,lifetime_s,cores\n100,3600,1\n300,7200,1\n")
    assert read_jobs(log) == read_jobs(packed) == read_jobs(table)
    assert [job[:2] for job in read_jobs(log)] == [(100.0, 3600.0), (300.0, 7200.0)]
    made = small()
    jobs = place_jobs(made, read_jobs(log), 10, 1)
    assert [job.now_us for job in jobs] == [made.from_us, made.to_us - 2 * DAY_US]
    assert [job.lifetime_us for job in jobs] == [HOUR_US, 2 * HOUR_US]
    assert [job.lifetime_us for job in place_jobs(made, read_jobs(log), 1, 1)] == [HOUR_US], "the first jobs count"
    for broken in ("1 2 3\n", rows[0].replace("100", "x"), "", rows[0].replace("3600", "nan"), "\x00"):
        log.write_text(broken)
        with pytest.raises(InputError):
            read_jobs(log)


@pytest.mark.skipif(not KTH.is_file(), reason=f"the recorded workload is not in {KTH}")
def test_a_recorded_workload_is_read() -> None:
    assert len(read_jobs(KTH)) == 20_048
