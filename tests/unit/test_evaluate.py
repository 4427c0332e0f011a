"""The trace evaluation: the recorded pairs, small worlds worked out by hand, and the lazy tables."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.names import node_name
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, EvictionPolicy, Guarantee, Policy, Resources
from app.workbench.audit import audit
from app.workbench.evaluate import evaluate
from app.workbench.logcsv import LogRow, LogWriter, read_log
from app.workbench.synthesis import synthesize
from app.workbench.tally import DrivenScenario, Scenario
from app.workbench.workload import TraceInstance, combine, load_workload

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "eucalyptus"
NO_SLA = Policy(guarantee=Guarantee.NONE, clock=Clock.EXTERNAL)
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the recorded traces are not in {TRACES}")


def run(scenario: Scenario) -> DrivenScenario:
    with ThreadPoolExecutor(2) as threads:
        return evaluate(scenario, threads)


def logged(scenario: Scenario, path: Path) -> list[LogRow]:
    file = io.StringIO()
    with ThreadPoolExecutor(2) as threads:
        evaluate(scenario, threads, logs=[LogWriter(file, instances_only=True)])
    path.write_text(file.getvalue(), encoding="utf-8")
    return list(read_log(path))


def platform(scenario: Scenario) -> list[tuple[str, Resources]]:
    return [(node_name(index), capacity) for index, capacity in enumerate(scenario.nodes)]


def instance(name: str, start_s: int, lifetime_s: int, cores: int = 1) -> TraceInstance:
    return TraceInstance(name, start_s * SECOND_US, lifetime_s * SECOND_US, cores)


@needs_traces
@pytest.mark.parametrize(
    ("on_demand", "spot", "count", "cores", "policy", "expected"),
    [
        (2, 3, 7, 12, "yjf", (900, 899, 2600, 2600, 9)),
        (2, 3, 7, 12, "yjf_global", (900, 899, 2600, 2600, 9)),
        (3, 2, 7, 8, "yjf", (2600, 2600, 899, 760, 9)),
        (3, 2, 7, 8, "yjf_global", (2600, 2600, 899, 760, 10)),
        (5, 6, 31, 32, "yjf", (8456, 8456, 3750, 3482, 48)),
        (5, 6, 31, 32, "yjf_global", (8456, 8456, 3750, 3503, 116)),
        (6, 5, 31, 32, "yjf", (4157, 4157, 8456, 8177, 96)),
        (6, 5, 31, 32, "yjf_global", (4157, 4157, 8456, 8224, 199)),
    ],
)
def test_the_recorded_pairs_without_an_sla(
    on_demand: int, spot: int, count: int, cores: int, policy: str, expected: tuple[int, ...]
) -> None:
    """The first table of docs/forecast.md."""
    workload = load_workload(TRACES / f"DS{on_demand}-trace.txt", TRACES / f"DS{spot}-trace.txt", DAY_US)
    sla = replace(NO_SLA, eviction_policy=EvictionPolicy(policy))
    tally = run(Scenario((Resources(cores),) * count, workload, sla)).tally
    assert expected == (
        tally.on_demand_requested,
        tally.on_demand_admitted,
        tally.spot_requested,
        tally.spot_admitted,
        tally.spot_evicted,
    )


def small_world() -> Scenario:
    """One node of 4 cores: s1 is evicted by b; s2 finds no room; s3 outlives the last on-demand stop."""
    on_demand = [instance("a", 0, 10, 1), instance("b", 20, 10, 4), instance("c", 40, 10, 1)]
    spot = [instance("s1", 5, 100, 2), instance("s2", 25, 1, 1), instance("s3", 45, 100, 3), instance("s4", 46, 0, 1)]
    return Scenario((Resources(4),), combine(on_demand, spot, 0), NO_SLA)


def test_a_small_world_worked_out_by_hand() -> None:
    report = run(small_world()).report()
    assert report["on_demand"] == {"requested": 3, "admitted": 3}
    assert report["spot"] == {
        "requested": 4,
        "admitted": 2,
        "evicted": 1,
        "completed": 1,
        "requested_core_s": 200 + 1 + 300,
        "completed_core_s": 300,
    }
    assert report["epochs"] == 0
    assert report["settings"]["guarantee"] == "none"
    assert report["settings"]["eviction_probability"] is None, "nothing is promised"


def test_the_log_of_a_small_world(tmp_path: Path) -> None:
    scenario = small_world()
    rows = logged(scenario, tmp_path / "log.csv")
    assert [
        (row.seq, row.at_us // SECOND_US, row.kind, row.instance_id, row.reason, row.cause_seq) for row in rows
    ] == [
        (1, 0, "instance_started", "od-a", None, None),
        (2, 5, "instance_started", "spot-s1", None, None),
        (3, 10, "instance_stopped", "od-a", None, None),
        (4, 20, "instance_evicted", "spot-s1", "on_demand_start", 5),
        (5, 20, "instance_started", "od-b", None, None),
        (6, 25, "instance_rejected", "spot-s2", "no_capacity", None),
        (7, 30, "instance_stopped", "od-b", None, None),
        (8, 40, "instance_started", "od-c", None, None),
        (9, 45, "instance_started", "spot-s3", None, None),
        (10, 46, "instance_rejected", "spot-s4", "no_capacity", None),
        (11, 50, "instance_stopped", "od-c", None, None),
        (12, 145, "instance_stopped", "spot-s3", None, None),
    ]
    assert audit(rows, platform(scenario)).finding is None


def with_sla(probability: float, **changes: object) -> Scenario:
    on_demand = synthesize(days=4, mean_utilisation=21.8, cores=1, seed=1)
    spot = synthesize(days=4, mean_utilisation=21.8, cores=1, seed=2)
    policy = Policy(eviction_probability=probability, clock=Clock.EXTERNAL, sample_count=500)
    return Scenario((Resources(4),) * 8, combine(on_demand, spot, HOUR_US), replace(policy, **changes))


def test_an_sla_is_kept_and_its_log_passes_the_audit(tmp_path: Path) -> None:
    scenario = with_sla(0.1)
    rows = logged(scenario, tmp_path / "log.csv")
    assert audit(rows, platform(scenario)).finding is None
    tally = run(scenario).tally
    assert 0 < tally.spot_evicted <= 0.1 * tally.spot_admitted
    assert len(tally.epochs) == 13
    reasons = {row.reason for row in rows if row.kind == "instance_rejected"}
    assert reasons == {"no_capacity", "no_history", "sla_unattainable"}


def test_an_evaluation_is_the_same_again_and_another_seed_draws_other_samples() -> None:
    first, again, other = (run(with_sla(0.1, seed=seed)).report() for seed in (0, 0, 1))
    assert first["spot"] == again["spot"]
    assert first["settings"] | {"seed": 1} == other["settings"]
    assert first["spot"] != other["spot"]


def test_nothing_is_admitted_before_the_warm_up_is_over(tmp_path: Path) -> None:
    rows = logged(with_sla(0.25), tmp_path / "log.csv")
    spot = [row for row in rows if row.market == "spot" and row.kind in ("instance_started", "instance_rejected")]
    early = [row for row in spot if row.at_us < DAY_US]
    assert early
    assert {row.kind for row in early} == {"instance_rejected"}
    assert {row.epoch for row in early} == {None}
    assert {row.epoch for row in spot if row.at_us >= DAY_US} == set(range(1, 14))
