"""Following quoted starts to their ends, and the comparison of what was said with what happened."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from test_evaluate import instance, logged, platform, with_sla
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.strata import STRATA, stratum_of
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Clock, Forecast, Guarantee, Policy, Resources
from app.judging.truths import SURE
from app.workbench.audit import audit
from app.workbench.calibration import calibration_report
from app.workbench.evaluate import evaluate
from app.workbench.fates import Case, Fates, Quoted, Said
from app.workbench.tally import Scenario
from app.workbench.workload import TraceInstance, combine

EVERY = Policy(
    guarantee=Guarantee.NONE,
    forecast=Forecast.CALIBRATED,
    clock=Clock.EXTERNAL,
    warm_up_us=0,
    recompute_every_us=SECOND_US,
    sample_count=100,
)
NOBODY = replace(EVERY, guarantee=Guarantee.PER_INSTANCE, eviction_probability=1e-9)


def followed(scenario: Scenario) -> dict[str, Case]:
    fates = Fates(scenario.policy)
    with ThreadPoolExecutor(1) as threads:
        evaluate(scenario, threads, fates=fates)
    return {case.quoted.instance_id: case for case in fates.cases()}


def ends(scenario: Scenario) -> dict[str, float | None]:
    """Seconds until the eviction of each case within its lifetime."""
    found = followed(scenario)
    return {
        name.removeprefix("spot-"): None if case.evicted_after_us is None else case.evicted_after_us / SECOND_US
        for name, case in found.items()
    }


def one_node(policy: Policy, on_demand: list[TraceInstance], spot: list[TraceInstance]) -> Scenario:
    return Scenario((Resources(4),), combine(on_demand, spot, 0), policy)


ON_DEMAND = [instance("a", 0, 10, 1), instance("b", 20, 10, 4), instance("c", 40, 10, 1)]
SPOT = [instance("s1", 5, 100, 2), instance("s2", 25, 1, 1), instance("s3", 45, 100, 3), instance("s4", 12, 4, 2)]


def test_admitted_starts_have_their_own_fate() -> None:
    """The start that finds no room is no case."""
    assert ends(one_node(EVERY, ON_DEMAND, SPOT)) == {"s1": 15.0, "s4": None, "s3": None}


def test_rejected_starts_are_followed_as_virtual_instances() -> None:
    assert ends(one_node(NOBODY, ON_DEMAND, SPOT)) == {"s1": 15.0, "s4": None, "s3": None}


def test_an_eviction_after_the_declared_lifetime_is_none() -> None:
    assert ends(one_node(NOBODY, ON_DEMAND, [instance("s1", 5, 15, 2), instance("s5", 6, 13, 2)])) == {
        "s1": 15.0,
        "s5": None,
    }


@pytest.mark.parametrize("policy", [EVERY, NOBODY])
def test_no_copy_stands_beside_a_followed_start(policy: Policy) -> None:
    """One start leaves room enough for the on-demand one; beside a copy of itself it would be evicted."""
    on_demand = [instance("a", 0, 2, 1), instance("b", 20, 10, 2)]
    assert ends(one_node(policy, on_demand, [instance("s1", 5, 100, 2)])) == {"s1": None}


def test_rejected_starts_do_not_stand_in_each_others_way() -> None:
    """Each is followed alone: of two admitted ones the younger would be evicted."""
    on_demand = [instance("a", 0, 2, 1), instance("b", 20, 10, 2)]
    spot = [instance("s1", 5, 100, 2), instance("s2", 6, 100, 2)]
    assert ends(one_node(EVERY, on_demand, spot)) == {"s1": None, "s2": 14.0}
    assert ends(one_node(NOBODY, on_demand, spot)) == {"s1": None, "s2": None}


def test_both_forecasts_are_noted_where_there_is_an_sla() -> None:
    cases = followed(one_node(replace(NOBODY, forecast=Forecast.REPLAY), ON_DEMAND, SPOT)).values()
    assert {tuple(case.quoted.said) for case in cases} == {(Forecast.REPLAY, Forecast.CALIBRATED)}
    alone = followed(one_node(EVERY, ON_DEMAND, SPOT)).values()
    assert {tuple(case.quoted.said) for case in alone} == {(Forecast.CALIBRATED,)}


def case(number: int, probability: float, lifetime_us: int, evicted_us: int | None, bound: float = 0.5) -> Case:
    quoted = Quoted(
        f"s{number}", number, "f", lifetime_us, number // 2, {Forecast.CALIBRATED: Said(probability, bound)}
    )
    return Case(quoted, evicted_us)


def test_a_calibration_worked_out_by_hand() -> None:
    cases = [
        case(0, 0.2, HOUR_US, None),
        case(1, 0.8, HOUR_US, 1),
        case(2, 0.4, DAY_US, 5),
        case(3, 0.4, DAY_US, None, bound=0.1),
    ]
    report = calibration_report(cases, Forecast.CALIBRATED)
    assert report is not None
    assert (report["cases"], report["evicted"], report["said"], report["happened"]) == (4, 2, 0.45, 0.5)
    expected = -(log(0.8) + log(0.8) + log(0.4) + log(0.6)) / 4
    assert report["log_loss"] == pytest.approx(expected, abs=1e-6)
    assert report["constant_log_loss"] == pytest.approx(log(2), abs=1e-6)
    # 0.8 is above both that were not evicted; 0.4 is above one and level with the other.
    assert report["auc"] == 3.5 / 4
    # Only the eviction of the second start is known by then, when the third and the fourth begin.
    assert report["walk_forward_log_loss"] == pytest.approx(-(2 * log(1 / 2) + log(3 / 4) + log(1 / 4)) / 4, abs=1e-6)
    assert report["strata"].keys() == {"1h-8h", "8h-2d"}
    assert report["coverage"] == {"1h-8h": {"epochs": 1, "covered": 1}, "8h-2d": {"epochs": 1, "covered": 0}}
    assert [row["cases"] for row in report["deciles"]] == [1, 1, 1, 1]
    nothing = calibration_report(cases, Forecast.REPLAY)
    assert (nothing["cases"], nothing["log_loss"], nothing["strata"]) == (0, None, {})
    assert nothing.keys() == report.keys()


def test_a_certainty_that_fails_has_a_bounded_loss() -> None:
    report = calibration_report([case(0, 0.0, 1, 1), case(1, 1.0, 1, None)], Forecast.CALIBRATED)
    assert report is not None
    assert report["log_loss"] == pytest.approx(-log(SURE), abs=1e-6)
    assert report["auc"] == 0.0


def test_strata_begin_at_their_shortest_lifetime() -> None:
    hours = {0: 0, 1: 1, 7.99: 1, 8: 2, 47.99: 2, 48: 3, 167.99: 3, 168: 4}
    assert {length: stratum_of(int(length * HOUR_US)) for length in hours} == {
        length: STRATA[number] for length, number in hours.items()
    }


def test_an_sla_by_the_calibrated_forecast_passes_the_audit(tmp_path: Path) -> None:
    scenario = with_sla(0.1, forecast=Forecast.CALIBRATED)
    rows = logged(scenario, tmp_path / "log.csv")
    assert audit(rows, platform(scenario)).finding is None
    admitted = [row for row in rows if row.market == "spot" and row.kind == "instance_started"]
    assert len(admitted) > 100
    assert all(0 < row.estimated_probability <= 0.1 for row in admitted)  # type: ignore[operator]


def write(path: Path, instances: list[TraceInstance]) -> str:
    rows = [f"{one.start_us // SECOND_US},{one.lifetime_us // SECOND_US},{one.cores}" for one in instances]
    path.write_text("\n".join(["start_s,lifetime_s,cores", *rows]), encoding="utf-8")
    return str(path)


def test_the_command_tells_strata_flavors_and_calibration(tmp_path: Path) -> None:
    on_demand = [instance(str(hour), hour * 3600, 1800, 1 + hour % 4) for hour in range(60)]
    spot = [instance(str(hour), hour * 3600 + 60, 600 * hour, 1) for hour in range(1, 40)]
    arguments = ["evaluate", "--nodes", "1x4", "--on-demand", write(tmp_path / "a", on_demand)]
    arguments += ["--spot", write(tmp_path / "b", spot), "--spot-delay", "12h", "--no-sla", "--follow"]
    arguments += ["--forecast", "calibrated", "--json"]
    found = CliRunner().invoke(command_line(), arguments)
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert report["settings"]["forecast"] == "calibrated"
    for groups in (report["strata"], report["flavors"]):
        assert sum(group["admitted"] for group in groups.values()) == report["spot"]["admitted"]
        assert sum(group["evicted"] for group in groups.values()) == report["spot"]["evicted"] > 0
        assert sum(group["overrun_evicted"] for group in groups.values()) == 0
        completed = sum(group["completed_core_s"] for group in groups.values())
        assert completed == report["spot"]["completed_core_s"]
        assert completed + sum(group["lost_core_s"] for group in groups.values()) == sum(
            group["core_s"] for group in groups.values()
        )
    assert list(report["strata"]) == list(STRATA)
    assert report["calibration"]["forecast"] == "calibrated"
    assert 0 < report["calibration"]["evicted"] < report["calibration"]["cases"]
    assert report["calibration_beside"] is None


def test_the_baseline_of_a_report_is_on_its_page_alone_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    traces = ["--on-demand", write(tmp_path / "a", [instance("a", 0, 7200, 1)])]
    traces += ["--spot", write(tmp_path / "b", [instance(str(at), at, 600, 1) for at in (0, 3600, 7200, 9000)])]
    log, page = tmp_path / "log.csv", tmp_path / "page.html"
    arguments = ["evaluate", "--nodes", "1x4", *traces, "--spot-delay", "0s", "--log", str(log), "--report", str(page)]
    found = CliRunner().invoke(command_line(), [*arguments, "--json"])
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert (report["spot"]["requested"], report["spot_left_out"]) == (2, 2)
    assert report["settings"]["guarantee"] == "stratified"
    assert log.read_text(encoding="utf-8").startswith("seq,")
    assert "2 more, from the end of the on-demand trace on, are left out" in page.read_text(encoding="utf-8")
    assert "no SLA" in page.read_text(encoding="utf-8")
    for slas in ("0.01", "none,0.01"):
        told = CliRunner().invoke(command_line(), [*arguments[:-4], "--sla", slas]).stdout
        assert "on-demand trace on, left out of those requested: 2" in " ".join(told.split())
