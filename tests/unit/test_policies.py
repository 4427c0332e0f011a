"""Tests of what a new cloud gets, and of what an old log means."""

from __future__ import annotations

from typing import Any

import pytest

from app.commands.workloads import policy_of
from app.domain.events import CloudCreated
from app.domain.events.formats import LOG_FORMAT, in_format
from app.domain.policies import new_policy
from app.domain.values import Forecast, Guarantee, Policy
from app.scheduling.store.codec import decode
from app.scheduling.wire.clouds import PolicyBody

STRATIFIED, PER_INSTANCE = Guarantee.STRATIFIED, Guarantee.PER_INSTANCE


@pytest.mark.parametrize(
    ("named", "guarantee", "forecast"),
    [
        ({}, STRATIFIED, Forecast.CALIBRATED),
        ({"eviction_probability": 0.05}, STRATIFIED, Forecast.CALIBRATED),
        ({"forecast": Forecast.REPLAY}, PER_INSTANCE, Forecast.REPLAY),
        ({"guarantee": Guarantee.POOLED}, Guarantee.POOLED, Forecast.CALIBRATED),
        ({"guarantee": STRATIFIED, "forecast": Forecast.REPLAY}, STRATIFIED, Forecast.REPLAY),
    ],
)
def test_the_guarantee_follows_from_the_forecast(
    named: dict[str, Any], guarantee: Guarantee, forecast: Forecast
) -> None:
    found = new_policy(named)
    assert (found.guarantee, found.forecast) == (guarantee, forecast)
    assert all(getattr(found, name) == value for name, value in named.items())
    assert new_policy(PolicyBody(**named).named()) == found, "the same over HTTP"


def test_an_old_log_means_what_it_meant() -> None:
    assert decode("cloud_created", 1, '{"at_us":5,"policy":{}}') == CloudCreated(at_us=5, policy=Policy())
    assert (Policy().guarantee, Policy().forecast) == (PER_INSTANCE, Forecast.REPLAY)


def test_a_change_concerns_only_what_it_names() -> None:
    changed = PolicyBody(forecast=Forecast.CALIBRATED).over(Policy())
    assert (changed.guarantee, changed.forecast) == (PER_INSTANCE, Forecast.CALIBRATED)
    assert PolicyBody(confidence=0.9).over(new_policy({})) == new_policy({"confidence": 0.9})


@pytest.mark.parametrize("log_format", range(1, LOG_FORMAT + 1))
def test_every_log_format_can_hold_a_new_cloud(log_format: int) -> None:
    """Until an upgrade is finished, new clouds get the published method if the older program knows no other."""
    policy = new_policy({"eviction_probability": 0.2}, log_format)
    in_format(CloudCreated(at_us=0, policy=policy), log_format)
    assert (policy.guarantee is STRATIFIED) == (policy.forecast is Forecast.CALIBRATED) == (log_format >= 4)


def test_options_that_are_not_given_are_those_of_new_clouds() -> None:
    def named(sla: float | None, guarantee: str | None, forecast: str) -> tuple[Guarantee, Forecast]:
        found = policy_of(sla, guarantee, "yjf", "6h", 10, "30d", "all", 0, forecast, "1h,8h,2d,7d")
        return found.guarantee, found.forecast

    assert named(0.1, None, "calibrated") == (STRATIFIED, Forecast.CALIBRATED)
    assert named(0.1, None, "replay") == (PER_INSTANCE, Forecast.REPLAY)
    assert named(0.1, "pooled", "calibrated") == (Guarantee.POOLED, Forecast.CALIBRATED)
    assert named(None, None, "calibrated") == (Guarantee.NONE, Forecast.CALIBRATED)
