"""The level that a cloud's past starts teach: agreement with the plain-Python oracle, continuing, and what it does."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.followed import Known, effects_of, evidence_of, followed_starts, known_starts, level_of
from oracles.histories import RandomCloud
from repeats import seeds
from test_forecast_rise import slowed

from app.admission.decide import decide_start
from app.domain.events import InstanceRejected, InstanceStarted, Recorded
from app.domain.requests import StartRequest
from app.domain.strata import BEGINS_US, STRATA
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, EvictionPolicy, Forecast, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.forecast.calibrated import LEAST
from app.forecast.compute import Forecaster
from app.forecast.design import Spans, bound_of_windows, design_effects, no_spans
from app.forecast.level import BIN_WIDTH, MEAN, Cases, count_case
from app.forecast.rise import Rises
from app.forecast.table import QuantileTable
from app.workbench.evaluate import evaluate
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import combine

CALIBRATED = {Forecast.CALIBRATED}
kinds = st.tuples(
    st.sampled_from([*BEGINS_US, DAY_US, 40 * DAY_US]), st.floats(LEAST, 1 - LEAST), st.booleans(), st.integers(1, 60)
)


@given(st.lists(kinds, max_size=8), st.sampled_from([HOUR_US, DAY_US, 30 * DAY_US, 365 * DAY_US]))
@settings(max_examples=60, deadline=None)
def test_the_level_is_the_peak_of_the_posterior(found: list[tuple[int, float, bool, int]], seen_us: int) -> None:
    """A start lies up to half a bin beside what was said of it; so does the level, by as much at most."""
    cases = Cases()
    known = [Known(*one) for *one, times in found for _ in range(times)]
    for one in known:
        count_case(cases.counts, one.said, one.lifetime_us, int(one.evicted))
    assert cases.evidence(seen_us) == pytest.approx(np.array(evidence_of(known, seen_us)), rel=1e-5)
    assert cases.level(seen_us) == pytest.approx(level_of(known, seen_us), abs=BIN_WIDTH / 2 + 1e-6)


def test_without_a_start_the_level_is_that_of_other_clouds() -> None:
    assert Cases().level(30 * DAY_US) == pytest.approx(MEAN)
    assert Cases().evidence(30 * DAY_US).tolist() == [[0, 0, 0]] * len(STRATA)


def test_many_starts_of_one_window_teach_no_more_than_one() -> None:
    def taught(count: int, lifetime_us: int) -> float:
        cases = Cases()
        for _ in range(count):
            count_case(cases.counts, 0.5, lifetime_us, 1)
        return cases.level(30 * DAY_US)

    assert taught(1000, 30 * DAY_US) == taught(1, 30 * DAY_US)
    assert taught(100, HOUR_US) > taught(10, HOUR_US) > taught(1, HOUR_US) > 0


@dataclass
class Choosy(RandomCloud):
    """Rejects half of the spot starts, also those that fit."""

    def start(self) -> None:
        if self.random.random() < 0.6:
            super().start()
            return
        self.started += 1
        self.apply(
            [
                InstanceRejected(
                    at_us=self.now_us,
                    instance_id=f"i{self.started}",
                    market=Market.SPOT,
                    flavor=self.random.choice(list(self.cloud.flavors)),
                    reason=Rejection.SLA_UNATTAINABLE,
                    lifetime_us=self.random.choice([0, 1, 3, 10, 40, 100, 400]),
                )
            ]
        )


def choosy_log(seed: int, steps: int, policy: EvictionPolicy = EvictionPolicy.YJF) -> list[Recorded]:
    """Some days of a small cloud, every other one with held room; a unit of its time is half an hour."""
    given = Policy(guarantee=Guarantee.NONE, eviction_policy=policy, grace_us=7 * (seed % 2))
    cloud = Choosy(Random(seed), given, holds=seed % 2 == 1)
    cloud.open()
    for _ in range(steps):
        cloud.step()
    return slowed(cloud.log, 30 * 60_000_000)


def published(log: list[Recorded], policy: Policy, until_us: int) -> Rises:
    forecaster = Forecaster(policy, CALIBRATED)
    forecaster.extend(log)
    rises = forecaster.publish(until_us, 1, len(log)).rises
    assert rises is not None
    return rises


@pytest.mark.parametrize("eviction_policy", [EvictionPolicy.YJF, EvictionPolicy.YJF_GLOBAL])
@pytest.mark.parametrize("seed", seeds(10))
def test_the_followed_starts_are_the_oracles(seed: int, eviction_policy: EvictionPolicy) -> None:
    log = choosy_log(seed, 150, eviction_policy)
    policy = Policy(eviction_policy=eviction_policy)
    begin_us, last_us = log[0].event.at_us, log[-1].event.at_us
    for until_us in (last_us + 1, (begin_us + last_us) // 2):
        rises = published(log, policy, until_us)
        starts = [*followed_starts(log, policy, until_us)]
        known = [one.known for one in starts if one.known]
        assert rises.starts == pytest.approx(np.array(evidence_of(known, rises.seen_us)), rel=1e-5)
        assert rises.level == pytest.approx(level_of(known, rises.seen_us), abs=BIN_WIDTH / 2)
        assert rises.effects.tolist() == effects_of(starts, until_us)


def test_both_admitted_and_rejected_starts_are_followed_to_evictions() -> None:
    """The logs above hold what they are there for."""
    found: Counter[tuple[bool, bool]] = Counter()
    for seed in range(8):
        log = choosy_log(seed, 150)
        found.update((one.admitted, one.evicted) for one in known_starts(log, Policy(), log[-1].event.at_us + 1))
    assert min(found.values()) >= 5
    assert len(found) == 4


@pytest.mark.parametrize("seed", seeds(6))
def test_a_level_does_not_depend_on_earlier_epochs(seed: int) -> None:
    """Read in pages, table after table with replays given up on the way, or at once: the same bytes."""
    log = choosy_log(seed, 250)
    policy = Policy(sample_count=20)
    grown, given = Forecaster(policy, CALIBRATED), 0
    for number, until_us in enumerate(range(log[0].event.at_us + HOUR_US, log[-1].event.at_us, 7 * HOUR_US)):
        due = sum(item.event.at_us < until_us for item in log)
        while given < due:
            page = log[given : min(given + 9, due)]
            grown.extend(page)
            grown.fold(until_us)
            given += len(page)
        if number % 3 == 0:
            grown.forget_replays()
        table = grown.publish(until_us, 1, due)
        fresh = Forecaster(policy, CALIBRATED)
        fresh.extend(log)
        assert fresh.publish(until_us, 1, due).to_bytes() == table.to_bytes()


def test_what_follows_a_table_does_not_change_it() -> None:
    """Walk-forward: of the starts before the table only the ends before it count."""
    log = choosy_log(3, 200)
    until_us = (log[0].event.at_us + log[-1].event.at_us) // 2
    before = [item for item in log if item.event.at_us < until_us]
    one, other = published(log, Policy(), until_us), published(before, Policy(), until_us)
    assert one.to_bytes() == other.to_bytes()
    assert one.starts[:, 0].sum() > 0


def spans_of(seen: int, covered: float) -> Spans:
    spans = no_spans()
    spans.seen[:] = seen
    spans.covered[:] = int(seen * covered)
    return spans


def test_bounds_that_failed_rest_on_fewer_windows_afterwards() -> None:
    assert design_effects(no_spans()).tolist() == [1, 2, 4, 4, 4]
    assert design_effects(spans_of(200, 1.0)).tolist() == [1, 1, 1, 1, 1]
    assert design_effects(spans_of(200, 0.5)).tolist() == [64, 64, 64, 64, 64]


def test_effects_never_fall_with_the_lifetime() -> None:
    spans = spans_of(200, 1.0)
    spans.covered[1, :3] = 100
    assert design_effects(spans).tolist() == [1, 8, 8, 8, 8]


@given(st.floats(LEAST, 1 - LEAST), st.floats(0.01, 1000), st.sampled_from([2, 8, 64]))
def test_a_bound_never_falls_with_fewer_windows(said: float, windows: float, effect: int) -> None:
    wide = bound_of_windows(said, windows / effect, 0.95)
    assert said <= bound_of_windows(said, windows, 0.95) <= wide <= 1.0
    assert bound_of_windows(said, 2.9 / (1 - said), 0.95) == 1.0


def test_replays_beside_are_left_out_of_a_large_history() -> None:
    """The rises are the same with and without them."""
    log = choosy_log(2, 200)
    until_us, tables = log[-1].event.at_us + 1, []
    for most in (None, 10**6, 100):
        forecaster = Forecaster(Policy(sample_count=20), set(Forecast), most_replayed=most)
        forecaster.extend(log)
        tables.append(forecaster.publish(until_us, 1, len(log)))
    whole, small, large = tables
    assert whole.flavors
    assert small.to_bytes() == whole.to_bytes()
    assert large.flavors == ()
    assert large.rises is not None
    assert whole.rises is not None
    assert large.rises.to_bytes() == whole.rises.to_bytes()


def test_a_table_without_a_level_is_read_as_before() -> None:
    """And a program without one reads a table with one: the counts' line has more names, the rest is as it was."""
    rises = published(choosy_log(1, 200), Policy(), 20 * DAY_US)
    assert rises.level != 0
    again, rest = Rises.from_bytes(rises.to_bytes() + b"rest")
    assert rest == b"rest"
    assert (again.level, again.starts.tolist()) == (rises.level, rises.starts.tolist())
    assert again.effects.tolist() == rises.effects.tolist() != [0.0] * len(STRATA)
    line, arrays = rises.to_bytes().split(b"\n", 1)
    older = line.split(b', "level"')[0] + b"}\n" + arrays
    read, rest = Rises.from_bytes(older)
    assert (rest, read.level, read.starts.sum(), read.seen_us) == (b"", 0.0, 0.0, rises.seen_us)
    assert read.effects.tolist() == [0.0] * len(STRATA)
    assert read.shares.tolist() == rises.shares.tolist()


