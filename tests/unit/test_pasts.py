"""Recorded pasts: what the readers take of each format, what every rule does, and which lines break a file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    PolicyChanged,
    Recorded,
)
from app.domain.inputs import InputError
from app.domain.times import HOUR_US, SECOND_US
from app.domain.values import Guarantee, Market, Policy, Resources
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Sizes, Wishes, parse_sizes
from app.importing.rules.pastrules import RULES, PastRule
from app.importing.rules.records import PastChange
from app.importing.store.scratch import Scratch
from app.workbench.import_formats.files import read_past

ONE_NODE = (Resources(4),)
JOBS = "start_s,lifetime_s,cores\n"


class Read:
    """A past that was read and decided."""

    def __init__(self, past: Past, recorded: list[Recorded]) -> None:
        self.past = past
        self.recorded = recorded
        self.events: list[Event] = [item.event for item in recorded]

    def rules(self) -> dict[str, tuple[int, list[int]]]:
        """Count and lines of each rule that applied, but for those about the record's edges."""
        edges = {PastRule.RUNNING_AT_START, PastRule.ENDS_WITH_RECORD}
        found = {rule["rule"]: rule for rule in self.past.findings.report() if rule["rule"] not in edges}
        return {name: (rule["count"], [line["line"] for line in rule["lines"]]) for name, rule in found.items()}

    def told(self) -> list[str]:
        """Return what happened to instances, in short."""
        signs = {InstanceStarted: "+", InstanceRejected: "!", InstanceStopped: "-"}
        return [
            f"{signs[type(event)]}{event.instance_id}@{event.at_us / SECOND_US:g}"
            for event in self.events
            if isinstance(event, InstanceStarted | InstanceRejected | InstanceStopped)
        ]


@contextmanager
def reading(files: list[Path], spot: list[Path], wishes: Wishes) -> Iterator[Past]:
    with Scratch() as scratch:
        past = Past(scratch, [str(path) for path in (*files, *spot)], wishes)
        read_past(past, files, spot)
        yield past


def decided(files: list[Path], spot: list[Path], wishes: Wishes, shift_us: int = 0) -> Read:
    with reading(files, spot, wishes) as past:
        return Read(past, list(PastDecider(past, past.finish(), Policy(), shift_us).events()))


def of(tmp_path: Path, text: str, **wishes: Any) -> Read:
    (tmp_path / "past").write_text(text, encoding="utf-8")
    return decided([tmp_path / "past"], [], Wishes(**wishes))


def swf(job: int, submit: int, wait: int, run: int, cores: int, requested: int = -1, status: int = 1) -> str:
    return f"{job} {submit} {wait} {run} {cores} -1 -1 {requested} -1 -1 {status} -1 -1 -1 -1 -1 -1 -1\n"


