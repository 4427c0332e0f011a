"""The lines that judge a calibration, on runs made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.times import DAY_US
from app.domain.values import Forecast
from app.workbench.fates import Case, Quoted, Said
from benchmarks.calibration import Run, by_age, judge


def _run(name: str, *, loss: float, auc: float, ratio: float = 1.0, evicted: int = 30) -> Run:
    decile = {"said": 0.1, "low": 0.05, "high": 0.2}
    report: dict[str, Any] = {
        "cases": 1000,
        "evicted": evicted,
        "log_loss": loss,
        "constant_log_loss": 1.0,
        "walk_forward_log_loss": 1.1,
        "auc": auc,
        "deciles": [decile] * 10,
        "strata": {"<1h": {"cases": 500, "evicted": evicted, "said": 0.05, "happened": 0.05 * ratio}},
        "coverage": {"<1h": {"epochs": 50, "covered": 49}},
    }
    return Run(name, report, ())


def test_good_runs_pass_every_line() -> None:
    lines = judge([_run("first", loss=0.5, auc=0.96), _run("second", loss=0.6, auc=0.95)])
    assert all(line.is_good for line in lines)
    assert {"relative", "worst", "auc mean", "cells 2", "deciles", "coverage"} <= {line.name for line in lines}


def test_lines_that_fail_come_first_and_name_the_run() -> None:
    lines = judge([_run("first", loss=0.3, auc=0.99), _run("second", loss=0.97, auc=0.81, ratio=2.5)])
    failed = [line for line in lines if not line.is_good]
    assert lines[: len(failed)] == failed
    assert {line.name for line in failed} == {"auc mean", "worst", "auc each", "auc .88", "cells 2"}
    assert all("second" in line.text for line in failed if line.name in {"worst", "auc each", "cells 2"})


def test_runs_with_few_evictions_are_summed_and_not_ranked() -> None:
    lines = {line.name: line for line in judge([_run("a", loss=1.2, auc=0.5, evicted=3), _run("b", loss=0.4, auc=0.9)])}
    assert not lines["few"].is_good
    assert lines["worst"].is_good
    assert lines["auc each"].is_good


def _case(days: float, said: float, *, evicted: bool) -> Case:
    quoted = Quoted("s", round(days * DAY_US), "c1", DAY_US, 1, {Forecast.CALIBRATED: Said(said, None)})
    return Case(quoted, 1 if evicted else None)


def test_starts_are_summed_by_the_age_of_the_cloud() -> None:
    first, second, *rest = by_age(
        [_case(1, 0.5, evicted=True), _case(2.9, 0.5, evicted=False), _case(3, 0.2, evicted=False)]
    )
    assert (first.cases, first.evicted, first.said) == (2, 1, 1.0)
    assert first.loss == pytest.approx(first.constant_loss)
    assert (second.cases, second.evicted, second.constant_loss) == (1, 0, 0.0)
    assert all(age.cases == 0 for age in rest)