def test_decisions_by_a_learned_level_are_computed_again_from_log_and_table() -> None:
    """On a full cloud of short instances, where without a level a third of what happens is said."""
    on_demand, spot = (synthesize(days=4, mean_utilisation=11, cores=1, seed=seed) for seed in (1, 2))
    policy = Policy(
        eviction_probability=0.05,
        forecast=Forecast.CALIBRATED,
        clock=Clock.EXTERNAL,
        clock_step_us=None,
        sample_count=1,
    )
    log: list[Recorded] = []
    stored: dict[int, tuple[bytes, int, int]] = {}

    class Log:
        def write(self, recorded: Recorded) -> None:
            log.append(recorded)

    def keep(table: QuantileTable) -> None:
        stored[table.epoch] = table.to_bytes(), table.epoch_us, table.seq

    scenario = Scenario((Resources(4),) * 4, combine(on_demand, spot, DAY_US), policy)
    with ThreadPoolExecutor(1) as executor:
        evaluate(scenario, executor, logs=[Log()], tables=keep)
    tables = {
        epoch: QuantileTable.from_bytes(data, epoch=epoch, epoch_us=epoch_us, seq=seq)
        for epoch, (data, epoch_us, seq) in stored.items()
    }
    last = tables[max(tables)].rises
    assert last is not None
    assert last.level > 0.3
    assert last.starts[:, 1].sum() > 10
    cloud, checked = Cloud(), 0
    for item in log:
        event = item.event
        if isinstance(event, InstanceStarted | InstanceRejected) and event.basis and event.basis.epoch:
            request = StartRequest(event.instance_id, Market.SPOT, event.flavor, event.lifetime_us)
            assert list(decide_start(cloud, request, event.at_us, tables[event.basis.epoch])) == [event]
            checked += 1
        cloud.apply_recorded([item])
    assert checked > 500