class TestEucalyptus:
    def test_a_past_becomes_a_log(self, tmp_path: Path) -> None:
        read = of(tmp_path, "START 5 a NODE1 2\nSTART 6 b NODE10 1\nSTART 7 c NODE1 1\nSTOP 9 a\nSTOP 9 b\nSTOP 12 c\n")
        assert read.events[:5] == [
            CloudCreated(at_us=5 * SECOND_US, policy=Policy(guarantee=Guarantee.NONE)),
            NodeAdded(at_us=5 * SECOND_US, node="NODE1", capacity=Resources(3)),
            NodeAdded(at_us=5 * SECOND_US, node="NODE10", capacity=Resources(1)),
            FlavorAdded(at_us=5 * SECOND_US, flavor="c1", demand=Resources(1)),
            FlavorAdded(at_us=5 * SECOND_US, flavor="c2", demand=Resources(2)),
        ]
        assert read.events[5] == InstanceStarted(
            at_us=5 * SECOND_US,
            instance_id="a",
            market=Market.ON_DEMAND,
            flavor="c2",
            node="NODE1",
            lifetime_us=4 * SECOND_US,
        )
        assert read.told() == ["+a@5", "+b@6", "+c@7", "-a@9", "-b@9", "-c@12"]
        assert read.events[-1] == PolicyChanged(at_us=12 * SECOND_US, policy=Policy())
        assert [item.seq for item in read.recorded] == list(range(1, len(read.recorded) + 1))

    def test_a_platform_that_is_given_takes_the_recorded_ones_place(self, tmp_path: Path) -> None:
        read = of(tmp_path, "START 0 a X 3\nSTART 1 b X 2\nSTOP 9 a\nSTOP 9 b\n", nodes=ONE_NODE)
        assert read.told() == ["+a@0", "!b@1", "-a@9"]
        assert read.rules() == {"overcommitted": (1, [2]), "no_room": (1, [2])}

    def test_a_platform_without_a_place_for_any_flavor_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no flavor fits on any node: the smallest takes 8 cores.* has 4;"):
            of(tmp_path, "START 0 a X 1\nSTOP 9 a\n", nodes=ONE_NODE * 8, sizes=parse_sizes("small=8,large=16"))

    def test_lines_that_make_no_sense_fall_under_rules(self, tmp_path: Path) -> None:
        lines = ["STOP 0 z", "START 1 a X 1", "START 2 a X 1", "STOP 5 a", "START 6 a X 1", "STOP 7 a", "STOP 8 a"]
        lines += ["START 20 b X 1", "STOP 19 b", "START 30 c X 1", "START 25 d X 1", "STOP 26 d", "STOP 31 c"]
        lines += ["START 32 w X 9", "STOP 33 w", "START 34 e X 1", "STOP 34 e", "START 40 f X 1"]
        read = of(tmp_path, "\n".join(lines), nodes=ONE_NODE)
        assert read.rules() == {
            "stop_without_start": (2, [1, 7]),
            "start_while_running": (1, [3]),
            "renamed": (1, [5]),
            "negative_duration": (1, [8]),
            "reordered": (3, [9, 11, 12]),
            "too_wide": (1, [14]),
            "overcommitted": (1, [14]),
            "zero_duration": (1, [16]),
            "running_at_end": (1, [18]),
        }
        expected = ["+a@1", "-a@5", "+a.r2@6", "-a.r2@7", "+d@25", "-d@26", "+c@30", "-c@31", "+e@34", "-e@34", "+f@40"]
        assert read.told() == expected

    def test_what_has_no_end_runs_on_or_stops_at_the_end(self, tmp_path: Path) -> None:
        text = "START 0 a X 1\nSTART 5 b X 1\nSTOP 9 b\n"
        assert of(tmp_path, text).told() == ["+a@0", "+b@5", "-b@9"]
        stopped = of(tmp_path, text, stop_at_end=True)
        assert stopped.told() == ["+a@0", "+b@5", "-a@9", "-b@9"]
        assert stopped.rules() == {"stopped_at_end": (1, [1])}

    def test_only_the_first_lines_of_a_rule_are_named(self, tmp_path: Path) -> None:
        stops = "".join(f"STOP 1 x{number}\n" for number in range(9))
        read = of(tmp_path, f"START 0 a X 1\n{stops}STOP 2 a\n")
        assert read.rules() == {"stop_without_start": (9, [2, 3, 4, 5, 6])}

    def test_several_files_and_both_markets(self, tmp_path: Path) -> None:
        for name, text in {
            "one": "START 0 a X 4\nSTOP 50 a\n",
            "two": "START 0 a Y 2\nSTOP 10 a\n",
            "spot": "START 0 s X 2\nSTART 1 t X 2\nSTOP 20 s\n",
        }.items():
            (tmp_path / name).write_text(text)
        files = [tmp_path / "one", tmp_path / "two"]
        read = decided(files, [tmp_path / "spot"], Wishes(nodes=(Resources(4), Resources(4))))
        assert read.told() == ["+a@0", "+a.r2@0", "+s@0", "!t@1", "-a.r2@10", "-s@20", "-a@50"]
        spot = next(event for event in read.events if isinstance(event, InstanceStarted) and event.instance_id == "s")
        assert (spot.market, spot.lifetime_us, spot.probability) == (Market.SPOT, 20 * SECOND_US, None)
        assert read.past.findings.report()[0]["lines"] == [{"file": str(tmp_path / "two"), "line": 1}]
        with pytest.raises(InputError, match="several files do not tell one platform"):
            decided(files, [], Wishes())


