"""Comparing on the command line: matrices and their reports, reliability and what-if of a running cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from processes import TOKEN, Process, tenure, tenure_here, tenure_json


def without_times(report: Any) -> Any:
    return {name: value for name, value in report.items() if name not in ("forecast_s", "wall_s", "reliability")}


@pytest.mark.long
def test_a_matrix_is_a_list_of_what_each_is_alone(crowded_days: list[str], directory: Path) -> None:
    logs, report = directory / "logs", directory / "report.html"
    options = ["--nodes", "3x4,2x4", "--sla", "0.1", "--sla", "none", "--log", str(logs), "--report", str(report)]
    together = tenure_json("evaluate", *crowded_days, *options)
    assert isinstance(together, list)
    settings = [(len(one["settings"]["nodes"]), one["settings"]["guarantee"]) for one in together]
    assert settings == [(3, "none"), (3, "stratified"), (2, "none"), (2, "stratified")]
    log = directory / "alone.csv"
    alone = tenure_json("evaluate", *crowded_days, "--nodes", "2x4", "--sla", "0.1", "--log", str(log))
    assert without_times(alone) == without_times(together[3])
    assert (logs / "2x4-yjf-stratified-0.1.csv").read_bytes() == log.read_bytes()
    assert len(list(logs.iterdir())) == 4
    page = report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "tenure evaluate" in page


@pytest.mark.long
def test_baselines_stand_beside_an_evaluation(crowded_days: list[str]) -> None:
    options = ["--nodes", "3x4", "--sla", "0.1"]
    plain, with_them = (tenure_json("evaluate", *crowded_days, *options, *more) for more in ([], ["--baselines"]))
    baselines = with_them.pop("baselines")
    assert without_times(plain) == without_times(with_them)
    assert list(baselines) == ["admit_all", "head_room", "clairvoyant"]
    unpromised = tenure_json("evaluate", *crowded_days, *options[:2], "--no-sla")
    assert {name: baselines["admit_all"][name] for name in ("on_demand", "spot", "strata", "flavors")} == {
        name: unpromised[name] for name in ("on_demand", "spot", "strata", "flavors")
    }
    assert baselines["admit_all"]["evicted"] > baselines["clairvoyant"]["evicted"] == 0
    assert 0 < baselines["clairvoyant"]["completed_core_s"] == baselines["clairvoyant"]["core_s"]
    done = tenure_here("evaluate", *crowded_days, *options, "--baselines")
    assert "of clairvoyant's" in done.stdout


def test_the_table_of_a_matrix_is_complete_where_it_is_piped(crowded_days: list[str]) -> None:
    rules = ["--eviction", "yjf,yjf-global", "--placement", "first-fit,best-fit"]
    done = tenure("evaluate", *crowded_days, "--nodes", "3x4", *rules, "--no-sla", "--reliability")
    assert done.returncode == 0, done.stderr
    assert "yjf-global" in done.stdout
    assert done.stdout.count(" best-fit ") == 2
    assert "…" not in done.stdout
    assert "3x4-yjf-global-no-sla: by promise" in done.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--nodes", "3x4", "--sla", "0.1,x"], "'x'"),
        (["--nodes", "3x4", "--sla", "1.5"], "between 0 and 1"),
        (["--nodes", "3x4,0x4"], "0x4"),
        (["--nodes", "3x4,2x4", "--log", "/proc/none/logs"], "folder"),
        (["--nodes", "3x4", "--report", "/proc/none/r.html"], "/proc/none/r.html"),
        (["--nodes", "3x4", "--guarantee", "per-cloud"], "per-cloud"),
    ],
    ids=" ".join,
)
def test_bad_input_is_told_before_any_work(crowded_days: list[str], options: list[str], told: str) -> None:
    done = tenure_here("evaluate", *crowded_days, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.fixture(scope="module")
def cloud(service: Process, crowded_days: list[str]) -> list[str]:
    """A cloud that the workload was driven through, as options."""
    options = ["--url", service.url, "--token", TOKEN, "--cloud", "compared"]
    driven = tenure_here("drive", *options, *crowded_days, "--nodes", "3x4", "--sla", "0.1")
    assert driven.returncode == 0, driven.stderr
    return options


def test_reliability_of_a_cloud_is_that_of_the_evaluation(cloud: list[str], crowded_days: list[str]) -> None:
    live = tenure_json("reliability", *cloud)
    evaluated = tenure_json("evaluate", *crowded_days, "--nodes", "3x4", "--sla", "0.1", "--reliability")["reliability"]
    assert {name: live[name] for name in evaluated} == evaluated
    assert live["classes"][0]["promised"] == 0.1
    table = tenure_here("reliability", *cloud, "--by-epoch")
    assert table.returncode == 0, table.stderr
    assert "compared: by epoch" in table.stdout


@pytest.mark.long
def test_what_if_of_a_cloud(cloud: list[str], crowded_days: list[str], directory: Path) -> None:
    """No change is no change; another platform gives what the evaluation of that platform does, and so does a CSV."""
    found = tenure_json("whatif", *cloud, "--nodes", "3x4,2x4", "--sla", "0.1,none")
    accounts = {json.dumps(one["changes"]): one for one in found["whatif"]}
    same = accounts['{"nodes": "3x4", "eviction_probability": 0.1}']
    assert {**same, "changes": None} == {**found["was"], "changes": None}
    smaller = tenure_json("evaluate", *crowded_days, "--nodes", "2x4", "--sla", "none,0.1")
    for one, told in zip(smaller, ('"guarantee": "none"', '"eviction_probability": 0.1'), strict=True):
        account = accounts[f'{{"nodes": "2x4", {told}}}']
        assert {name: account[name] for name in ("on_demand", "spot")} == {
            name: one[name] for name in ("on_demand", "spot")
        }
    log = str(directory / "compared.csv")
    assert tenure_here("log", "export", *cloud, "--out", log).returncode == 0
    again = tenure_json("whatif", "--log", log, "--sla", "0.1", "--every", "3h", "--samples", "300")
    assert again["was"] == found["was"]
    assert {**again["whatif"][0], "changes": None} == {**found["was"], "changes": None}


def test_what_if_without_a_log(service: Process) -> None:
    done = tenure_here("whatif", "--url", service.url, "--token", TOKEN, "--cloud", "none")
    assert done.returncode == 1
