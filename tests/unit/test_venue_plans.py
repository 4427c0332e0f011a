"""The planner: the state machine of a job against an oracle, options, choices against all choices, whole plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf, isclose, nan
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.venue_plans import best_choice, stepped

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.assign import ChoiceMethod, PlanLimits, choose_options
from app.venues.rules.calibrate import target_of
from app.venues.rules.checkpoints import guarded_run, periodic_run
from app.venues.rules.features import FEATURES
from app.venues.rules.history import PriceSteps
from app.venues.rules.jobreplay import (
    COST,
    DONE,
    ENDED,
    FIXED,
    HIDDEN,
    LAUNCHES,
    LOST,
    STATE,
    JobTerms,
    ReplayedStarts,
    ReplayWork,
    TooManyLaunches,
    replayed,
    replayed_segments,
)
from app.venues.rules.jobsteps import NEVER_US, JobMoveKind, JobPolicy, WayTimes, advised_move, guarded
from app.venues.rules.learned import LearnedSurvival
from app.venues.rules.planmaking import (
    STARTS,
    BudgetImpossible,
    DeadlineImpossible,
    PlanQuestion,
    make_plan,
    share_done,
    ways_after,
)
from app.venues.rules.planned import (
    FIXED_POOL,
    NO_POOL,
    CheckpointTimes,
    PlanJob,
    PlanOption,
    PlanPool,
    SurvivalSource,
    curve_of_rate,
)
from app.venues.rules.planoptions import known_pool, pool_options, undominated, ways_of
from app.venues.rules.training import LEVELS, TrainedSurvival
from app.venues.rules.types import MachineType

MACHINE = MachineType(14.0, 7.5, 0.21)
MINUTE_US = 60_000_000


def pool(steps: PriceSteps | None, group: str = "a", cap: int | None = None, **more) -> PlanPool:
    source = SurvivalSource.PROVIDER_RATE if steps is None else SurvivalSource.PRICE_CROSSING
    return PlanPool(group, MACHINE, source, steps, cap=cap, **more)


def moving(seed: int, days: int = 30, mean: float = 0.03, spread: float = 0.3) -> PriceSteps:
    draw = np.random.default_rng(seed)
    at_us = np.arange(0, days * DAY_US, HOUR_US // 4, dtype=np.int64)
    spikes = np.where(draw.random(len(at_us)) < 0.004, 8.0, 1.0)
    price = mean * np.exp(draw.normal(0.0, spread, len(at_us)).cumsum() * 0.05) * spikes
    return PriceSteps(at_us, np.round(price, 4) + 0.0001, days * DAY_US)


@settings(deadline=None)
@given(
    work=st.floats(0.1, 60.0),
    every=st.one_of(st.just(inf), st.floats(0.1, 10.0)),
    pause=st.integers(0, 40),
    room=st.floats(-5.0, 200.0),
    read=st.floats(0.0, 2.0),
    speed=st.floats(0.3, 3.0),
    is_saved=st.booleans(),
)
def test_the_compiled_net_is_that_of_the_backtest(work, every, pause, room, read, speed, is_saved) -> None:
    work, every, room, read = (value * HOUR_US for value in (work, every, room, read))
    pause *= MINUTE_US
    run = periodic_run(work, every, pause)
    length, count, kept, is_cut = guarded(work, every, float(pause), room, read, speed, is_saved)
    assert 0 <= count <= len(run.finished_us)
    expected = [  # where a run just fits, rounding decides
        guarded_run(run, room + nudge, read, speed, pause, is_saved=is_saved) for nudge in (0.0, -2.0, 2.0)
    ]
    assert any(
        one.is_cut == is_cut
        and isclose(length, one.length_us, abs_tol=10.0)
        and (not is_cut or isclose(kept, one.saved_us[-1] if one.saved_us else 0.0, abs_tol=10.0))
        for one in expected
    )


@pytest.mark.parametrize(("room", "speed", "written"), [(HOUR_US, 1.0, 359_999), (1e15, 1.0, 10**10), (0.0, 1.0, 0)])
def test_a_run_of_many_checkpoints_takes_no_longer_than_one_of_few(room: float, speed: float, written: int) -> None:
    began_s = process_time()
    _, count, _, _ = guarded(1e14, 1e4, 1e4, room, 0.0, speed, False)
    assert count == written
    assert process_time() - began_s < 2.0, "it steps through all of them"


POOLS = st.lists(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from([0.02, 0.05, 0.1, 0.4])), min_size=3, max_size=40),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(
    pools=POOLS,
    bids=st.lists(st.sampled_from([0.03, 0.06, 0.2]), min_size=3, max_size=3),
    hours=st.floats(0.2, 30.0),
    slack=st.floats(1.0, 3.0),
    checkpoint=st.sampled_from([(inf, NEVER_US, 0.0), (2.0 * HOUR_US, 60e6, 90e6), (0.5 * HOUR_US, 300e6, 30e6)]),
    launch=st.sampled_from([0.0, 120e6]),
)
def test_the_replay_steps_as_the_oracle_does(pools, bids, hours, slack, checkpoint, launch) -> None:
    ways = tuple(WayTimes(hours * HOUR_US * (1.0 - number / 10), *checkpoint, launch) for number in range(len(pools)))
    policy = JobPolicy(ways, WayTimes(hours * HOUR_US, read_us=checkpoint[2], launch_us=launch))
    given_steps = [[(0, 0.05), *_times(one)] for one in pools]
    past = [
        PriceSteps(np.array([at for at, _ in one]), np.array([price for _, price in one]), 200 * DAY_US)
        for one in given_steps
    ]
    left_us = hours * HOUR_US * slack + launch + 10 * MINUTE_US
    starts = ReplayedStarts(np.array([HOUR_US]), np.ones(1), np.full((1, len(pools)), inf))
    asked = ways_of([(pool(one), bid) for one, bid in zip(past, bids, strict=False)])
    [found] = replayed(starts, asked, JobTerms(left_us, 0.21, 0), *policy.columns)
    cost, ended, lost = stepped(policy, [*zip(given_steps, bids, strict=False)], HOUR_US, left_us, 0.21)
    assert found[STATE] == DONE
    assert (found[LOST], round(found[COST], 6)) == (lost, round(cost, 6))
    assert isclose(found[ENDED], ended, abs_tol=5.0)
    assert found[ENDED] <= left_us + 5.0, "the net keeps every deadline"


def _times(rows):
    at, found = 0, []
    for minutes, price in rows:
        at += minutes * MINUTE_US
        found.append((at, price))
    return found


def test_what_is_simulated_is_what_is_advised() -> None:
    """The advice, asked for step by step with what a caller sees, makes the very stretches of the replay."""
    for seed in range(50):
        steps = [moving(seed * 3 + number, days=6) for number in range(3)]
        ways = tuple(WayTimes(20.0 * HOUR_US, 3.0 * HOUR_US, 120e6, 90e6, 60e6) for _ in steps)
        policy = JobPolicy(ways, WayTimes(20.0 * HOUR_US, read_us=90e6, launch_us=60e6))
        bids, start_us, left_us = (0.032, 0.034, 0.036), DAY_US, 40.0 * HOUR_US
        starts = ReplayedStarts(np.array([start_us]), np.ones(1), np.full((1, 3), inf))
        asked, terms = (
            ways_of([(pool(one), bid) for one, bid in zip(steps, bids, strict=True)]),
            JobTerms(left_us, 0.21, 0),
        )
        segments = replayed_segments(0, starts, asked, terms, *policy.columns).tolist()
        assert _advised(policy, steps, bids, start_us, left_us) == [
            (int(way), round(begin), round(end), lost == 1.0) for way, begin, end, lost in segments
        ]


def _advised(policy, steps, bids, start_us, left_us):
    """Step the advice as a caller would, who sees prices as they come and tells what was saved."""
    now_us, saved, found = float(start_us), 0.0, []
    while saved < 1.0 - 1e-9:
        seen = [one.price_at(int(now_us)) <= bid for one, bid in zip(steps, bids, strict=True)]
        move = advised_move(policy, start_us + left_us - now_us, saved, seen)
        until_us = now_us + move.at_most_us
        if move.kind is JobMoveKind.WAIT:
            now_us = min([until_us, *[float(one.at_us[one.step_at(int(now_us)) + 1]) for one in steps]])
            continue
        lost_us = inf
        if move.kind is JobMoveKind.RUN:
            one, bid = steps[move.way], bids[move.way]
            lost_us = next(
                (
                    float(at)
                    for at, price in zip(one.at_us, one.price, strict=True)
                    if now_us < at < until_us and price > bid
                ),
                inf,
            )
        kept, is_lost = move.saved, lost_us < until_us
        if is_lost:
            way = policy.ways[move.way]
            worked_us = lost_us - now_us - way.launch_us - (way.read_us if saved else 0.0)
            count = max(int(worked_us // (way.every_us + way.pause_us)), 0)
            kept = saved + count * way.every_us / way.run_us
        way_number = move.way if move.kind is JobMoveKind.RUN else -2
        found.append((way_number, round(now_us - start_us), round(min(lost_us, until_us) - start_us), is_lost))
        now_us, saved = min(lost_us, until_us), kept
    return found


def test_a_gap_hides_a_replay_and_rates_are_drawn() -> None:
    gap = PriceSteps(np.array([0, 5 * HOUR_US, 6 * HOUR_US]), np.array([0.02, nan, 0.02]), 9 * DAY_US)
    policy = JobPolicy((WayTimes(8.0 * HOUR_US),), WayTimes(8.0 * HOUR_US))
    starts = ReplayedStarts(np.array([0, 7 * HOUR_US]), np.ones(2), np.full((2, 1), inf))
    found = replayed(starts, ways_of([(pool(gap), 0.1)]), JobTerms(20.0 * HOUR_US, 0.21, 0), *policy.columns)
    assert found[:, STATE].tolist() == [HIDDEN, DONE]
    drawn = ReplayedStarts(np.zeros(2, np.int64), np.ones(2), np.array([[inf], [2.0 * HOUR_US]]))
    rated = pool(None, steady=0.05, curve=curve_of_rate(0.1))
    found = replayed(drawn, ways_of([(rated, 0.0)]), JobTerms(20.0 * HOUR_US, 0.21, 0), *policy.columns)
    assert found[:, LOST].tolist() == [0.0, 1.0]
    assert found[:, COST].tolist() == pytest.approx([0.4, 2 * 0.05 + 8 * 0.21])


def test_a_rate_is_a_constant_hazard() -> None:
    curve = curve_of_rate(0.2)
    assert curve.share_alive(30 * DAY_US) == pytest.approx(0.8, abs=0.01)
    lifetimes = curve.lifetimes_us(np.array([0.1999]))
    assert lifetimes[0] == pytest.approx(30 * DAY_US, rel=0.06)
    assert curve_of_rate(0.0).share_alive(DAY_US) == 1.0


def option(pool_: int, loss: float, survival: float = 0.99, cost: float | None = None) -> PlanOption:
    return PlanOption(pool_, 0.1, WayTimes(1.0), survival, None, 1.0, loss if cost is None else cost, 1.0, loss)


def random_options(seed: int, jobs: int = 5, pools: int = 4) -> list[list[PlanOption]]:
    draw = np.random.default_rng(seed)
    return [
        [option(at, float(draw.uniform(1, 5)), float(draw.uniform(0.9, 1.0))) for at in range(pools)]
        + [option(FIXED_POOL, float(draw.uniform(4, 9)), 1.0)]
        for _ in range(jobs)
    ]


def test_without_coupling_each_job_takes_its_best_which_is_optimal() -> None:
    for seed in range(20):
        options = random_options(seed)
        pools = [pool(moving(0, 1), f"zone {at}") for at in range(4)]
        found = choose_options(options, pools, PlanLimits())
        assert found is not None
        assert found.method is ChoiceMethod.EACH_BEST
        losses = sum(of_job[at].loss for of_job, at in zip(options, found.chosen, strict=True))
        assert losses == pytest.approx(best_choice(options, lambda _: True))


def test_caps_alone_are_an_assignment_that_is_optimal() -> None:
    for seed in range(20):
        options = random_options(seed)
        pools = [pool(moving(0, 1), f"zone {at}", cap=1) for at in range(4)]

        def fits(chosen):
            used = [one.pool for one in chosen if one.pool >= 0]
            return len({*used}) == len(used)

        found = choose_options(options, pools, PlanLimits())
        assert found is not None
        assert found.method in {ChoiceMethod.ASSIGNMENT, ChoiceMethod.EACH_BEST}
        losses = sum(of_job[at].loss for of_job, at in zip(options, found.chosen, strict=True))
        assert losses == pytest.approx(best_choice(options, fits))


def test_shares_budgets_and_risks_are_kept_within_the_gap_that_is_told() -> None:
    for seed in range(10):
        options = random_options(seed, jobs=6)
        pools = [pool(moving(0, 1), f"zone {at % 2}") for at in range(4)]
        limits = PlanLimits(group_share=0.4, group_risk=0.15)

        def fits(chosen):
            for group in (0, 1):
                taken = [one for one in chosen if one.pool >= 0 and one.pool % 2 == group]
                if len(taken) > 2 or np.prod([one.survival for one in taken]) < 0.85 - 1e-9:
                    return False
            return True

        found = choose_options(options, pools, limits)
        assert found is not None
        chosen = [of_job[at] for of_job, at in zip(options, found.chosen, strict=True)]
        assert fits(chosen)
        best = best_choice(options, fits)
        assert best - 1e-9 <= sum(one.loss for one in chosen) <= best * (1.0 + max(found.gap, 0.01) + 1e-9)


def test_a_budget_that_cannot_be_kept_has_no_choice_and_none_is_dearer_than_it() -> None:
    options = [[option(0, -3.0, cost=4.0), option(NO_POOL, 0.0)], [option(1, -2.0, cost=2.0), option(NO_POOL, 0.0)]]
    pools = [pool(moving(0, 1), "a"), pool(moving(0, 1), "b")]
    found = choose_options(options, pools, PlanLimits(budget=4.5))
    assert found is not None
    assert found.chosen == [0, 1]
    forced = [[option(0, 4.0), option(FIXED_POOL, 5.0)]]
    assert choose_options(forced, pools, PlanLimits(budget=3.0)) is None


def test_dominated_options_are_left_out() -> None:
    options = [option(0, 2.0, 0.9), option(0, 3.0, 0.8), option(0, 4.0, 0.99), option(0, 2.0, 0.85)]
    assert undominated(options) == [options[0], options[2]]


def test_no_way_after_a_loss_is_dearer_than_on_demand() -> None:
    options = [option(0, 1.0), option(1, 30.0, 0.999), option(2, 4.0), option(FIXED_POOL, 5.0, 1.0)]
    pools = [pool(moving(0), group=group) for group in "abc"]
    assert [one.pool for one in ways_after(options, options[0], pools)] == [0, 2]
    assert [one.pool for one in ways_after(options, options[1], pools)] == [1, 0, 2], "what was chosen stays the first"
    assert [one.pool for one in ways_after(options[:3], options[0], pools)] == [0, 2, 1], "nothing is on demand"


def question(*jobs: PlanJob, limits: PlanLimits = PlanLimits()) -> PlanQuestion:  # noqa: B008
    return PlanQuestion(jobs, limits, 0, 30 * DAY_US, 30 * DAY_US)


def job(name: str = "j", hours: float = 6.0, slack: float = 2.0, **more) -> PlanJob:
    fields = {"probability": 0.9, "checkpoint": CheckpointTimes(60_000_000, 60_000_000), **more}
    deadline_us = None if "value" in more else 30 * DAY_US + int(hours * slack * HOUR_US)
    return PlanJob(name, int(hours * HOUR_US), 14.0, 7.5, deadline_us, **fields)


def test_a_plan_is_cheap_and_in_time() -> None:
    pools = [pool(moving(seed), f"zone {seed}") for seed in range(4)]
    made = make_plan(question(*[job(f"j{at}", 2.0 + at) for at in range(8)], limits=PlanLimits(0.6)), pools)
    assert len(made.costs) > STARTS * 0.8
    assert (np.diff(made.costs) >= 0).all()
    for one in made.jobs:
        assert share_done(one) == 1.0
        assert one.fixed is not None
        assert one.chosen.pool >= 0
        assert one.chosen.cost < 0.5 * one.fixed.cost
        assert one.chosen.survival >= 0.9
        assert len({option_.pool for option_ in one.ways}) == len(one.ways) == 4
    zones = [one.chosen.pool for one in made.jobs]
    assert max(zones.count(zone) for zone in zones) <= 4


def test_the_same_question_has_the_same_plan() -> None:
    pools = [pool(moving(1)), pool(None, "rated", steady=0.02, curve=curve_of_rate(0.15))]
    first, second = (make_plan(question(job(), job("k", 20.0)), pools) for _ in range(2))
    assert first.costs.tolist() == second.costs.tolist()
    assert [one.chosen for one in first.jobs] == [one.chosen for one in second.jobs]


def test_a_young_pool_shortens_no_plan_that_does_not_use_it() -> None:
    old, young = pool(moving(1)), moving(2)
    since = young.step_at(29 * DAY_US)
    small = MachineType(14.0, 1.0, 0.1)
    beside = replace(pool(PriceSteps(young.at_us[since:], young.price[since:], young.end_us)), machine=small)
    alone, both = (make_plan(question(job()), pools) for pools in ([old], [old, beside]))
    assert both.costs.tolist() == alone.costs.tolist()


def test_a_dearer_start_on_spot_than_on_demand_is_not_chosen() -> None:
    made = make_plan(question(job()), [pool(moving(1, mean=0.5))])
    assert made.jobs[0].chosen.pool == FIXED_POOL
    assert made.jobs[0].replays.found[:, FIXED].min() > 0
    assert made.jobs[0].replays.found[:, LAUNCHES].tolist() == [1.0] * STARTS


def test_a_job_for_its_value_runs_only_where_it_earns() -> None:
    pools = [pool(moving(2))]
    worth, not_worth = (
        make_plan(question(job(value=value, penalty=0.25, probability=0.5)), pools).jobs[0] for value in (9.0, 0.01)
    )
    assert worth.chosen.pool == 0
    assert worth.chosen.loss < 0
    assert not_worth.chosen.pool == NO_POOL


def test_impossible_deadlines_and_budgets_say_what_is_possible() -> None:
    with pytest.raises(DeadlineImpossible) as late:
        make_plan(question(job(slack=0.5)), [pool(moving(1))])
    assert late.value.earliest_us == 30 * DAY_US + 6 * HOUR_US
    rated = pool(None, steady=0.02, curve=curve_of_rate(0.15))
    bare = PlanPool("x", MachineType(inf, inf, nan), rated.source, steady=0.02, curve=rated.curve)
    with pytest.raises(DeadlineImpossible) as unknown:
        make_plan(question(job()), [bare])
    assert unknown.value.earliest_us is None
    with pytest.raises(BudgetImpossible):
        make_plan(question(job(), limits=PlanLimits(budget=0.001)), [pool(moving(1))])


def test_only_rates_make_a_plan_that_keeps_its_deadline() -> None:
    rates = [pool(None, f"zone {at}", steady=1.0 / 15, curve=curve_of_rate(0.025 + at / 20)) for at in range(3)]
    made = make_plan(question(job(hours=48.0, slack=1.25)), rates)
    assert made.jobs[0].chosen.pool == 0
    assert share_done(made.jobs[0]) == 1.0
    assert made.jobs[0].chosen.cost < 0.40 * 48 * MACHINE.on_demand


@pytest.mark.parametrize("checkpoint", [CheckpointTimes(0, 0), CheckpointTimes(0, 0, 1e6), CheckpointTimes(1, 0)])
def test_checkpoints_that_cost_nothing_or_come_each_second_make_a_plan_soon(checkpoint: CheckpointTimes) -> None:
    pools = [pool(moving(seed), f"zone {seed}") for seed in range(4)]
    jobs = [job(f"j{at}", 200.0, checkpoint=checkpoint) for at in range(20)]
    began_s = process_time()
    made = make_plan(question(*jobs), pools)
    assert process_time() - began_s < 20.0
    assert all(share_done(one) == 1.0 for one in made.jobs)


@pytest.mark.parametrize(("count", "slack_us"), [(1, 10_000_000), (40, 100_000_000)])
def test_jobs_that_would_be_launched_without_end_are_refused(count: int, slack_us: int) -> None:
    """A net that leaves seconds saves a job every few seconds where a checkpoint costs nothing."""
    deadline_us = 30 * DAY_US + 240 * HOUR_US + slack_us
    one = job(hours=240.0, checkpoint=CheckpointTimes(0, 0, 1e12))._replace(deadline_us=deadline_us)
    began_s = process_time()
    with pytest.raises(TooManyLaunches):
        make_plan(question(*[one._replace(id=f"j{at}") for at in range(count)]), [pool(moving(1))])
    assert process_time() - began_s < 20.0


def test_a_pool_whose_venue_has_a_model_is_judged_by_it() -> None:
    """A model that looks at nothing but how far the bid is from the price: twice the price is as likely lost as not."""
    weights = np.zeros(len(FEATURES) + 1)
    weights[FEATURES.index("bid_to_price") + 1] = 1.0
    scale = np.ones(len(FEATURES))
    model = LearnedSurvival(np.where(weights[1:], np.log(2.0), 0.0), scale, weights)
    trained = TrainedSurvival(model, (0.0,) * len(LEVELS), 29 * DAY_US, 1)
    learned = replace(pool(moving(3, spread=1.0)), source=SurvivalSource.LEARNED, trained=trained)
    known = known_pool(learned, 30 * DAY_US)
    found = pool_options(job(hours=4.0), 0, known, None, 30 * DAY_US, 0, ReplayWork())
    assert len(found) > 1
    for one in found:
        margin = min(np.log(one.bid / learned.price), 2.5)
        assert one.survival == pytest.approx(1.0 / (1.0 + np.exp(np.log(2.0) - margin)))
    assert all(one.at_least is not None and one.at_least <= one.survival for one in found)


def test_what_a_model_says_of_a_bid_is_the_level_that_the_bid_is_the_least_for() -> None:
    shifts = (0.3, 0.2, 0.0, -0.1, -0.3, -0.6)
    rows = np.array(
        [
            [np.log(target_of(level, shift) / (1 - target_of(level, shift)))]
            for level, shift in zip(LEVELS, shifts, strict=True)
        ]
    )
    trained = TrainedSurvival(LearnedSurvival(np.zeros(1), np.ones(1), np.array([0.0, 1.0])), shifts, 0, 1)
    assert trained.chances(rows).tolist() == pytest.approx([*LEVELS])
    low, high = trained.chances(np.array([[-1.0], [4.9]])).tolist()
    assert low == pytest.approx(1 / (1 + np.exp(1.3)))
    assert high == pytest.approx(1 / (1 + np.exp(-5.5)))


def test_options_rise_in_survival_with_their_cost() -> None:
    known, asked = known_pool(pool(moving(3, spread=1.0)), 30 * DAY_US), job(hours=4.0)
    found = pool_options(asked, 0, known, None, 30 * DAY_US, 0, ReplayWork())
    assert found
    assert all(a.survival < b.survival and a.loss <= b.loss for a, b in pairwise(found))
    assert all(one.at_least is not None and one.at_least <= one.survival for one in found)
