"""The curves of the forecast in force: monotone, honest about thin evidence, and those of the present state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest

from app.admission.quote import quotes_in_force
from app.domain.inputs import parse_nodes
from app.domain.values import Clock, Forecast, Guarantee, Policy
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.curves import FEW_WINDOWS, CurveSheet, curves_now
from app.forecasts.pages.curves import estimates_by_lifetime, lifetimes_by_slots
from app.workbench.evaluate import DrivenCloud, opening
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import combine, operations

POLICY = Policy(
    guarantee=Guarantee.PER_INSTANCE, clock=Clock.EXTERNAL, sample_count=300, eviction_probability=0.07
)  # fmt: skip


def driven(forecast: Forecast) -> tuple[Cloud, QuantileTable]:
    """Four crowded days, and the newest table."""
    on_demand, spot = (synthesize(days=6, mean_utilisation=8, cores=1, seed=seed) for seed in (1, 2))
    policy = replace(POLICY, forecast=forecast)
    tables: list[QuantileTable] = []
    scenario = Scenario(parse_nodes("3x4"), combine(on_demand, spot, 0), policy)
    with ThreadPoolExecutor(1) as executor:
        run = DrivenCloud(policy, executor, tables=tables.append)
        run.record(opening(scenario))
        steps = operations(scenario.workload)
        for step in steps[: len(steps) * 3 // 4]:
            run.step(step)
    return run.cloud, tables[-1]


Drawn = tuple[Cloud, QuantileTable, CurveSheet]


@pytest.fixture(scope="module", params=[*Forecast])
def drawn(request: pytest.FixtureRequest) -> Drawn:
    cloud, table = driven(request.param)
    sheet = curves_now(cloud, table, "c1", cloud.at_us)()
    assert sheet is not None
    assert sheet.forecast is request.param
    return cloud, table, sheet


def test_a_longer_lifetime_is_never_safer(drawn: Drawn) -> None:
    for curve in (*drawn[2].by_lifetime, *drawn[2].told):
        known = [point.estimate for point in curve.points if point.estimate is not None]
        assert known == sorted(known)
        for point in curve.points:
            assert point.bound is None or point.estimate is None or point.bound >= point.estimate


def test_more_room_never_promises_less(drawn: Drawn) -> None:
    _, _, sheet = drawn
    for one in sheet.by_slots:
        assert list(one.lifetimes_us) == sorted(one.lifetimes_us), "a higher probability promises no less"
    if sheet.forecast is Forecast.CALIBRATED:
        for number in range(len(sheet.probabilities)):
            lifetimes = [one.lifetimes_us[number] for one in sheet.by_slots]
            assert lifetimes == sorted(lifetimes)
        for few, more in pairwise(sheet.by_lifetime):
            for point, safer in zip(few.points, more.points, strict=True):
                assert (safer.estimate or 0) <= (point.estimate or 1)


def test_the_present_slots_are_among_them_and_thin_evidence_is_told(drawn: Drawn) -> None:
    cloud, _, sheet = drawn
    assert sheet.slots_now == cloud.available_slots("c1")
    assert cloud.policy.eviction_probability in sheet.probabilities
    assert [one.slots for one in sheet.by_slots] == sorted({one.slots for one in sheet.by_slots})
    if sheet.slots_now:
        assert sheet.slots_now in [one.slots for one in sheet.by_slots]
        assert sheet.slots_now in [one.slots for one in sheet.by_lifetime]
    assert sheet.thin_us is not None, "days hold few windows of a month"
    counts = {point.is_thin: point.worth for curve in sheet.by_lifetime for point in curve.points}
    assert counts.keys() == {True, False}
    assert counts[False] >= FEW_WINDOWS > counts[True]


def test_windows_are_those_of_quotes_and_of_the_floor(drawn: Drawn) -> None:
    """They count as they are, although the bound of a day takes several of them for one."""
    cloud, table, sheet = drawn
    quotes, told = quotes_in_force(table, cloud, ["c1"], cloud.at_us), False
    for curve in (*sheet.by_lifetime, *sheet.told):
        for point in curve.points:
            if point.estimate is not None:
                assert point.window_count == quotes.windows("c1", curve.slots, point.lifetime_us)
                told = told or point.worth < (point.window_count or 0)
    assert told == (sheet.forecast is Forecast.CALIBRATED), "otherwise this shows nothing"


def test_the_charts_draw_the_sheet(drawn: Drawn) -> None:
    _, _, sheet = drawn
    long, risk = lifetimes_by_slots(sheet), estimates_by_lifetime(sheet)
    assert long["y"]["lowest"] > 0
    assert risk["x"]["lowest"] > 0
    assert long["y"]["thin"] == risk["x"]["thin"] == (sheet.thin_us or 0) / 1_000_000
    assert len(risk["series"]) == len(sheet.by_lifetime) + bool(sheet.slots_now)
    if sheet.slots_now:
        assert risk["series"][-1]["label"] == f"bound at {sheet.slots_now}"
    for chart in (long, risk):
        assert all(len(series["values"]) == len(chart["x"]["values"]) for series in chart["series"])


def test_without_a_free_slot_no_bound_is_drawn(drawn: Drawn) -> None:
    """It was that of another number of slots."""
    sheet = replace(drawn[2], slots_now=0)
    assert not [one for one in estimates_by_lifetime(sheet)["series"] if one["label"].startswith("bound")]
    assert "here" not in lifetimes_by_slots(sheet)["x"]


def test_the_axis_begins_at_the_shortest_lifetime_that_is_guaranteed(drawn: Drawn) -> None:
    few = replace(drawn[2].by_slots[0], lifetimes_us=[0, 78_000_000, 90_000_000, 99_000_000])
    sheet = replace(drawn[2], by_slots=[few])
    assert lifetimes_by_slots(sheet)["y"]["lowest"] == 78
