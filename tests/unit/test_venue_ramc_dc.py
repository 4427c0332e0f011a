"""Provisioning of jobs with deadlines: the rules against plain twins, and small whole backtests."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import venue_jobs as plain

from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.checkpoints import CheckpointRule, resume_us, suspend_us
from app.venues.rules.choose import ON_DEMAND
from app.venues.rules.history import PoolName, PriceSteps, VenuePrices
from app.venues.rules.moldable import Parallelism
from app.venues.rules.provision import DeadlineNeeds, MachineWay, provision
from app.venues.rules.survival import available_bids, least_bid, least_shares, revocations_under
from app.workbench.venues.deadlinejobs import deadline_jobs
from app.workbench.venues.jobs import VenueJob, place_jobs, read_jobs
from app.workbench.venues.leastbids import LeastBids
from app.workbench.venues.provisioning import Scheme
from app.workbench.venues.ramcdc import DeadlineFleet, backtest_ramc_dc
from app.workbench.venues.setting import BacktestSetting, setting_of

TIMES = st.integers(0, 30).map(float)
WAYS = st.builds(
    MachineWay,
    kind=st.sampled_from("abc"),
    pool=st.integers(0, 3),
    bid=st.sampled_from([0.1, 0.2]),
    takes_us=TIMES,
    cost=st.integers(0, 6).map(float),
    survival=st.sampled_from([0.0, 0.5, 1.0]),
)


@settings(max_examples=1000, deadline=None)
@given(
    TIMES,
    st.fixed_dictionaries(dict.fromkeys("abc", TIMES)),
    st.sets(st.sampled_from("abc"), min_size=1),
    st.lists(st.tuples(WAYS, st.sampled_from([0.0, 3.0, 9.0])), max_size=6),
    st.lists(WAYS, max_size=6),
)
def test_provisioning_is_that_of_its_plain_twin(
    left: float, on_demand: dict, fast: set, leased: list, spot: list
) -> None:
    held = [way._replace(wait_us=wait, number=number) for number, (way, wait) in enumerate(leased)]
    fixed = [MachineWay(kind, 0, ON_DEMAND, on_demand[kind], 7.0, 1.0) for kind in "abc"]
    found = provision(DeadlineNeeds(left, on_demand, frozenset(fast)), held, [*spot, *fixed])
    expected = plain.provision_by_loops(
        left, on_demand, fast, [tuple(w) for w in held], [tuple(w) for w in spot + fixed]
    )
    assert (tuple(found.way), found.is_breach) == expected


def small(seed: int = 0) -> BacktestSetting:
    draw = np.random.default_rng(seed)
    pools = {}
    for zone, kind, level in (("a", "m3.medium", 0.01), ("b", "c3.xlarge", 0.04), ("a", "c3.xlarge", 0.05)):
        at_us = 1_430_000_000_000_000 + np.cumsum(draw.integers(600, 5400, 30 * 28)) * 1_000_000
        price = np.round(level * np.exp(draw.normal(0, 0.3, len(at_us))), 4)
        pools[PoolName("aws", "us-east-1", f"us-east-1{zone}", kind, "Linux/UNIX")] = PriceSteps(
            at_us, price, int(at_us[-1])
        )
    prices = VenuePrices(pools, ())
    return setting_of(prices, {}, (prices.from_us + 20 * DAY_US, None), 15 * DAY_US, seed, lambda *_: None)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0.1, 0.11, 0.3, float("nan")])), min_size=1, max_size=15),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.2, 0.3]),
)
def test_availability_and_hazard_are_those_of_the_plain_twins(lengths: list, shares: list, bid: float) -> None:
    ends = np.cumsum([length for length, _ in lengths])
    prices = np.array([price for _, price in lengths])
    steps = PriceSteps(np.concatenate(([0], ends[:-1])), prices, int(ends[-1]))
    told = list(zip(steps.at_us.tolist(), prices.tolist(), strict=True))
    found = available_bids(steps, shares)
    for share, one in zip(shares, found.tolist(), strict=True):
        expected = plain.available_bid(told, steps.end_us, share)
        assert one == expected or (math.isnan(one) and math.isnan(expected))
    counted = revocations_under(steps.at_us, steps.price, steps.end_us, bid)
    assert counted == plain.revocations_under(told, steps.end_us, bid)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, float("nan")]), max_size=12),
    st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.0]), min_size=1, max_size=3),
)
def test_least_bids_for_several_levels_are_those_for_each(highest: list, shares: list) -> None:
    found = least_shares(np.array(highest), shares)
    for share, one in zip(shares, found.tolist(), strict=True):
        alone = least_bid(np.array(highest), share, -math.inf)
        assert one == alone or (math.isnan(one) and math.isnan(alone))


def test_a_small_backtest_keeps_the_books_of_jobs_and_machines() -> None:
    made = small()
    found = backtest_ramc_dc(made, "thesis", [0.0, 1.0], None, 60)
    cells = found["cells"]
    assert set(cells) == {
        f"S_lb {level} t_split {split} {rule}"
        for level in (0, 1)
        for split in (0, "inf")
        for rule in ("none", "hourly", "rising")
    }
    first = cells["S_lb 1 t_split 0 none"]
    assert {name: found[name] for name in first} == first
    for split in ("0", "inf"):
        low, high = (cells[f"S_lb {level} t_split {split} none"] for level in (0, 1))
        assert low["early_terminations"] > high["early_terminations"]
        assert low["breaches"] >= high["breaches"]
    assert all(0.0 < cell["cost_over_on_demand"] < 1.0 for cell in cells.values())
    assert backtest_ramc_dc(small(), "thesis", [0.0, 1.0], None, 60) == found


def test_a_fleet_on_demand_keeps_every_deadline_and_pays_whole_hours() -> None:
    made = small()
    jobs = deadline_jobs(made, place_jobs(made, None, 40, 1))
    fleet = DeadlineFleet(made, LeastBids(made, []), Scheme(None, 0.0, CheckpointRule.NONE), jobs)
    fleet.run()
    assert all(job.submit_us < job.ended_us <= job.deadline_us for job in jobs)
    assert all(job.revocations == 0 for job in jobs)
    hours = {kind: sum(job.own_us for job in jobs if job.kind == kind) / HOUR_US for kind in ("m3.medium", "c3.xlarge")}
    least = hours["m3.medium"] * 0.07 + hours["c3.xlarge"] * 0.21
    assert least <= fleet.paid <= 2 * least


def test_with_the_safety_net_every_deadline_is_kept_at_the_lowest_bids() -> None:
    made = small()
    for has_net in (False, True):
        jobs = deadline_jobs(made, place_jobs(made, None, 80, 1))
        fleet = DeadlineFleet(made, LeastBids(made, [0.0]), Scheme(0, 0.0, CheckpointRule.HAZARD, has_net), jobs)
        fleet.run()
        assert sum(job.revocations for job in jobs) > 20
        assert any(job.ended_us > job.deadline_us for job in jobs) != has_net
        assert all(job.ended_us - job.submit_us >= job.own_us - 1 for job in jobs)


@pytest.mark.parametrize("most", [0.1, 0.4])
def test_no_bid_is_above_what_a_scheme_allows(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    made, taken = small(), list[MachineWay]()
    jobs = deadline_jobs(made, place_jobs(made, None, 60, 1))
    scheme = Scheme(0, 0.0, CheckpointRule.HAZARD, has_net=True, most_over_on_demand=most)
    fleet = DeadlineFleet(made, LeastBids(made, [1.0]), scheme, jobs)
    lease = fleet._lease
    monkeypatch.setattr(fleet, "_lease", lambda way, now_us: (taken.append(way), lease(way, now_us))[1])
    fleet.run()
    bids = [way.bid / made.on_demand[way.pool] for way in taken if way.bid != ON_DEMAND]
    assert bids
    assert max(bids) <= most * (1 + 1e-12)
    assert all(job.ended_us <= job.deadline_us for job in jobs)


def test_a_revoked_job_goes_on_from_its_checkpoint_elsewhere() -> None:
    hour = HOUR_US
    names = [PoolName("aws", "us-east-1", f"us-east-1{zone}", "m3.medium", "Linux/UNIX") for zone in "ab"]
    calm = PriceSteps(np.array([0, 40 * hour]), np.array([0.02, 0.02]), 99 * hour)
    rising = PriceSteps(np.array([0, 48 * hour + 3 * hour // 2]), np.array([0.01, 0.5]), 99 * hour)
    made = setting_of(
        VenuePrices(dict(zip(names, (calm, rising), strict=True)), ()),
        {},
        (48 * hour, None),
        DAY_US,
        0,
        lambda *_: None,
    )
    for rule, saved_h in ((CheckpointRule.NONE, 0.0), (CheckpointRule.HOURLY, 1.0)):
        [job] = deadline_jobs(made, [VenueJob(48 * hour, 4 * hour, 0)])
        fleet = DeadlineFleet(made, LeastBids(made, [1.0]), Scheme(0, 0.0, rule), [job])
        fleet.run()
        pause, read = suspend_us(job.memory_gib), resume_us(job.memory_gib, is_same_zone=False)
        left = 4 - saved_h
        later = 1.5 * hour + left * hour + (read + int(left) * pause if saved_h else 0)
        assert job.revocations == 1
        assert job.ended_us - job.submit_us == pytest.approx(later, abs=2)
        moved = 0.01 + 0.01 * (job.memory_gib if saved_h else 1.0)
        hours = math.ceil((later - 1.5 * hour) / hour)
        assert fleet.paid == pytest.approx(0.01 + 0.02 * hours + moved)


def two_zones(second: PriceSteps) -> BacktestSetting:
    names = [PoolName("aws", "us-east-1", f"us-east-1{zone}", "m3.medium", "Linux/UNIX") for zone in "ab"]
    calm = PriceSteps(np.array([0, 40 * HOUR_US]), np.array([0.02, 0.02]), 99 * HOUR_US)
    prices = VenuePrices(dict(zip(names, (calm, second), strict=True)), ())
    return setting_of(prices, {}, (48 * HOUR_US, None), DAY_US, 0, lambda *_: None)


@pytest.mark.parametrize(("later_price", "leaves"), [(0.05, True), (0.024, False), (0.005, False)])
def test_a_job_leaves_at_the_end_of_a_paid_hour_where_it_is_much_cheaper_elsewhere(
    later_price: float, leaves: bool
) -> None:
    hour = HOUR_US
    changes_us = np.array([0, 30 * hour, 31 * hour, 48 * hour + 3 * hour // 2])
    made = two_zones(PriceSteps(changes_us, np.array([0.01, 0.06, 0.01, later_price]), 99 * hour))
    [job] = deadline_jobs(made, [VenueJob(48 * hour, 10 * hour, 0)])
    scheme = Scheme(0, 0.0, CheckpointRule.HAZARD, has_net=True, looks_again=True)
    fleet = DeadlineFleet(made, LeastBids(made, [1.0]), scheme, [job])
    fleet.run()
    pause, read = suspend_us(job.memory_gib), resume_us(job.memory_gib, is_same_zone=False)
    assert (job.launches, job.revocations) == (1 + leaves, 0)
    assert job.ended_us - job.submit_us == pytest.approx(10 * hour + (pause + read if leaves else 0), abs=2)
    moved = 0.01 * (1.0 + job.memory_gib) if leaves else 0.01
    assert fleet.paid == pytest.approx(0.02 + (9 * 0.02 if leaves else 8 * later_price) + moved)


def test_a_job_does_not_leave_if_it_could_be_late_from_there() -> None:
    """The last checkpoint would end when on demand there is no time left to read it."""
    made = two_zones(PriceSteps(np.array([0, 48 * HOUR_US + 60]), np.array([0.01, 0.05]), 99 * HOUR_US))
    [job] = deadline_jobs(made, [VenueJob(48 * HOUR_US, 3 * HOUR_US, 0)])
    job.deadline_us = job.submit_us + 3 * HOUR_US + 2 * suspend_us(job.memory_gib)
    scheme = Scheme(0, 0.0, CheckpointRule.HAZARD, has_net=True, looks_again=True)
    fleet = DeadlineFleet(made, LeastBids(made, [1.0]), scheme, [job])
    fleet.run()
    assert job.ended_us <= job.deadline_us


def test_moldable_jobs_declare_their_parallelism(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    head = "start_s,lifetime_s,cores,parallelism,sigma\n"
    table.write_text(f"{head}100,3600,1,40,0.5\n200,7200,1,,\n")
    made = small()
    placed = place_jobs(made, read_jobs(table), 2, 1)
    assert [job.parallelism for job in placed] == [Parallelism(40.0, 0.5), None]
    jobs = deadline_jobs(made, placed)
    medium, large = (made.machine(made.names[pool]) for pool in (0, 1))
    assert medium is not None
    assert large is not None
    assert jobs[0].work_us(large) < jobs[0].work_us(medium) < math.inf
    for broken in ("100,3600,1,0.5,0\n", "100,3600,1,4,-1\n", "100,3600,1,x,1\n", "100,3600,1\n"):
        table.write_text(head + broken)
        with pytest.raises(InputError):
            read_jobs(table)
