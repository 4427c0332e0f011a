"""Several evaluations in one call: what is combined, that each is what it would be alone, and their findings."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import pairwise
from os import _exit
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from app.domain.events import FlavorAdded, InstanceEvicted, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.inputs import WorkEnded, parse_nodes, platform_text
from app.domain.values import Basis, Clock, EvictionPolicy, EvictionReason, Guarantee, Market, Policy, Resources
from app.workbench.findings import BudgetPoint, LoadStep, Watch, average_load, reliability_report, thin_budget
from app.workbench.matrix import Axes, Evaluation, name_of, run_matrix, scenarios
from app.workbench.side_by_side import Progress, run_side_by_side
from app.workbench.synthesis import synthesize
from app.workbench.workload import Workload, combine

POLICY = Policy(clock=Clock.EXTERNAL, sample_count=200)


def small_workload() -> Workload:
    on_demand, spot = (synthesize(days=2, mean_utilisation=8, cores=1, seed=seed) for seed in (1, 2))
    return combine(on_demand, spot, 0)


def axes(**changes: object) -> Axes:
    one = Axes([parse_nodes("3x4")], [EvictionPolicy.YJF], [Guarantee.PER_INSTANCE], [0.1])
    return replace(one, **changes)


def test_every_combination_is_run_and_the_baseline_once() -> None:
    found = scenarios(
        small_workload(),
        POLICY,
        axes(
            platforms=[parse_nodes("3x4"), parse_nodes("2x4")],
            evictions=[EvictionPolicy.YJF, EvictionPolicy.YJF_GLOBAL],
            slas=[0.25, None, 0.01],
        ),
    )
    names = [name_of(scenario) for scenario in found]
    assert names[:4] == [
        "3x4-yjf-no-sla",
        "3x4-yjf-per-instance-0.25",
        "3x4-yjf-per-instance-0.01",
        "3x4-yjf-global-no-sla",
    ]
    assert len(names) == len(set(names)) == 2 * 2 * 3
    assert found[0].policy == replace(POLICY, guarantee=Guarantee.NONE)
    assert found[1].policy == replace(POLICY, eviction_probability=0.25)


def test_side_by_side_each_is_what_it_is_alone(tmp_path: Path) -> None:
    chosen = scenarios(small_workload(), POLICY, axes(slas=[None, 0.1, 0.01]))
    told: list[tuple[int, int]] = []
    together = run_matrix(
        [Evaluation(scenario, tmp_path / f"{name_of(scenario)}.csv", watched=True) for scenario in chosen],
        progress=lambda done, total: told.append((done, total)),
    )
    for scenario, one in zip(chosen, together, strict=True):
        (alone,) = run_matrix([Evaluation(scenario, tmp_path / "alone.csv", watched=True)])
        ours, theirs = one.outcome.report(), alone.outcome.report()
        assert {**ours, "wall_s": 0, "forecast_s": 0} == {**theirs, "wall_s": 0, "forecast_s": 0}
        assert one.findings is not None
        assert alone.findings is not None
        assert one.findings.reliability == alone.findings.reliability
        assert one.findings.budget == alone.findings.budget
        assert one.findings.table == alone.findings.table
        assert (tmp_path / f"{name_of(scenario)}.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == sum(Evaluation(scenario).size for scenario in chosen)


def test_the_findings_agree_with_the_counts() -> None:
    (one,) = run_matrix([Evaluation(scenarios(small_workload(), POLICY, axes())[0], watched=True)])
    findings, tally = one.findings, one.outcome.tally
    assert findings is not None
    (line,) = findings.reliability.classes
    assert (line.promised, line.admitted, line.running, line.evicted) == (
        0.1,
        tally.spot_admitted,
        0,
        tally.spot_evicted,
    )
    assert sum(other.admitted for other in findings.reliability.epochs) == tally.spot_admitted
    assert sum(other.admitted for other in findings.reliability.estimates) == tally.spot_admitted
    assert findings.budget[-1] == BudgetPoint(
        findings.budget[-1].at_us, pytest.approx(0.1 * tally.spot_admitted), tally.spot_evicted
    )
    assert findings.load.evicted.sum() == tally.spot_evicted > 0
    assert (findings.load.on_demand + findings.load.spot <= findings.load.peak + 1e-9).all()
    assert (findings.load.peak <= findings.load.capacity + 1e-6).all()
    assert findings.table is not None
    assert set(findings.table.flavors) == {"c1"}
    report = reliability_report(findings.reliability)
    assert report["classes"][0]["happened"] == tally.spot_evicted / tally.spot_admitted


def test_a_watch_on_a_world_worked_out_by_hand() -> None:
    basis = Basis(2, epoch=1, probability=0.5, estimated_probability=0.2)
    spot: dict[str, Any] = {"market": Market.SPOT, "flavor": "c2", "node": "n", "lifetime_us": 100, "basis": basis}
    watch = Watch()
    for seq, event in enumerate(
        [
            NodeAdded(at_us=0, node="n", capacity=Resources(8)),
            FlavorAdded(at_us=0, flavor="c2", demand=Resources(2)),
            InstanceStarted(at_us=0, instance_id="od", market=Market.ON_DEMAND, flavor="c2", node="n"),
            InstanceStarted(at_us=10, instance_id="s1", **spot),
            InstanceStarted(at_us=20, instance_id="s2", **spot),
            InstanceEvicted(at_us=30, instance_id="s2", reason=EvictionReason.ON_DEMAND_START, cause_seq=9),
            InstanceStopped(at_us=40, instance_id="od"),
        ],
        1,
    ):
        watch.write(Recorded(seq, event))
    found = watch.findings(40, None)
    (line,) = found.reliability.classes
    assert (line.admitted, line.running, line.evicted, line.happened) == (2, 1, 1, 1.0)
    assert [(point.at_us, point.left) for point in found.budget] == [(10, 0.5), (20, 1.0), (30, 0.0)]
    assert found.load.on_demand.mean() == pytest.approx(2)
    assert found.load.spot.mean() == pytest.approx((10 * 2 + 10 * 4 + 10 * 2) / 40)
    assert found.load.peak.max() == 6
    assert found.table is None


def test_mean_load_is_exact_and_peaks_are_not_lost() -> None:
    random = Random(4)
    times = sorted(random.sample(range(1, 10_000), 200))
    steps = [LoadStep(0, 0, 0, 9), *(LoadStep(at, random.randrange(5), random.randrange(4), 9) for at in times)]
    load = average_load(steps, times[::7], 10_000, bins=13)
    by_microsecond = np.zeros((2, 10_000))
    for step, after in pairwise([*steps, LoadStep(10_000, 0, 0, 0)]):
        by_microsecond[:, step.at_us : after.at_us] = [[step.on_demand], [step.spot]]
    assert load.on_demand.mean() == pytest.approx(by_microsecond[0].mean())
    assert load.spot.mean() == pytest.approx(by_microsecond[1].mean())
    for number, (first, last) in enumerate(pairwise(load.edges_us)):
        inside = by_microsecond[:, int(np.floor(first)) : int(np.ceil(last))].sum(axis=0)
        assert load.peak[number] == inside.max()
    assert load.evicted.sum() == len(times[::7])


def test_a_thinned_budget_keeps_every_overdraft() -> None:
    random = Random(1)
    points, earned, evicted = [], 0.0, 0
    for at_us in range(5000):
        earned, evicted = earned + 0.01, evicted + (random.random() < 0.012)
        points.append(BudgetPoint(at_us, earned, evicted))
    thin = thin_budget(points, 5000, bins=40)
    assert len(thin) <= 80
    assert min(point.left for point in thin) == min(point.left for point in points)
    assert thin[-1] == points[-1]
    assert [*thin] == sorted(thin)
    assert thin_budget([], 100) == ()


@dataclass(frozen=True)
class Sum:
    size: int
    fails: str = ""


def add_up(task: Sum, executor: Executor, progress: Progress) -> int:
    if task.fails == "raises":
        raise ValueError("as asked")
    if task.fails == "dies":
        _exit(7)
    for done in range(task.size):
        progress(done + 1, task.size)
    return sum(executor.map(int, range(task.size)))


def test_tasks_side_by_side() -> None:
    told: list[tuple[int, int]] = []
    tasks = [Sum(100), Sum(5), Sum(1)]
    found = run_side_by_side(add_up, tasks, progress=lambda done, total: told.append((done, total)), cores=2)
    assert found == [4950, 10, 0]
    assert told[-1] == (106, 106)
    assert run_side_by_side(add_up, [Sum(3)], cores=2) == [3]


@pytest.mark.parametrize(("fails", "error"), [("raises", ValueError), ("dies", WorkEnded)])
def test_a_task_that_fails_is_told(fails: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run_side_by_side(add_up, [Sum(5), Sum(5, fails), Sum(5)], cores=2)


def test_platforms_are_told_as_they_are_read() -> None:
    assert platform_text(parse_nodes("31x32")) == "31x32"
    assert platform_text([Resources(4), Resources(4), Resources(8)]) == "2x4+1x8"
