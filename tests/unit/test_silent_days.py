"""Days without spot starts: they change no table, and cost next to nothing."""

from __future__ import annotations

import pytest
from repeats import seeds
from test_forecast_level import CALIBRATED, choosy_log
from test_forecast_rise import slowed

from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceStarted, InstanceStopped, NodeAdded, Recorded
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Market, Policy, Resources
from app.forecast.compute import Forecaster
from app.forecast.rise import RiseHistory


@pytest.mark.parametrize("seed", seeds(6))
def test_days_that_are_passed_over_change_no_table(seed: int) -> None:
    """Read at once, where curves are made for the days with starts alone, or half a day at a time: the same bytes.

    Four days of five have no spot start.
    """
    log = slowed(choosy_log(seed, 120), 17)
    policy = Policy(sample_count=1)
    grown, given = Forecaster(policy, CALIBRATED), 0
    for number, until_us in enumerate(range(log[0].event.at_us + HOUR_US, log[-1].event.at_us, DAY_US // 2)):
        due = sum(item.event.at_us < until_us for item in log)
        grown.extend(log[given:due])
        grown.fold(until_us)
        given = due
        if number % 16 == 15:
            fresh = Forecaster(policy, CALIBRATED)
            fresh.extend(log[:due])
            assert fresh.publish(until_us, 1, due).to_bytes() == grown.publish(until_us, 1, due).to_bytes()
    assert given > 50


def test_years_of_days_without_spot_starts_need_no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """An on-demand start each day, as an external clock is led on: only the table's own curves are made."""
    made: list[int] = []
    publish = RiseHistory.publish
    monkeypatch.setattr(RiseHistory, "publish", lambda self: (made.append(1), publish(self))[1])
    events: list[Event] = [
        CloudCreated(at_us=0, policy=Policy()),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
    ]
    for day in range(1, 1000):
        at_us, name = day * DAY_US, f"i{day}"
        events.append(InstanceStarted(at_us=at_us, instance_id=name, market=Market.ON_DEMAND, flavor="c1", node="n"))
        events.append(InstanceStopped(at_us=at_us, instance_id=name))
    forecaster = Forecaster(Policy(sample_count=1), CALIBRATED)
    forecaster.extend(Recorded(seq, event) for seq, event in enumerate(events, 1))
    table = forecaster.publish(1000 * DAY_US, 1, len(events))
    assert table.rises is not None
    assert len(made) <= 3
