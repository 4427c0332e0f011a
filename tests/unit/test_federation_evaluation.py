"""Federations in process: the same counts as plain Python, and as were counted elsewhere on the given jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli import main
from app.domain.inputs import InputError, parse_nodes
from app.federation.rules.hosting import HostRule
from app.federation.rules.increase import PathPart, path_beside
from app.federation.rules.jobs import JOB_COLUMNS, Job, read_jobs
from app.workbench.federation.run import FederationScenario, run_federation
from tests.oracles.federation import plain_federation

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


@settings(max_examples=60, deadline=None)
@given(st.lists(jobs_of_a_cloud, min_size=2, max_size=3), st.sampled_from(HostRule), st.sampled_from([0.05, 0.3]))
def test_it_agrees_with_plain_python(rows: list[Any], rule: HostRule, sla: float) -> None:
    names = "abc"[: len(rows)]
    jobs = {name: named(one) for name, one in zip(names, rows, strict=True)}
    cores = {name: 4 + at for at, name in enumerate(names)}
    nodes = {name: parse_nodes(f"{many}x1") for name, many in cores.items()}
    links = {name: [other for other in names if other != name] for name in names}
    found = run_federation(FederationScenario(nodes, jobs, links, rule, sla, 100_000_000, 0.3))
    expected = plain_federation(cores, jobs, str(rule), sla, 100_000_000, 0.3)
    assert {name: astuple(one) for name, one in found.items()} == {
        name: tuple(one.values()) for name, one in expected.items()
    }


def test_the_room_beside_a_job_grows_as_others_end() -> None:
    cell = 10 * MINUTE_US
    assert path_beside(2, [], 3 * cell) == [PathPart(0, 3, 2)]
    assert path_beside(2, [(cell, 1), (5 * cell, 9)], 3 * cell) == [PathPart(0, 1, 2), PathPart(1, 3, 3)]
    assert path_beside(0, [(3 * cell, 4)], 3 * cell) == [PathPart(0, 3, 0)]


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
        (["--bandwidth", "0"], "no number of bytes"),
        (["--bandwidth", "5XB"], "no number of bytes"),
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
