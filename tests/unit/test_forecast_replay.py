"""The merged worlds against the fork-per-sample oracle; continuation; the history window; executors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from numba import njit
from oracles.histories import random_log
from oracles.replay import NaiveHistory
from repeats import seeds

from app.domain.events import Recorded
from app.domain.values import EvictionPolicy, Guarantee, Placement, Policy
from app.engine.cloud import PLACEMENT_CODE
from app.engine.cluster import NO_NODE, Ints, empty_cluster, fitting_node
from app.forecast import compute
from app.forecast.compute import Forecaster
from app.forecast.moments import nested_moments
from app.forecast.replay import Replay
from app.forecast.replayed import History
from app.forecast.states import BLOCK, Worlds, first_run, fitting_node_there
from app.forecast.table import QuantileTable

POLICIES = list(EvictionPolicy)
Sample = tuple[int, int, bool]


def compiled_samples(
    log: list[Recorded], flavor: str, policy: Policy, start_us: int, until_us: int, times: list[int]
) -> tuple[list[Sample], Replay]:
    history = History()
    history.extend(log)
    operations = history.operations(until_us)
    used = history.used_resources()
    opening = history.opening(start_us)
    opening = opening._replace(free=opening.free[:, used], demand=opening.demand[:, used])
    replay = Replay(opening, start_us, history.flavors[flavor][used], policy)
    rest = operations.counting_only(used).part(int(np.searchsorted(operations.at_us, start_us)))
    replay.advance(rest, history.node_count, history.row_count)
    found = replay.samples(rest.at_us, until_us, np.array(times, np.int64))
    return list(zip(*(column.tolist() for column in found[:3]), strict=True)), replay


@pytest.mark.parametrize("placement", [*Placement])
@pytest.mark.parametrize("eviction_policy", POLICIES)
@pytest.mark.parametrize("seed", seeds(40))
def test_every_sample_is_the_oracles(seed: int, eviction_policy: EvictionPolicy, placement: Placement) -> None:
    random, displaces = Random(seed), seed % 4 >= 2
    given = {"memory": seed % 2 == 0, "placement": placement, "displaces": displaces, "told": seed % 3 == 1}
    given["holds"] = seed % 5 > 2
    log = random_log(seed, 120, eviction_policy, **given)
    begin_us, last_us = log[0].event.at_us, log[-1].event.at_us
    horizon_us = random.choice([20, 100, 10_000])
    policy = Policy(
        eviction_policy=eviction_policy, horizon_us=horizon_us, placement=placement, displaces_overrunning=displaces
    )
    until_us = random.choice([last_us + 1, last_us + 50, (begin_us + last_us) // 2 + 1])
    start_us = random.choice([begin_us, (begin_us + until_us) // 2])
    naive = NaiveHistory(log, policy, until_us)
    times = sorted({random.randrange(start_us, until_us) for _ in range(40)} | {start_us, until_us - 1})
    for flavor in naive.flavors:
        expected = [found for at_us in times if (found := naive.sample(flavor, at_us, start_us)) is not None]
        assert compiled_samples(log, flavor, policy, start_us, until_us, times)[0] == expected


@pytest.mark.parametrize("eviction_policy", POLICIES)
@pytest.mark.parametrize("seed", seeds(20))
def test_a_fork_in_some_gaps_alone_gives_the_oracles_samples(seed: int, eviction_policy: EvictionPolicy) -> None:
    """Two epochs of a replay that forks only where a moment lies; the second one asks for fewer of the first's."""
    log = random_log(seed, 150, eviction_policy, told=seed % 2 == 1, holds=seed % 4 > 1)
    begin_us, until_us = log[0].event.at_us, log[-1].event.at_us + 1
    middle_us = (begin_us + until_us) // 2
    policy = Policy(eviction_policy=eviction_policy, horizon_us=100)
    replay, history = None, History()
    history.extend(log)
    for end_us, rate in ((middle_us, 0.5), (until_us, 0.2)):
        operations = history.operations(end_us)
        used = history.used_resources()
        if replay is None:
            opening = history.opening(begin_us)
            opening = opening._replace(free=opening.free[:, used], demand=opening.demand[:, used])
            replay, known = Replay(opening, begin_us, history.flavors["f1"][used], policy), used
        if used != known:
            return
        operations = operations.counting_only(used)
        times = nested_moments([seed], begin_us, end_us, 1000, rate)
        gaps = np.searchsorted(operations.at_us, times, side="right")
        replay.advance(operations.part(replay.done), history.node_count, history.row_count, gaps)
        naive = NaiveHistory(log, policy, end_us)
        expected = [found for at_us in times.tolist() if (found := naive.sample("f1", at_us, begin_us)) is not None]
        found = replay.samples(operations.at_us, end_us, times)
        assert list(zip(*(column.tolist() for column in found[:3]), strict=True)) == expected
    assert replay.fork_count < replay.done / 2


