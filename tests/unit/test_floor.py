"""The evidence floor: a start whose estimate rests on too few windows is refused, and the answer says so."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.admission.acceptable import acceptable_instead
from app.admission.decide import decide_start
from app.admission.extend import decide_extension
from app.commands.workloads import policy_of
from app.domain.events import (
    CloudCreated,
    ExtensionRejected,
    FlavorAdded,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    NodeAdded,
    Recorded,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.risks import floor_in_words, risk_in_words, risk_of_basis, windows_text
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, Floor, Forecast, Guarantee, Market, Policy, Rejection, Resources
from app.engine.cloud import Cloud
from app.forecast.bound import SCALES_US
from app.forecast.compute import Forecaster
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable, make_curve
from app.scheduling.rules.extensions import in_words
from app.workbench.audit import audit
from app.workbench.logcsv import LogWriter, read_rows

NOW_US = 30 * DAY_US
GUARANTEES = [Guarantee.PER_INSTANCE, Guarantee.POOLED, Guarantee.STRATIFIED]
FREE_US = 1 << 55
EMPTY = np.empty(0, np.int64)


def quiet_table(*windows: int) -> QuantileTable:
    """Return replays of a month in which nobody was evicted, with so many windows at each scale."""
    seen = Bucket(4, 1000, 0, FREE_US, EMPTY, np.empty(0), windows)
    return QuantileTable(1, NOW_US, 4, {"c1": make_curve([seen])})


def calibrated_table(log: list[Recorded]) -> QuantileTable:
    """Return what a month says in which nothing happened."""
    forecaster = Forecaster(Policy(forecast=Forecast.CALIBRATED, sample_count=1), {Forecast.CALIBRATED})
    forecaster.extend(log)
    return forecaster.publish(NOW_US, 1, len(log))


def made(**policy: Any) -> tuple[Cloud, list[Recorded]]:
    """Return a cloud of one node with this policy, and its log."""
    cloud = Cloud()
    given = replace(Policy(forecast=Forecast.CALIBRATED, eviction_probability=0.5, warm_up_us=0), **policy)
    log = [
        cloud.apply(event)
        for event in (
            CloudCreated(at_us=0, policy=given),
            NodeAdded(at_us=0, node="n", capacity=Resources(4)),
            FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
        )
    ]
    return cloud, log


def start(cloud: Cloud, table: QuantileTable, lifetime_us: int, name: str = "s") -> InstanceStarted | InstanceRejected:
    request = StartRequest(name, Market.SPOT, "c1", lifetime_us, None, NOW_US)
    event = decide_start(cloud, request, NOW_US, table)[-1]
    assert isinstance(event, InstanceStarted | InstanceRejected)
    return event


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_too_few_windows_are_refused_with_what_there_is_and_when_there_will_be_enough(guarantee: Guarantee) -> None:
    cloud, log = made(guarantee=guarantee, min_windows=10)
    table = calibrated_table(log)
    refused = start(cloud, table, 5 * DAY_US)
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.TOO_FEW_WINDOWS
    assert refused.basis is not None
    assert refused.basis.windows == 6.0
    assert refused.basis.floor is not None
    assert (refused.basis.floor.min_windows, refused.basis.floor.enough_us) == (10, 50 * DAY_US)
    instead = acceptable_instead(refused)
    assert instead is not None
    assert instead.probability is None
    assert instead.lifetime_us == refused.basis.floor.affordable_us
    shorter = start(cloud, table, instead.lifetime_us or 0, "shorter")
    assert isinstance(shorter, InstanceStarted), "what is told is accepted"
    assert shorter.basis is not None
    assert (shorter.basis.windows or 0) >= 10


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_floor_of_nothing_changes_no_decision_and_records_windows(guarantee: Guarantee) -> None:
    for lifetime_us in (HOUR_US, 5 * DAY_US, 60 * DAY_US):
        (cloud, log), (plain, _) = made(guarantee=guarantee, min_windows=0), made(guarantee=guarantee)
        table = calibrated_table(log)
        one, other = start(cloud, table, lifetime_us), start(plain, table, lifetime_us)
        assert one.basis is not None
        assert one.basis.windows is not None
        assert replace(one, basis=replace(one.basis, windows=None)) == other


def test_replays_count_their_own_windows() -> None:
    """At the scale above the lifetime, as their bound does; the pace is that of the history so far."""
    windows = tuple(max(1, 40 - 5 * step) for step in range(len(SCALES_US)))
    table = quiet_table(*windows)
    cloud, _ = made(forecast=Forecast.REPLAY, min_windows=20)
    refused = start(cloud, table, SCALES_US[6])
    assert refused.basis is not None
    assert refused.basis.windows == windows[6] == 10
    assert refused.basis.floor == Floor(20, 60 * DAY_US, SCALES_US[4])
    assert isinstance(start(cloud, table, SCALES_US[4]), InstanceStarted)
    short, _ = made(forecast=Forecast.REPLAY, min_windows=20, history_window_us=40 * DAY_US)
    floor = start(short, table, SCALES_US[6]).basis
    assert floor is not None
    assert floor.floor is not None
    assert floor.floor.enough_us is None, "a history of forty days never holds as many"


def test_a_longer_lifetime_needs_the_windows_too() -> None:
    cloud, log = made(min_windows=10)
    table = calibrated_table(log)
    cloud.apply(start(cloud, table, HOUR_US))
    (refused,) = decide_extension(cloud, ExtendRequest("s", 20 * DAY_US, NOW_US), NOW_US, table)
    assert isinstance(refused, ExtensionRejected)
    assert refused.reason is Rejection.TOO_FEW_WINDOWS
    assert "the estimate rested on 1 window, and the policy asks for 10" in in_words(refused)


def test_a_longer_lifetime_is_told_with_the_bound_and_the_windows_of_its_risk() -> None:
    for guarantee in GUARANTEES:
        cloud, log = made(min_windows=1, guarantee=guarantee)
        table = calibrated_table(log)
        cloud.apply(start(cloud, table, HOUR_US))
        for lifetime_us in (5 * DAY_US, 15 * DAY_US):
            (decision,) = decide_extension(cloud, ExtendRequest("s", lifetime_us, NOW_US), NOW_US, table)
            assert isinstance(decision, ExtensionRejected | InstanceExtended)
            basis = decision.basis
            risk = risk_in_words(basis.estimated_probability or 0, basis.probability_bound, basis.windows)
            assert "window" in risk
            assert risk in in_words(decision)


def test_the_audit_finds_a_floor_that_was_not_kept() -> None:
    cloud, log = made(min_windows=10)
    table = calibrated_table(log)
    for name, lifetime_us in (("short", HOUR_US), ("long", 5 * DAY_US)):
        log.append(cloud.apply(start(cloud, table, lifetime_us, name)))
    file = io.StringIO()
    writer = LogWriter(file)
    for item in log:
        writer.write(item)
    rows = [row for _, row in read_rows(io.StringIO(file.getvalue()), "log")]
    assert audit(rows, []).finding is None
    assert rows[-1].floor == log[-1].event.basis.floor  # type: ignore[union-attr]
    below = [*rows[:-2], rows[-2]._replace(windows=9.0), rows[-1]]
    assert "admitted on 9.0 windows, of 10 asked for" in str(audit(below, []).finding)
    enough = [*rows[:-1], rows[-1]._replace(windows=10.0)]
    assert "but there were enough" in str(audit(enough, []).finding)


def test_the_words() -> None:
    assert risk_in_words(0.286, 1.0, 8.2, 0.95) == "28.6 % (at most 100 % with 95 % confidence, on 8 windows)"
    assert risk_in_words(0.0001, None, None) == "0.01 %"
    assert [windows_text(number) for number in (0.25, 1.9, 8.99987, 1234.5)] == ["0.25", "1", "9", "1,234"]
    basis = Basis(1, windows=0.5, floor=Floor(30, 50 * DAY_US))
    assert floor_in_words(basis) == (
        "the estimate rested on 0.5 windows, and the policy asks for 30; at the present pace there will be as many "
        "from 1970-02-20 00:00:00 UTC on"
    )


def test_no_refusal_for_want_of_windows_reads_as_if_there_were_enough() -> None:
    basis = Basis(1, probability=0.1, estimated_probability=0.05, windows=8.99987, floor=Floor(9, None))
    assert floor_in_words(basis) == "the estimate rested on just under 9 windows, and the policy asks for 9"
    assert risk_of_basis(basis) == "5 % (on just under 9 windows)"
    assert floor_in_words(replace(basis, windows=0.999, floor=Floor(1, None))).startswith(
        "the estimate rested on just under 1 window, and"
    )
    assert risk_of_basis(replace(basis, floor=None)) == "5 % (on 9 windows)"


def test_the_option_is_part_of_the_policy() -> None:
    found = policy_of(0.1, None, "yjf", "6h", 10, "30d", "all", 0, "calibrated", "1h,8h,2d,7d", 12)
    assert found.min_windows == 12