class TestTimes:
    def test_a_past_can_be_shifted(self, tmp_path: Path) -> None:
        (tmp_path / "past").write_text("START 5 a X 1\nSTOP 9 a\n")
        read = decided([tmp_path / "past"], [], Wishes(), 100 * SECOND_US)
        assert read.told() == ["+a@105", "-a@109"]
        assert read.events[-1].at_us == 109 * SECOND_US

    def test_gaps_are_noted_or_cut(self, tmp_path: Path) -> None:
        text = f"START 0 a X 1\nSTART {3 * 86400} b X 1\nSTOP {3 * 86400 + 5} b\nSTOP {5 * 86400} a\n"
        assert of(tmp_path, text).rules() == {"long_gap": (2, [1, 2])}
        cut = of(tmp_path, text, longest_gap_us=HOUR_US)
        assert cut.told() == ["+a@0", "+b@3600", "-b@3605", "-a@7205"]
        assert cut.rules() == {"gap_shortened": (2, [1, 2])}
        assert cut.events[-1].at_us == 7205 * SECOND_US

    def test_at_equal_times_stops_come_first_then_on_demand_then_spot(self, tmp_path: Path) -> None:
        (tmp_path / "od").write_text(f"{JOBS}0,10,1\n10,5,1\n10,0,1\n")
        (tmp_path / "spot").write_text(f"{JOBS}0,10,1\n10,0,1\n10,3,1\n")
        read = decided([tmp_path / "od"], [tmp_path / "spot"], Wishes(nodes=ONE_NODE))
        at_10 = ["-past-1@10", "-past-1.r2@10", "+past-2@10", "+past-3@10", "-past-3@10"]
        at_10 += ["+past-2.r2@10", "-past-2.r2@10", "+past-3.r2@10"]
        assert read.told() == ["+past-1@0", "+past-1.r2@0", *at_10, "-past-3.r2@13", "-past-2@15"]


class TestSwf:
    HEADER = "; Version: 2.2\n; UnixStartTime: 100\n; MaxNodes: 2\n; MaxProcs: 8\n"

    def test_jobs_become_instances(self, tmp_path: Path) -> None:
        read = of(tmp_path, self.HEADER + swf(1, 0, 5, 60, 3) + "\n; a comment\n" + swf(2, 10, 0, 5, 1))
        assert read.told() == ["+1@105", "+2@110", "-2@115", "-1@165"]
        assert [event for event in read.events if isinstance(event, NodeAdded)] == [
            NodeAdded(at_us=105 * SECOND_US, node="node-0", capacity=Resources(4)),
            NodeAdded(at_us=105 * SECOND_US, node="node-1", capacity=Resources(4)),
        ]
        assert read.past.flavors == {"c4": Resources(4), "c1": Resources(1)}
        assert read.rules() == {"rounded_up": (1, [5])}

    def test_a_wide_job_becomes_several_instances(self, tmp_path: Path) -> None:
        read = of(tmp_path, self.HEADER + swf(7, 0, 0, 60, 6), sizes=Sizes())
        assert read.told() == ["+7.p1@100", "+7.p2@100", "-7.p1@160", "-7.p2@160"]
        starts = [event for event in read.events if isinstance(event, InstanceStarted)]
        assert [(event.flavor, event.node) for event in starts] == [("c4", "node-0"), ("c2", "node-1")]
        assert read.rules() == {"split": (1, [5])}

    def test_values_that_are_not_known(self, tmp_path: Path) -> None:
        jobs = [
            swf(1, 0, -1, 60, 1),
            swf(2, 1, 0, -1, 1),
            swf(3, -1, 0, 60, 1),
            swf(4, 2, 0, 60, -1, requested=2),
            swf(5, 3, 0, 60, -1),
            swf(6, 4, 0, -1, 1, status=5),
            swf(7, 5, 0, 60, 1, status=3),
            swf(8, 6, 0, 0, 1),
            swf(9, 5, 0, 9, 1),
            swf(9, 6, 0, 9, 1),
        ]
        read = of(tmp_path, self.HEADER + "".join(jobs))
        assert read.rules() == {
            "unknown_wait": (1, [5]),
            "unknown_duration": (1, [6]),
            "unknown_start": (1, [7]),
            "requested_cores": (1, [8]),
            "unknown_cores": (1, [9]),
            "never_ran": (1, [10]),
            "partial_execution": (1, [11]),
            "zero_duration": (1, [12]),
            "reordered": (1, [13]),
            "renamed": (1, [14]),
        }
        assert [told for told in read.told() if told.startswith("+")] == [
            "+1@100", "+4@102", "+9@105", "+8@106", "+9.r2@106",
        ]  # fmt: skip

    def test_a_header_without_a_platform_needs_one(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="give the platform with --nodes"):
            of(tmp_path, "; MaxNodes: 3\n; MaxProcs: 8\n" + swf(1, 0, 0, 1, 1))
        assert of(tmp_path, swf(1, 0, 0, 1, 1), nodes=ONE_NODE).told() == ["+1@0", "-1@1"]

    def test_compressed_files_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "past.swf.gz").write_bytes(gzip.compress((self.HEADER + swf(1, 0, 0, 1, 1)).encode()))
        assert decided([tmp_path / "past.swf.gz"], [], Wishes()).told() == ["+1@100", "-1@101"]
        (tmp_path / "cut.gz").write_bytes(gzip.compress(b"START 0 a X 1\n" * 5000)[:-20])
        with pytest.raises(InputError, match=r"cut.gz, line \d+: the compressed file is broken"):
            decided([tmp_path / "cut.gz"], [], Wishes())


