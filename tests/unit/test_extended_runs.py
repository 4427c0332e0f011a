"""Whole workloads whose instances are extended on the way: the audit sums every decision anew and agrees."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from app.domain.events import ExtensionRejected, InstanceExtended, Recorded
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Clock, Forecast, Guarantee, Market, Policy, Resources
from app.workbench.audit import audit
from app.workbench.evaluate import DrivenCloud, opening
from app.workbench.logcsv import LogWriter, read_rows
from app.workbench.logevents import events_of
from app.workbench.tally import Scenario
from app.workbench.whatif import Changes, Question, count_log, steps_of
from app.workbench.workload import TraceInstance, Workload, operations
from benchmarks.extensions import in_parts

KINDS = [
    (Guarantee.PER_INSTANCE, Forecast.REPLAY),
    (Guarantee.PER_INSTANCE, Forecast.CALIBRATED),
    (Guarantee.POOLED, Forecast.REPLAY),
    (Guarantee.POOLED, Forecast.CALIBRATED),
    (Guarantee.STRATIFIED, Forecast.CALIBRATED),
    (Guarantee.NONE, Forecast.REPLAY),
]


def busy_workload(seed: int) -> Workload:
    """Four crowded days: on-demand load that comes and goes, and spot instances from an hour to two days."""
    random = Random(seed)
    on_demand = [
        TraceInstance(
            f"o{n}", random.randrange(4 * DAY_US), random.choice([1, 3, 8]) * HOUR_US, random.choice([1, 2, 4])
        )
        for n in range(160)
    ]
    spot = [
        TraceInstance(f"s{n}", DAY_US + random.randrange(2 * DAY_US), random.choice([1, 4, 12, 48]) * HOUR_US, 1)
        for n in range(120)
    ]
    return Workload(tuple(sorted(on_demand, key=start_of)), tuple(sorted(spot, key=start_of)))


def start_of(instance: TraceInstance) -> int:
    return instance.start_us


class Log:
    """Keeps the events."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []

    def write(self, recorded: Recorded) -> None:
        self.recorded.append(recorded)


def extended_run(seed: int, guarantee: Guarantee, forecast: Forecast) -> list[Recorded]:
    policy = Policy(
        guarantee=guarantee,
        forecast=forecast,
        clock=Clock.EXTERNAL,
        clock_step_us=None,
        eviction_probability=0.2,
        sample_count=100,
    )
    scenario, log = Scenario((Resources(8), Resources(8)), busy_workload(seed), policy), Log()
    steps = [*operations(scenario.workload)]
    true = {s.instance_id: s for s in steps if isinstance(s, StartRequest) and s.market is Market.SPOT}
    with ThreadPoolExecutor(1) as executor:
        cloud = DrivenCloud(policy, executor, logs=[log])
        cloud.record(opening(scenario))
        for step in in_parts(steps, true, 4):
            cloud.step(step)
    return log.recorded


@pytest.mark.parametrize(("guarantee", "forecast"), KINDS)
def test_the_audit_agrees_with_every_decision(guarantee: Guarantee, forecast: Forecast) -> None:
    recorded = extended_run(3, guarantee, forecast)
    file = io.StringIO()
    writer = LogWriter(file)
    for item in recorded:
        writer.write(item)
    rows = [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]
    result = audit(rows, [])
    assert result.finding is None, result.finding
    kinds = [type(item.event) for item in recorded]
    assert kinds.count(InstanceExtended) >= 20
    assert (kinds.count(ExtensionRejected) > 0) == (guarantee is not Guarantee.NONE)
    read = events_of(rows, recorded[0].event.policy)
    longer = [item.event for item in recorded if isinstance(item.event, InstanceExtended)]
    assert [item.event for item in read if isinstance(item.event, InstanceExtended)] == longer
    one = next(at for at, row in enumerate(rows) if row.kind == "instance_extended")
    for field, value in (("slots", 99), ("deadline_us", 1), ("former_lifetime_us", 1), ("lifetime_us", 1)):
        wrong = [*rows[:one], rows[one]._replace(**{field: value}), *rows[one + 1 :]]
        found = audit(wrong, []).finding
        assert found is not None
        assert found.seq == rows[one].seq


def test_deciding_the_log_again_asks_for_the_same_extensions() -> None:
    recorded = extended_run(3, Guarantee.POOLED, Forecast.REPLAY)
    asked = [step for step in steps_of(Question(recorded, Changes())) if type(step).__name__ == "ExtendRequest"]
    decided = [item.event for item in recorded if isinstance(item.event, InstanceExtended | ExtensionRejected)]
    assert [(one.instance_id, one.lifetime_us, one.at_us) for one in asked] == [
        (event.instance_id, event.lifetime_us, event.at_us) for event in decided
    ]
    account = count_log(recorded)
    total = account.tally.total()
    assert (total.admitted, total.evicted) == (account.tally.spot_admitted, account.evicted_in_time)
