"""Traces in both formats, the order of operations, and synthetic workloads."""

from __future__ import annotations

import gzip
import io
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import command_line
from app.domain.inputs import InputError, parse_duration, parse_nodes, parse_told_duration
from app.domain.requests import StartRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Resources
from app.workbench.synthesis import synthesize
from app.workbench.workload import TraceInstance, combine, flavors, operations, read_trace, write_trace

EUCALYPTUS = "START 0 i-1 NODE1 2\nSTART 0 i-2 NODE0 1\nSTOP 5 i-2\nSTART 7 i-3 NODE0 4\nSTOP 7 i-3\nSTOP 9 i-1\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def instance(name: str, start_s: float, lifetime_s: float, cores: int = 1) -> TraceInstance:
    return TraceInstance(name, round(start_s * SECOND_US), round(lifetime_s * SECOND_US), cores)


def test_eucalyptus_traces_keep_the_order_of_their_start_lines(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, EUCALYPTUS)) == [
        instance("i-1", 0, 9, 2),
        instance("i-2", 0, 5, 1),
        instance("i-3", 7, 0, 4),
    ]


def test_csv_traces_are_exact_and_sorted_by_start(tmp_path: Path) -> None:
    path = written(tmp_path, "start_s,lifetime_s,cores\n10.000001,3,1\n\n2,0.5,4\n")
    assert read_trace(path) == [instance("3", 2, 0.5, 4), instance("1", 10.000001, 3, 1)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("what is this\n", "line 1: expected a START line or the header"),
        ("START 0 i-1 NODE1\n", "line 1: expected START time id node cores"),
        ("START 0 i-1 NODE1 1\nPAUSE 3 i-1\n", "line 2: expected START time id node cores"),
        ("START x i-1 NODE1 1\n", "line 1: 'x' is not a number of seconds"),
        ("START -1 i-1 NODE1 1\n", "line 1: '-1' is not a number of seconds"),
        ("START nan i-1 NODE1 1\n", "line 1: 'nan' is not a number of seconds"),
        ("START 0 i-1 NODE1 0\n", "line 1: '0' is not a number of cores"),
        ("START 0 i-1 NODE1 1.5\n", "line 1: '1.5' is not a number of cores"),
        ("START 0 ../i NODE1 1\n", "line 1: '../i' is not an instance id"),
        ("START 0 i-1 NODE1 1\nSTART 1 i-1 NODE1 1\n", "line 2: instance 'i-1' starts for the second time"),
        ("START 0 i-1 NODE1 1\nSTOP 1 i-2\n", "line 2: instance 'i-2' stops but does not run"),
        ("START 5 i-1 NODE1 1\nSTOP 4 i-1\n", "line 2: time runs backwards, 4 s comes after 5 s"),
        ("START 5 i-1 NODE1 1\n", "instance 'i-1' has no STOP line"),
        ("start_s,lifetime_s,cores\n1,2\n", "line 2: expected start_s,lifetime_s,cores"),
        ("start_s,lifetime_s,cores\n1,2,3\n1,-2,3\n", "line 3: '-2' is not a number of seconds"),
        ("start_s,lifetime_s,cores\n1,1e400,3\n", "line 2: '1e400' is not a number of seconds"),
        ("start_s,lifetime_s,cores\n1,1e999999999,3\n", "line 2: '1e999999999' is not a number of seconds"),
        ("start_s,lifetime_s,cores\n0,1_0,1\n", "line 2: '1_0' is not a number of seconds"),
        ("start_s,lifetime_s,cores\n0,\u0661\u0662,1\n", "line 2: '\u0661\u0662' is not a number of seconds"),
        ("start_s,lifetime_s,cores\n0,1,1_0\n", "line 2: '1_0' is not a number of cores"),
        ("start_s,lifetime_s,cores\n1,2,100000000\n", "line 2: '100000000' is not a number of cores"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)


def test_a_trace_may_be_compressed_and_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(gzip.compress(b"\xef\xbb\xbfstart_s,lifetime_s,cores\n10,3,1\n"))
    assert read_trace(tmp_path / "trace") == [instance("1", 10, 3, 1)]
    (tmp_path / "trace").write_bytes(gzip.compress(b"START 0 a X 1\nSTOP 1 a\n")[:-9])
    with pytest.raises(InputError, match=r"trace: the compressed file is broken"):
        read_trace(tmp_path / "trace")


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_trace(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"START 0 \xff\xfe")
    with pytest.raises(InputError, match="not a text file"):
        read_trace(tmp_path / "binary")


def test_spot_starts_late_and_not_after_the_last_on_demand_stop() -> None:
    spot = [instance("a", 0, 1), instance("b", 49, 100), instance("c", 50, 1)]
    workload = combine([instance("x", 0, 60), instance("y", 5, 1)], spot, 10 * SECOND_US)
    assert [(i.name, i.start_us) for i in workload.spot] == [("a", 10 * SECOND_US), ("b", 59 * SECOND_US)]
    assert workload.left_out == 1
    with pytest.raises(InputError, match="holds no instance"):
        combine([], spot, 0)


def test_the_order_of_operations() -> None:
    on_demand = [instance("a", 0, 10), instance("b", 10, 5), instance("c", 10, 0)]
    spot = [instance("a", 0, 10), instance("d", 10, 0), instance("e", 10, 3)]
    told = [
        ("+" if isinstance(operation, StartRequest) else "-") + operation.instance_id
        for operation in operations(combine(on_demand, spot, 0))
    ]
    at_0, at_10 = ["+od-a", "+spot-a"], ["-od-a", "-spot-a", "+od-b", "+od-c", "-od-c", "+spot-d", "-spot-d", "+spot-e"]
    assert told == [*at_0, *at_10, "-spot-e", "-od-b"]


def test_a_start_declares_its_lifetime_and_a_flavor_of_its_cores() -> None:
    workload = combine([instance("a", 1, 2, 8)], [instance("a", 0, 1, 3)], SECOND_US)
    assert flavors(workload) == {"c3": Resources(3), "c8": Resources(8)}
    first, second = operations(workload)[:2]
    assert isinstance(first, StartRequest)
    assert (first.flavor, first.lifetime_us, first.at_us) == ("c8", 2 * SECOND_US, SECOND_US)
    assert isinstance(second, StartRequest)
    assert (second.market, second.flavor) == ("spot", "c3")


def test_synthetic_traces_have_the_utilisation_asked_for() -> None:
    found = [synthesize(days=200, mean_utilisation=21.8, cores=2, seed=seed) for seed in range(3)]
    for instances in found:
        used = sum(i.lifetime_us * i.cores for i in instances) / (200 * DAY_US)
        assert used == pytest.approx(21.8, rel=0.03)
        assert instances[-1].start_us < 200 * DAY_US
    assert found[0] != found[1]
    assert found[0] == synthesize(days=200, mean_utilisation=21.8, cores=2, seed=0)


def test_a_synthetic_trace_survives_its_file(tmp_path: Path) -> None:
    instances = synthesize(days=1, mean_utilisation=3, cores=1, seed=4)
    file = io.StringIO()
    write_trace(instances, file)
    assert read_trace(written(tmp_path, file.getvalue())) == instances


def test_a_trace_that_runs_on_has_no_lifetimes_beyond_its_end(tmp_path: Path) -> None:
    file = io.StringIO()
    write_trace([instance("a", 0, 5), instance("b", 1, 9)], file, end_us=5 * SECOND_US)
    assert file.getvalue() == "start_s,lifetime_s,cores\n0,5,1\n1,,1\n"
    with pytest.raises(InputError, match="line 3: '' is not a number of seconds from 0"):
        read_trace(written(tmp_path, file.getvalue()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", 45 * SECOND_US),
        ("90m", 90 * 60 * SECOND_US),
        ("90min", 90 * 60 * SECOND_US),
        ("24h", DAY_US),
        ("1.5h", HOUR_US * 3 // 2),
        ("7", 7 * SECOND_US),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1 h", "1e3s", "0.0000001s", "1_0s", "\u0661\u0662s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="is not a duration"):
        parse_duration(text)


def test_a_duration_of_what_cannot_be_undone_tells_its_unit() -> None:
    """An import with `--longest-gap 6` for 6 hours cut the past to pieces of 6 s."""
    assert [parse_told_duration("--longest-gap", text) for text in ("6h", "1.5h", "45s", "0", "0s")] == [
        6 * HOUR_US,
        HOUR_US * 3 // 2,
        45 * SECOND_US,
        0,
        0,
    ]
    with pytest.raises(InputError, match="--longest-gap 6 has no unit: write 6s for seconds or 6h for hours"):
        parse_told_duration("--longest-gap", "6")
    done = CliRunner().invoke(command_line(), ["import", "x", "none.csv", "--longest-gap", "6", "--dry-run"])
    assert (done.exit_code, "write 6s for seconds or 6h for hours" in f"{done.exception}") == (1, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["a.csv", "--since", "2026-01-01"], "--since is for --from nova or --from openstack: leave it out"),
        (["a.csv", "--api-database", "x"], "--api-database is for --from nova: leave it out"),
        (["--from", "nova", "--os-cloud", "x"], "--os-cloud is for --from openstack: leave it out"),
        (["--from", "openstack", "--cell", "x"], "--cell is for --from nova: leave it out"),
    ],
)
def test_options_of_another_source_are_refused(options: list[str], told: str) -> None:
    done = CliRunner().invoke(command_line(), ["import", "x", *options, "--dry-run"], env={"OS_CLOUD": "y"})
    assert str(done.exception) == told


def test_platforms() -> None:
    assert parse_nodes("2x12") == (Resources(12), Resources(12))
    for text in ("2", "0x4", "4x0", "x", "2*3", "-1x4", "1000000000x4"):
        with pytest.raises(InputError, match=r"is not a platform: .* both from 1 to 999999"):
            parse_nodes(text)


@pytest.mark.parametrize(
    ("days", "mean_utilisation"),
    [(0, 1), (-1, 1), (1, 0), (1, -1), (math.nan, 1), (1, math.nan), (math.inf, 1), (3660, 1e6), (-1, -1)],
)
def test_what_is_no_synthetic_trace(days: float, mean_utilisation: float) -> None:
    with pytest.raises(InputError, match="mean utilisation"):
        synthesize(days=days, mean_utilisation=mean_utilisation, cores=1, seed=0)