def test_worlds_are_merged() -> None:
    log = random_log(3, 400, EvictionPolicy.YJF)
    until_us = log[-1].event.at_us
    _, replay = compiled_samples(log, "f1", Policy(), log[0].event.at_us, until_us, [])
    assert replay.fork_count > 3 * replay.most_worlds > 0


def small_policy(eviction_policy: EvictionPolicy = EvictionPolicy.YJF) -> Policy:
    return Policy(
        guarantee=Guarantee.PER_INSTANCE, eviction_policy=eviction_policy, horizon_us=500, sample_count=300, seed=7
    )


def fresh_table(
    log: list[Recorded], policy: Policy, until_us: int, seq: int | None = None, **how: object
) -> QuantileTable:
    forecaster = Forecaster(policy)
    forecaster.extend(log)
    return forecaster.publish(until_us, 1, len(log) if seq is None else seq, **how)


@pytest.mark.parametrize("window_us", [None, 150])
@pytest.mark.parametrize("seed", seeds(8))
def test_an_epoch_does_not_depend_on_earlier_epochs(seed: int, window_us: int | None) -> None:
    """Continued epoch by epoch (the log grows new nodes, flavors and resources) or computed anew: the same bits."""
    log = random_log(seed, 200, EvictionPolicy.YJF)
    policy = replace(small_policy(), history_window_us=window_us)
    grown, given = Forecaster(policy), 0
    last_us = log[-1].event.at_us
    for until_us in range(log[0].event.at_us, last_us + 100, 60):
        known = sum(item.event.at_us < until_us for item in log)
        grown.extend(log[given:known])
        given = known
        table = grown.publish(until_us, 1, known)
        assert table.to_bytes() == fresh_table(log[:known], policy, until_us).to_bytes()
        # What happens at the due time or later is not part of the epoch.
        assert table.to_bytes() == fresh_table(log, policy, until_us).to_bytes()


@pytest.mark.parametrize("window_us", [None, 150])
@pytest.mark.parametrize(("gaps_per_sample", "world_bytes"), [(0, 1 << 30), (1, 1 << 30), (16, 10_000), (0, 3_000)])
def test_nor_does_one_of_a_long_history(
    monkeypatch: pytest.MonkeyPatch, gaps_per_sample: int, world_bytes: int, window_us: int | None
) -> None:
    """Longer than its gaps are all injected into, with room for the worlds of all samples or of some."""
    monkeypatch.setattr(compute, "GAPS_PER_SAMPLE", gaps_per_sample)
    monkeypatch.setattr(compute, "WORLD_BYTES", world_bytes)
    for seed in seeds(4):
        log = random_log(seed, 600, EvictionPolicy.YJF)
        policy = replace(small_policy(), history_window_us=window_us, sample_count=150)
        grown, given = Forecaster(policy), 0
        for until_us in range(log[0].event.at_us + 1, log[-1].event.at_us + 100, 100):
            known = sum(item.event.at_us < until_us for item in log)
            grown.extend(log[given:known])
            given = known
            assert grown.publish(until_us, 1, known).to_bytes() == fresh_table(log, policy, until_us, known).to_bytes()