def test_a_csv_line_without_a_lifetime_runs_on(tmp_path: Path) -> None:
    read = of(tmp_path, JOBS + "0,5,1\n2,,1\n3, ,1\n", nodes=ONE_NODE)
    assert read.told() == ["+past-1@0", "+past-2@2", "+past-3@3", "-past-1@5"]
    assert read.rules() == {"running_at_end": (2, [3, 4])}


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    assert of(tmp_path, "\ufeff" + JOBS + "0,5,1\n", nodes=ONE_NODE).told() == ["+past-1@0", "-past-1@5"]


def test_sizes() -> None:
    named = parse_sizes("large=16,small=2")
    assert named.named == (("small", 2), ("large", 16))
    assert [named.choose(cores, 12) for cores in (1, 2, 3, 13)] == [("small", 2), ("small", 2), ("large", 16), None]
    assert named.choose(17, None) is None
    doubling = parse_sizes("doubling")
    assert [doubling.choose(cores, 12) for cores in (1, 3, 8, 9, 12)] == [
        ("c1", 1), ("c4", 4), ("c8", 8), ("c12", 12), ("c12", 12),
    ]  # fmt: skip
    assert parse_sizes("exact").choose(3, 12) == ("c3", 3)
    for text in ("", "small", "small=0", "a=1,a=2", "a=1,b=1", "a=70000", "a=1,"):
        with pytest.raises(InputError, match="--flavors"):
            parse_sizes(text)


def test_too_many_flavors(tmp_path: Path) -> None:
    text = JOBS + "".join(f"0,1,{cores}\n" for cores in range(1, 1100))
    with pytest.raises(InputError, match="more than 300 flavors"):
        of(tmp_path, text, nodes=(Resources(2000),))
    assert len(of(tmp_path, text, nodes=(Resources(2000),), sizes=Sizes(doubling=True)).past.flavors) == 12


def test_no_cloud_is_imported_that_could_not_be_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="20001 nodes are too many: a cloud has 20000 nodes at most"):
        decided([tmp_path / "none"], [], Wishes(nodes=(Resources(4),) * 20_001))
    with pytest.raises(InputError, match="a node of 65537 cores is too large: a node has 65536 cores at most"):
        decided([tmp_path / "none"], [], Wishes(nodes=(Resources(65_537),)))
    jobs = tmp_path / "jobs.swf"
    jobs.write_text(f"; MaxNodes: 20001\n; MaxProcs: 20001\n{swf(1, 0, 0, 60, 1)}")
    with pytest.raises(InputError, match="20001 nodes are too many"):
        decided([jobs], [], Wishes())


def test_nodes_are_counted_that_are_there_at_once() -> None:
    with Scratch() as scratch:
        assert scratch.most_added() == (0, 0)
        for at_us, kind, name, cores in (
            (1, "node_added", "a", 4), (2, "node_removed", "a", 0), (3, "node_added", "b", 2),
            (4, "node_added", "c", 2), (5, "node_resized", "c", 9), (6, "node_drained", "c", 0),
        ):  # fmt: skip
            scratch.add_change(PastChange(0, at_us, at_us, kind, name, cores))
        assert scratch.most_added() == (2, 9)


def test_a_gap_that_no_clock_may_cross_is_refused(tmp_path: Path) -> None:
    text = f"{JOBS}0,1,1\n{11 * 366 * 86_400},1,1\n"
    with pytest.raises(InputError, match="line 3: nothing happens in the 11 years before it, and 3660 days is the"):
        of(tmp_path, text, nodes=ONE_NODE)
    assert PastRule.GAP_SHORTENED in of(tmp_path, text, nodes=ONE_NODE, longest_gap_us=HOUR_US).rules()


