"""The baselines beside an evaluation: each decides like its oracle, and the clairvoyant has nobody evicted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest
from oracles.baselines import NaiveWorld
from repeats import seeds

from app.domain.events import InstanceStarted, Recorded
from app.domain.times import SECOND_US
from app.domain.values import Clock, EvictionPolicy, Guarantee, Placement, Policy, Resources
from app.workbench.baselines import Baseline, BaselineRun, RuledCloud, _rule, baselines_report, without_promise
from app.workbench.evaluate import lead_through
from app.workbench.matrix import Axes, Evaluation, run_matrix, scenarios
from app.workbench.standings import standings
from app.workbench.tally import Scenario
from app.workbench.workload import TraceInstance, Workload, operations

POLICY = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL, sample_count=200)


def random_workload(random: Random, count: int) -> Workload:
    def trace(number: int) -> tuple[TraceInstance, ...]:
        starts = sorted(random.randrange(60) * SECOND_US for _ in range(number))
        return tuple(
            TraceInstance(f"{at}", start, random.choice([0, 1, 3, 10, 40]) * SECOND_US, random.choice([1, 1, 2, 3, 5]))
            for at, start in enumerate(starts)
        )

    return Workload(trace(count), trace(count))


def random_scenario(seed: int) -> Scenario:
    random = Random(seed)
    nodes = tuple(Resources(random.choice([2, 4, 5, 8])) for _ in range(random.randint(1, 4)))
    policy = replace(POLICY, eviction_policy=random.choice([*EvictionPolicy]), placement=random.choice([*Placement]))
    return Scenario(nodes, random_workload(random, random.randint(5, 40)), policy)


class Admitted:
    """Notes who was started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def write(self, recorded: Recorded) -> None:
        if isinstance(recorded.event, InstanceStarted):
            self.names.append(recorded.event.instance_id)


@pytest.mark.parametrize("baseline", [*Baseline])
@pytest.mark.parametrize("seed", seeds(40))
def test_every_decision_is_the_oracles(seed: int, baseline: Baseline) -> None:
    scenario = random_scenario(seed)
    rule, sinks = _rule(baseline, scenario)
    admitted = Admitted()
    with ThreadPoolExecutor(1) as executor:
        tally = lead_through(RuledCloud(scenario, executor, rule, [*sinks, admitted]), scenario)
    policy = scenario.policy
    naive = NaiveWorld([node.cores for node in scenario.nodes], policy.eviction_policy.value, policy.placement.value)
    naive.play(baseline, operations(scenario.workload))
    assert admitted.names == naive.admitted
    assert tally.spot_evicted == len(naive.evicted)
    if baseline is Baseline.CLAIRVOYANT:
        assert tally.spot_evicted == 0


def test_the_rules_differ_where_there_is_something_to_know() -> None:
    """One node of 4: a takes 3 at 10 s, so of the spot starts before only the one that has stopped by then is safe."""
    on_demand = (TraceInstance("a", 10 * SECOND_US, 10 * SECOND_US, 3), TraceInstance("b", 40 * SECOND_US, 0, 1))
    spot = tuple(
        TraceInstance(name, at * SECOND_US, lifetime * SECOND_US, 2)
        for name, at, lifetime in (("short", 0, 10), ("long", 1, 20), ("late", 30, 15))
    )
    scenario = Scenario((Resources(4),), Workload(on_demand, spot), POLICY)
    with ThreadPoolExecutor(1) as executor:
        found = {one: BaselineRun(scenario, one).run(executor, lambda *_: None) for one in Baseline}
    assert {one: (tally.spot_admitted, tally.spot_evicted) for one, tally in found.items()} == {
        Baseline.ADMIT_ALL: (3, 1),
        Baseline.HEAD_ROOM: (2, 1),
        Baseline.CLAIRVOYANT: (2, 0),
    }
    report = baselines_report(found)["clairvoyant"]
    assert report["core_s"] == report["completed_core_s"] == report["spot"]["completed_core_s"] == 50
    assert (report["admitted"], report["evicted"], report["lost_core_s"]) == (2, 0, 0)
    assert baselines_report(found)["admit_all"]["lost_core_s"] == 40


def test_baselines_are_run_once_for_a_platform_and_stand_beside_each_promise() -> None:
    workload = random_workload(Random(3), 40)
    axes = Axes([(Resources(8),), (Resources(4),) * 2], [EvictionPolicy.YJF], [Guarantee.PER_INSTANCE], [None, 0.1])
    together = run_matrix([Evaluation(one) for one in scenarios(workload, POLICY, axes)], baselines=True)
    assert [one.baselines is not None for one in together] == [True] * 4
    assert together[0].baselines is together[1].baselines
    for one in together:
        assert one.baselines is not None
        with ThreadPoolExecutor(1) as executor:
            for baseline, tally in one.baselines.items():
                alone = BaselineRun(without_promise(one.outcome.scenario), baseline).run(executor, lambda *_: None)
                assert alone.report() == tally.report()
    rules = [(one.platform, one.rule) for one in standings(together)]
    names = ["no SLA", "per-instance 0.1", "admit-all", "head-room", "clairvoyant"]
    assert rules == [(platform, name) for platform in ("1x8", "2x4") for name in names]
    assert together[0].baselines is not None
    assert together[0].outcome.tally.report() == together[0].baselines[Baseline.ADMIT_ALL].report()