def test_the_memory_of_worlds_bounds_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(2, 2000, EvictionPolicy.YJF)
    until_us = log[-1].event.at_us
    counts = []
    for world_bytes in (1 << 30, 400_000, 100_000):
        monkeypatch.setattr(compute, "WORLD_BYTES", world_bytes)
        table = fresh_table(log, replace(small_policy(), sample_count=1000), until_us)
        counts.append(sum(bucket.sample_count for curve in table.curves.values() for bucket in curve.buckets))
    assert counts[0] > 2 * counts[1] > 4 * counts[2] > 0


def test_an_executor_changes_nothing() -> None:
    log = random_log(1, 300, EvictionPolicy.YJF)
    until_us = log[-1].event.at_us
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as executor:
        table = fresh_table(log, small_policy(), until_us, executor=executor, progress=lambda *done: told.append(done))
    assert table.to_bytes() == fresh_table(log, small_policy(), until_us).to_bytes()
    assert told == [(done, len(table.flavors)) for done in range(1, len(table.flavors) + 1)]


def test_the_seed_chooses_the_samples() -> None:
    log = random_log(1, 300, EvictionPolicy.YJF)
    until_us = log[-1].event.at_us
    tables = [fresh_table(log, replace(small_policy(), seed=seed), until_us).to_bytes() for seed in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]


def test_without_history_there_is_an_empty_table() -> None:
    log = random_log(1, 10, EvictionPolicy.YJF)
    assert fresh_table([], small_policy(), 5).flavors == ()
    assert fresh_table(log, small_policy(), log[0].event.at_us).flavors == ()
    assert fresh_table(log, small_policy(), log[0].event.at_us).lifetime_us("f1", 1, 0.5) is None


def test_a_log_read_in_pages_gives_the_same_table() -> None:
    """A worker folds each page as far as it goes; the due time lies after all of them, or between two."""
    log = random_log(5, 400, EvictionPolicy.YJF)
    for until_us in (log[-1].event.at_us, log[250].event.at_us):
        forecaster = Forecaster(small_policy())
        for first in range(0, len(log), 70):
            forecaster.extend(log[first : first + 70])
            forecaster.fold(until_us)
        assert (
            forecaster.publish(until_us, 1, len(log)).to_bytes()
            == fresh_table(log, small_policy(), until_us).to_bytes()
        )


def test_an_event_known_too_late_counts_from_then_on() -> None:
    """On a system clock a start may be committed just after the table of a later moment was computed."""
    log = random_log(5, 200, EvictionPolicy.YJF)
    last_us = log[-1].event.at_us
    forecaster = Forecaster(small_policy())
    forecaster.extend(log[:-20])
    first = forecaster.publish(last_us, 1, len(log) - 20)
    forecaster.extend(log[-20:])
    second = forecaster.publish(last_us + 100, 2, len(log))
    assert (first.epoch_us, second.epoch_us) == (last_us, last_us + 100)
    assert second.to_bytes() != first.to_bytes()


@njit
def _node_there(run: Worlds, demand: Ints) -> int:
    return fitting_node_there(run, 0, demand)


@pytest.mark.parametrize("placement", [*Placement])
@pytest.mark.parametrize("seed", seeds(20))
def test_a_node_found_block_by_block_is_the_engines(seed: int, placement: Placement) -> None:
    random = np.random.default_rng(seed)
    cluster = empty_cluster(3 * BLOCK + 5, 2, 2)
    cluster.free[:] = random.integers(0, 9, cluster.free.shape)
    cluster.is_open[:] = random.random(len(cluster.is_open)) < 0.8
    code = PLACEMENT_CODE[placement]
    run = first_run(cluster, 0, code)
    nodes = []
    for demand in random.integers(0, 10, (60, 2)):
        nodes.append(_node_there(run, demand))
        assert nodes[-1] == fitting_node(cluster, demand, code)
    assert len({node // BLOCK for node in nodes if node != NO_NODE}) > 1 or placement is Placement.FIRST_FIT