def test_flavors_that_fit_nowhere_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no flavor fits on any node: .* takes 99 cores, .* has 4"):
        decided([tmp_path / "none"], [], Wishes(nodes=(Resources(2), Resources(4)), sizes=parse_sizes("small=99")))
    with pytest.raises(InputError, match="No such file"):
        decided([tmp_path / "none"], [], Wishes(nodes=(Resources(4),), sizes=parse_sizes("small=1,large=99")))


BROKEN = {
    "nothing": ("", "the file is empty"),
    "milliseconds": (f"{JOBS}1767225600000,5,1\n", "line 2: '1767225600000' is too large for a number of seconds"),
    "a life too long": (f"{JOBS}0,9,1\n0,99999999999,1\n", "line 3: 'past-2' ran for 99999999999 s, which is more"),
    "something else": ("hello\n", "line 1: expected a START or STOP line"),
    "no instance": (
        "STOP 1 a\n",
        "no instance is left to import; stop_without_start, 1 time: a stop of what does not run: it began before the "
        "record, or ended (line 1)",
    ),
    "no times": (f"{JOBS}1,-5,2\n", "negative_duration, 1 time: an instance that stops before it starts (line 2)"),
    "eucalyptus cut short": ("START 0 a X 1\nSTOP 5\n", "line 2: expected START time id node cores"),
    "eucalyptus time": ("START 0 a X 1\nSTOP x a\n", "line 2: 'x' is not a number of seconds"),
    "eucalyptus time below 0": ("START -1 a X 1\n", "line 1: '-1' is not a number of seconds from 0"),
    "eucalyptus time beyond all": ("START 0 a X 1\nSTOP 999999999999 a\n", "line 2: '999999999999' is too large"),
    "eucalyptus cores": ("START 0 a X 1\nSTART 0 b X 0\n", "line 2: '0' is not a number of cores"),
    "eucalyptus id": ("START 0 ../a X 1\n", "line 1: '../a' is not an id"),
    "csv cells": (f"{JOBS}0,1,1\n0,1\n", "line 3: expected start_s,lifetime_s,cores"),
    "eucalyptus exponent": ("START 1e999999999 a X 1\n", "line 1: '1e999999999' is not a number of seconds"),
    "csv exponent": (f"{JOBS}0,1e999999999,1\n", "line 2: '1e999999999' is not a number of seconds"),
    "csv number": (f"{JOBS}0,1,1\n0,nan,1\n", "line 3: 'nan' is not a number of seconds"),
    "csv number with a line": (f"{JOBS}0,1_0,1\n", "line 2: '1_0' is not a number of seconds"),
    "csv number in other digits": (f"{JOBS}0,\u0661\u0662,1\n", "line 2: '\u0661\u0662' is not a number of seconds"),
    "csv number with a blank": (f"{JOBS}0, 1,1\n", "line 2: ' 1' is not a number of seconds"),
    "csv cores": (f"{JOBS}0,1,1.5\n", "line 2: '1.5' is not a number of cores"),
    "csv too late": (f"{JOBS}0,1,1\n253402300799,5,1\n", "line 3: the time is beyond the year 9999"),
    "swf fields": (swf(1, 0, 0, 1, 1) + "2 0 0\n", "line 2: expected 18 fields, found 3"),
    "swf number": (swf(1, 0, 0, 1, 1) + swf(2, 0, 0, 1, 1).replace("2 0 0", "2 0 x"), "line 2: 'x' is not"),
    "swf processors": (swf(1, 0, 0, 1, -7), "line 1: '-7' is not a number of processors"),
    "too long a line": ("START 0 a X 1\n" + "x" * 5000, "line 2: is longer than 4096 bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_names_its_line(tmp_path: Path, name: str) -> None:
    text, says = BROKEN[name]
    with pytest.raises(InputError) as caught:
        of(tmp_path, text, nodes=ONE_NODE)
    assert str(tmp_path / "past") in str(caught.value)
    assert says in str(caught.value)


def test_files_that_are_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: No such file"):
        decided([tmp_path / "none"], [], Wishes())
    (tmp_path / "binary").write_bytes(b"START 0 a X 1\nSTOP \xff\xfe\n")
    with pytest.raises(InputError, match="binary, line 2: is no text"):
        decided([tmp_path / "binary"], [], Wishes())


def test_every_rule_is_explained() -> None:
    assert set(RULES) == set(PastRule)
