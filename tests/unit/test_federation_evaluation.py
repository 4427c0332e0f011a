"""Federations in process: the same counts as plain Python, and as were counted elsewhere on the given jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli import main
from app.domain.inputs import InputError, parse_nodes
from app.domain.times import DAY_US, HOUR_US
from app.federation.rules import hosting
from app.federation.rules.hosting import HostBook, HostRule, Offer, admitted_risk, risk_of
from app.federation.rules.increase import NativeUse, PathPart, path_beside, told_by_hour
from app.federation.rules.jobs import JOB_COLUMNS, Job, read_jobs
from app.workbench.federation.run import FederationScenario, JobFate, JobOutcome, run_federation
from tests.oracles import federation as oracle
from tests.oracles.federation import plain_federation
from tests.unit.test_report import Outline

JOBS = Path(__file__).parents[3] / "shared/traces/federation"
needs_jobs = pytest.mark.skipif(not JOBS.is_dir(), reason=f"the recorded jobs are not in {JOBS}")
MINUTE_US = 60_000_000

jobs_of_a_cloud = st.lists(
    st.builds(
        lambda at, lifetime, count, cores, data: (at * 37 * MINUTE_US, lifetime * 11 * MINUTE_US, cores, count, data),
        st.integers(0, 150),
        st.integers(1, 60),
        st.integers(1, 3),
        st.just(1),
        st.integers(0, 5_000_000_000_000),
    ),
    min_size=1,
    max_size=60,
)


def named(rows: list[tuple[int, int, int, int, int]]) -> list[Job]:
    jobs = [
        Job(str(at), start, lifetime, cores, count, data, 7)
        for at, (start, lifetime, cores, count, data) in enumerate(rows)
    ]
    return sorted(jobs, key=lambda job: job.start_us)


def agrees_with_plain_python(
    rows: list[list[tuple[int, int, int, int, int]]], rule: HostRule, sla: float, bound: float = 1.0
) -> None:
    names = "abc"[: len(rows)]
    jobs = {name: named(one) for name, one in zip(names, rows, strict=True)}
    cores = {name: 4 + at for at, name in enumerate(names)}
    nodes = {name: parse_nodes(f"{many}x1") for name, many in cores.items()}
    links = {name: [other for other in names if other != name] for name in names}
    fates: list[JobFate] = []
    scenario = FederationScenario(nodes, jobs, links, rule, sla, 100_000_000, 0.3, bound)
    found = run_federation(scenario, told=fates.append)
    expected = plain_federation(cores, jobs, str(rule), sla, 100_000_000, 0.3, bound)
    assert {name: astuple(one) for name, one in found.items()} == {
        name: tuple(one.values()) for name, one in expected.items()
    }
    assert sorted((one.origin, one.name) for one in fates) == sorted(
        (name, job.name) for name, own in jobs.items() for job in own
    )
    for name, one in found.items():
        counted = [fate for fate in fates if fate.is_counted and fate.origin == name]
        assert one.preempted == sum(fate.outcome is JobOutcome.PREEMPTED for fate in counted)
        assert one.rejected == sum(fate.host is None for fate in counted)
        assert one.native == sum(fate.host == name for fate in counted)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(jobs_of_a_cloud, min_size=2, max_size=3),
    st.sampled_from(HostRule),
    st.sampled_from([0.05, 0.3]),
    st.sampled_from([1.0, 1.5, 3.0]),
)
def test_it_agrees_with_plain_python(rows: list[Any], rule: HostRule, sla: float, bound: float) -> None:
    agrees_with_plain_python(rows, rule, sla, bound)


@settings(max_examples=40, deadline=None)
@given(st.lists(jobs_of_a_cloud, min_size=2, max_size=3), st.sampled_from([0.05, 0.3]))
def test_pooling_closing_and_opening_again_agree_with_plain_python(rows: list[Any], sla: float) -> None:
    """With few jobs needed for each: from the second admission on, at the first preempted job too many, for a day."""
    with pytest.MonkeyPatch.context() as patch:
        for module, prefix in ((hosting, "_"), (oracle, "")):
            patch.setattr(module, f"{prefix}POOLED_FROM", 2)
            patch.setattr(module, f"{prefix}CLOSED_BEYOND", 1)
            patch.setattr(module, f"{prefix}CLOSED_US", DAY_US)
        agrees_with_plain_python(rows, HostRule.TENURE, sla)


def test_the_room_beside_a_job_grows_as_others_end() -> None:
    cell = 10 * MINUTE_US
    assert path_beside(2, [], 3 * cell) == [PathPart(0, 3, 2)]
    assert path_beside(2, [(cell, 1), (5 * cell, 9)], 3 * cell) == [PathPart(0, 1, 2), PathPart(1, 3, 3)]
    assert path_beside(0, [(3 * cell, 4)], 3 * cell) == [PathPart(0, 3, 0)]


def busy_mornings() -> NativeUse:
    """Return twenty days on each of which use rises from 0 to 4 cores for an hour, at 6 h; on every fourth, to 9."""
    native = NativeUse()
    for day in range(20):
        native.record(day * DAY_US + DAY_US // 4, 4 if day % 4 else 9)
        native.record(day * DAY_US + DAY_US // 4 + 6 * 10 * MINUTE_US, 0)
    return native


MORNING = Offer(20 * DAY_US + DAY_US // 4 - 20 * MINUTE_US, 50 * MINUTE_US, 5, (), 0.05)
"""From some moments of this hour, on every fourth morning, use rose by more than 5 cores."""


def test_a_host_pools_from_the_fortieth_admission_on_and_spends_seven_tenths() -> None:
    native = busy_mornings()
    assert admitted_risk(HostRule.TENURE, native, HostBook(admitted=39), MORNING) is None
    risk = admitted_risk(HostRule.TENURE, native, HostBook(admitted=40), MORNING)
    assert risk is not None
    assert 0.05 < risk < 0.2
    assert admitted_risk(HostRule.TENURE, native, HostBook(admitted=40, running={"a": 1.42}), MORNING) is None
    assert admitted_risk(HostRule.TENURE, native, HostBook(admitted=40, preempted=2), MORNING) is None
    assert admitted_risk(HostRule.TENURE, native, HostBook(admitted=80, preempted=2), MORNING) == risk


def test_a_job_alone_may_use_seven_tenths_of_the_sla() -> None:
    native = busy_mornings()
    risk = risk_of(HostRule.TENURE, native, MORNING)
    assert admitted_risk(HostRule.TENURE, native, HostBook(), replace(MORNING, sla=risk / 0.69)) == risk
    assert admitted_risk(HostRule.TENURE, native, HostBook(), replace(MORNING, sla=risk / 0.71)) is None


def test_no_account_pays_for_a_job_that_is_likelier_preempted_than_not() -> None:
    """Use rises to 4 every noon. With 3 cores to spare eleven hours are mostly too long, with 4 hardly ever."""
    native = NativeUse()
    for day in range(20):
        native.record(day * DAY_US + DAY_US // 2, 4 if day % 10 else 5)
        native.record(day * DAY_US + DAY_US // 2 + HOUR_US, 0)
    tight = Offer(20 * DAY_US + DAY_US // 4, 11 * HOUR_US, 3, (), 0.05)
    rich = HostBook(admitted=1000)
    assert risk_of(HostRule.TENURE, native, tight) > 0.5
    assert admitted_risk(HostRule.TENURE, native, rich, tight) is None
    roomier = replace(tight, spare=4)
    assert 0.035 < risk_of(HostRule.TENURE, native, roomier) < 0.5
    assert admitted_risk(HostRule.TENURE, native, rich, roomier) is not None


def test_a_short_past_tells_of_no_small_risk() -> None:
    """In twenty days nothing ran. `timeline` then sees no risk for two days, `tenure` a tenth."""
    native = NativeUse()
    long = Offer(20 * DAY_US, 2 * DAY_US, 5, (), 0.05)
    assert risk_of(HostRule.TIMELINE, native, long) == 0.0
    assert risk_of(HostRule.TENURE, native, long) == pytest.approx(0.1, rel=1e-3)
    assert admitted_risk(HostRule.TENURE, native, HostBook(), long) is None
    assert admitted_risk(HostRule.TENURE, native, HostBook(), replace(long, held_us=HOUR_US)) is not None


def test_the_host_with_the_lowest_risk_takes_a_job_by_tenure_and_the_first_one_by_other_rules() -> None:
    """`b` had a busy hour on one of twenty days, `c` never: by `literal` both admit what `a` has no room for."""
    jobs = {
        "a": [Job("1", 20 * DAY_US, DAY_US, 1, 2, 0, 0), Job("2", 20 * DAY_US + MINUTE_US, HOUR_US, 1, 1, 0, 0)],
        "b": [Job("1", 5 * DAY_US, HOUR_US, 1, 2, 0, 0)],
        "c": [],
    }
    nodes = {name: parse_nodes("2x1") for name in jobs}
    hosts = []
    for rule in (HostRule.NONE, HostRule.LITERAL, HostRule.TENURE):
        fates: list[JobFate] = []
        run_federation(FederationScenario(nodes, jobs, {"a": ["b", "c"]}, rule), told=fates.append)
        hosts.append(next(fate.host for fate in fates if (fate.origin, fate.name) == ("a", "2")))
    assert hosts == ["b", "b", "c"]


def test_a_closed_host_opens_again_after_thirty_days_with_a_new_account() -> None:
    native, book = busy_mornings(), HostBook(admitted=100, preempted=26, running={"old": 0.01})
    quiet = replace(MORNING, spare=20)
    assert admitted_risk(HostRule.TENURE, native, book, quiet) is None
    later = replace(quiet, at_us=quiet.at_us + 30 * DAY_US - 1)
    assert admitted_risk(HostRule.TENURE, native, book, later) is None
    open_again = replace(quiet, at_us=quiet.at_us + 30 * DAY_US)
    assert admitted_risk(HostRule.TENURE, native, book, open_again) is not None
    assert (book.admitted, book.preempted, book.running) == (0, 0, {"old": 0.01})
    not_yet = HostBook(admitted=100, preempted=25)
    assert not not_yet.is_closed(quiet.at_us, 0.05)


def test_the_hour_tells_all_of_equal_days_and_nothing_of_use_without_hours() -> None:
    day = np.repeat(np.arange(24), 6)
    assert told_by_hour(np.tile(day, 5)) == pytest.approx(1.0)
    assert told_by_hour(np.full(5 * 144, 7)) == 0.0
    assert told_by_hour(np.random.default_rng(1).integers(0, 20, 30 * 144)) < 0.02
    assert told_by_hour(np.repeat(np.arange(30), 144)) == 0.0
    assert told_by_hour(np.tile(day, 1)) == 1.0, "one day alone may be anything"


def test_where_days_are_alike_the_usual_height_of_the_hour_counts() -> None:
    """Each morning use is 9 from 6 h to 8 h. Today it is 2 at 7 h: from 7 h on it never rose, but it is at 9."""
    native = NativeUse()
    for day in range(20):
        native.record(day * DAY_US + DAY_US // 4, 9)
        native.record(day * DAY_US + DAY_US // 3, 0)
    native.record(20 * DAY_US + DAY_US // 4, 2)
    now = Offer(20 * DAY_US + 7 * HOUR_US, 50 * MINUTE_US, 5, (), 0.05)
    assert risk_of(HostRule.TIMELINE, native, now) < 0.05
    assert risk_of(HostRule.TENURE, native, now) > 0.5


def tenure(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tenure", *words])
        with pytest.raises(SystemExit) as left:
            main()
    return int(str(left.value.code or 0))


def run(*options: str) -> int:
    return tenure("federation", "evaluate", *options)


def files(tmp_path: Path, rows: Sequence[str]) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([",".join(JOB_COLUMNS), *rows]) + "\n")
    return path


def test_a_cloud_without_jobs_is_told(two: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*two, "--cloud", "c=1x1") == 0
    assert "--cloud c has no jobs of its own" in capfd.readouterr().err


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two clouds of two cores: `a` is filled by its first job, its second one finds room in `b` until `b` needs it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a = files(tmp_path / "a", ["0,7200,1,2,0,0", "60,3600,1,2,1000000000,250000000", "90,60,1,2,0,0"])
    b = files(tmp_path / "b", ["1800,3600,1,1,0,0"])
    return ["--cloud", "a=2x1", "--cloud", "b=2x1", "--jobs", f"a={a}", "--jobs", f"b={b}", "--train", "0"]


def test_the_answer_of_the_command(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*two, "--rule", "none", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    by_cloud, told = answer.pop("by_cloud"), answer.pop("settings")
    assert answer == {"requests": 4, "native": 2, "remote": 1, "preempted": 1, "rejected": 1, "federation": 0.0}
    assert by_cloud["a"] == answer | {"requests": 3, "native": 1}
    assert told["links"] == {"a": ["b"], "b": ["a"]}
    assert (told["rule"], told["sla"], told["bandwidth_bytes_per_s"]) == ("none", 0.05, 1_250_000_000)


def test_links_shifts_and_rules_matter(two: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*two, "--rule", "none", "--links", "", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rejected"] == 2
    assert run(*two, "--rule", "none", "--shift", "b=2h/1d", "--json") == 0
    later = json.loads(capsys.readouterr().out)
    assert later["preempted"] == 0
    assert later["federation"] == pytest.approx(2 * 3601 / (2 * 3601 + 2 * 7200 + 3600))
    assert run(*two, "--rule", "literal") == 0
    assert "rejected" in capsys.readouterr().out


def test_each_clouds_log_passes_the_audit(two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*two, "--rule", "none", "--log", str(tmp_path / "logs")) == 0
    for name in "ab":
        assert tenure("audit", str(tmp_path / f"logs/{name}.csv")) == 0
    assert "a.2.1" in (tmp_path / "logs/b.csv").read_text()
    assert "preempted" in capsys.readouterr().err


def test_the_report_tells_each_count_and_draws_each_cloud(two: list[str], tmp_path: Path) -> None:
    page = tmp_path / "<report>.html"
    assert run(*two, "--rule", "none", "--report", str(page)) == 0
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert not outline.open
    assert not outline.fetched
    assert len(outline.ids) == len(set(outline.ids))
    for key in ("work", "a-cores", "b-cores", "b-jobs"):
        assert f'<figure id="{key}">' in text
    assert '<figure id="a-jobs">' not in text
    assert "1 (100.00 %)" in text
    assert "&lt;report&gt;" in text
    assert "<script" not in text


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*two, "--report", str(tmp_path / "none/r.html")) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--cloud", "a=2x1"], "given twice"),
        (["--cloud", "A-1=2x1"], "is no name"),
        (["--jobs", "c=x.csv"], "there is no --cloud c"),
        (["--links", "a-c"], "does not join two"),
        (["--shift", "b=8h"], "has not the form"),
        (["--shift", "b=8h/0"], "longer than 0"),
        (["--rule", "hope"], "is none of"),
        (["--sla", "0"], "not between 0 and 1"),
        (["--bandwidth", "0"], "nothing can be moved"),
        (["--bandwidth", "5XB"], "no number of bytes"),
        (["--bound", "0.9"], "not between 1 and 100"),
        (["--bound", "nan"], "not between 1 and 100"),
        (["--train", "1"], "no share"),
        (["--train", "1/0"], "no share"),
    ],
)
def test_what_cannot_be_understood_is_refused(
    two: list[str], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*two, *more) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [
        "1,2,3",
        "-1,2,1,1,0,0",
        "1,0,1,1,0,0",
        "1,2,0,1,0,0",
        "1,2,1,257,0,0",
        "1,2,1,1,-1,0",
        "1e9,2,1,1,0,0",
        "nan,2,1,1,0,0",
        "1,2,1,1,²,0",
    ],
)
def test_a_broken_line_is_told_with_its_number(row: str) -> None:
    with pytest.raises(InputError, match="line 3: "):
        read_jobs([",".join(JOB_COLUMNS), "0,1,1,1,0,0", row])


def test_a_file_needs_its_header() -> None:
    with pytest.raises(InputError, match="line 1: "):
        read_jobs(["start_s,lifetime_s,cores", "0,1,1"])
    with pytest.raises(InputError, match="line 1: "):
        read_jobs([])


@needs_jobs
@pytest.mark.parametrize(("rule", "counts"), [("none", (1103, 1071, 31, 7, 1)), ("literal", (1103, 1071, 11, 0, 21))])
def test_the_counts_that_were_counted_elsewhere(
    rule: str, counts: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """C 24-24, seed 1, of the README beside the jobs."""
    files = [
        part
        for cloud, name in (("a", "C1"), ("b", "C2"))
        for part in ("--jobs", f"{cloud}={JOBS / f'{name}-seed1.csv'}")
    ]
    assert run("--cloud", "a=24x1", "--cloud", "b=24x1", *files, "--rule", rule, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert tuple(answer[name] for name in ("requests", "native", "remote", "preempted", "rejected")) == counts
    assert answer["federation"] == pytest.approx({"none": 0.0662, "literal": 0.0170}[rule], abs=1e-4)
