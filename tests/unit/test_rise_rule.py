"""The simpler rule beside which the stratified guarantee is shown: its load is that of a plain loop over instances."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from app.domain.events import InstanceEvicted, InstanceStarted, Recorded
from app.domain.times import HOUR_US, SECOND_US
from app.domain.values import EvictionReason, Market, Policy, Resources
from app.workbench.tally import Scenario
from app.workbench.workload import TraceInstance, Workload
from benchmarks.rise_rule import AskedLoad, RiseRule

CELL_S = 300


def scenario(random: Random, cores: int = 64) -> Scenario:
    loads = [
        TraceInstance(
            str(n),
            random.randrange(0, 90_000) * SECOND_US,
            random.randrange(60, 40_000) * SECOND_US,
            random.choice((1, 4)),
        )
        for n in range(60)
    ]
    return Scenario((Resources(cores),), Workload(tuple(sorted(loads, key=lambda one: one.start_us)), ()), Policy())


def naive_highest(whole: Scenario, first: int, last: int) -> int:
    """The highest load in some cells: at their begin, and after each start and stop in them."""
    moments = {cell * CELL_S * SECOND_US for cell in range(first, last + 1)}
    for one in whole.workload.on_demand:
        moments |= {at for at in (one.start_us, one.stop_us) if first <= at // (CELL_S * SECOND_US) <= last}
    running = (sum(one.cores for one in whole.workload.on_demand if one.start_us <= at < one.stop_us) for at in moments)
    return max(running)


@pytest.mark.parametrize("seed", range(5))
def test_the_load_is_that_of_a_plain_loop(seed: int) -> None:
    random = Random(seed)
    whole = scenario(random)
    load, now_s = AskedLoad(whole), 80_000.0
    at_s = np.array([random.uniform(0, 90_000) for _ in range(20)])
    due = [sum(one.cores for one in whole.workload.on_demand if one.start_us <= at * 1e6 < one.stop_us) for at in at_s]
    assert load.level(at_s).tolist() == due
    from_s = np.array([random.randrange(0, 60_000) for _ in range(20)]).astype(float)
    length_s = random.randrange(0, 30) * CELL_S
    highest = load.highest(from_s, from_s + length_s, now_s)
    for begin_s, found in zip(from_s, highest, strict=True):
        first = int(begin_s) // CELL_S
        assert found == naive_highest(whole, first, min(first + length_s // CELL_S, int(now_s) // CELL_S - 1))
    assert load.peak_and_spread(now_s)[0] == naive_highest(whole, 0, int(now_s) // CELL_S - 1)


@pytest.mark.parametrize("seed", range(5))
def test_longer_or_larger_is_never_safer(seed: int) -> None:
    random = Random(seed)
    rule = RiseRule(scenario(random), 0.05)
    hours = [rule.risk(80_000.0, 3600.0 * length, 8) for length in (1, 4, 10)]
    assert hours == sorted(hours)
    sizes = [rule.risk(80_000.0, 3600.0, cores) for cores in (1, 20, 40, 65)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 0.5, "what does not fit beside the load is evicted"


def test_only_an_eviction_within_the_promise_costs() -> None:
    rule = RiseRule(scenario(Random(1)), 0.05)
    for number, evicted_us in enumerate((HOUR_US // 2, 2 * HOUR_US)):
        name, reason = f"{number}", EvictionReason.ON_DEMAND_START
        started = InstanceStarted(
            at_us=0, instance_id=name, market=Market.SPOT, flavor="c4", node="n", lifetime_us=HOUR_US
        )
        rule.write(Recorded(2 * number, started))
        evicted = InstanceEvicted(at_us=evicted_us, instance_id=name, reason=reason, cause_seq=2)
        rule.write(Recorded(2 * number + 1, evicted))
    assert rule.left == {"<1h": 0.0, "1h-8h": -1.0, "8h-2d": 0.0, "2d-7d": 0.0, ">=7d": 0.0}
