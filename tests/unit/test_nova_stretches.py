"""A server of Nova's becomes stretches; these become the file that names nobody, which an import reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.domain.events import InstanceStarted, InstanceStopped, NodeAdded, NodeRemoved
from app.domain.inputs import InputError
from app.domain.servers import (
    OvercommitRatios,
    ServerNode,
    ServerRecord,
    ServerRecordEnd,
    ServerStretch,
    StretchEnd,
    is_possible,
)
from app.domain.times import SECOND_US
from app.domain.values import Market, Policy, Resources
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes, parse_sizes
from app.importing.store.scratch import Scratch
from app.nova.past.lines import Hiding, hidden_lines
from app.nova.past.splitting import NovaFlavor, NovaServer, ServerMark, SizeChange, flavor_of, stretches_of
from app.workbench.import_formats.files import read_past

UUID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
SMALL, LARGE = Resources(1, 2048, 10), Resources(4, 8192, 40)
FLAVORS = {1: NovaFlavor(SMALL, "small"), 2: NovaFlavor(LARGE, "large")}


def server(size: Resources = SMALL, flavor: int = 1, **given: object) -> NovaServer:
    row = NovaServer(UUID, size, 0, 10, 100, "host-1", "deleted", flavor)
    return row._replace(**given)


def told(stretches: Sequence[ServerStretch]) -> list[tuple[object, ...]]:
    return [(one.part, one.size.cores, one.began_us, one.ended_us, str(one.end)) for one in stretches]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [(1, 1, 10, 100, "deleted")]),
        ({"ended_us": None, "state": "active"}, [(1, 1, 10, None, "running")]),
        ({"launched_us": None, "host": None, "state": "error"}, [(1, 1, None, 100, "unplaced")]),
        ({"launched_us": None, "state": "error"}, [(1, 1, None, 100, "failed")]),
        ({"launched_us": None, "host": None, "state": "building"}, [(1, 1, None, 100, "failed")]),
    ],
)
def test_a_server_without_marks_is_one_stretch(given: dict[str, object], expected: list[tuple[object, ...]]) -> None:
    assert told(stretches_of(server(**given), (), (), FLAVORS)) == expected


M = ServerMark
SHELVES = [
    # Left its host, and came back to one.
    ([(40, M.SHELVED), (50, M.OFFLOADED), (70, M.UNSHELVED)], [(0, 50, "shelved"), (70, 100, "deleted")]),
    # The offload was not recorded: the shelving is the nearest that is known.
    ([(40, M.SHELVED), (70, M.UNSHELVED)], [(0, 40, "shelved"), (70, 100, "deleted")]),
    # Shelved on its host until it was deleted.
    ([(40, M.SHELVED)], [(10, 100, "deleted")]),
    # Deleted while no host had it.
    ([(40, M.SHELVED), (50, M.OFFLOADED)], [(10, 50, "shelved")]),
    # Nova sets the time of the launch anew: the first start is near the creation.
    ([(50, M.REBUILT)], [(0, 100, "deleted")]),
    ([(50, M.RESCUED)], [(0, 100, "deleted")]),
    # Two stays.
    (
        [(20, M.OFFLOADED), (30, M.UNSHELVED), (40, M.OFFLOADED), (60, M.UNSHELVED)],
        [(0, 20, "shelved"), (30, 40, "shelved"), (60, 100, "deleted")],
    ),
    # What is noted after the end does not count.
    ([(SECOND_US, M.OFFLOADED)], [(10, 100, "deleted")]),
    # What is noted in its second does: an end has no fractions.
    ([(120, M.SHELVED), (130, M.UNSHELVED)], [(0, 120, "shelved"), (130, 130, "deleted")]),
]


@pytest.mark.parametrize(("marks", "expected"), SHELVES)
def test_a_shelved_server_is_a_stretch_for_each_stay(
    marks: list[tuple[int, ServerMark]], expected: list[tuple[object, ...]]
) -> None:
    found = stretches_of(server(), marks, (), FLAVORS)
    assert [(one.began_us, one.ended_us, str(one.end)) for one in found] == expected


def test_a_server_that_is_shelved_now_has_ended() -> None:
    row = server(ended_us=None, state="shelved_offloaded")
    assert told(stretches_of(row, [(40, M.SHELVED), (50, M.OFFLOADED)], (), FLAVORS)) == [(1, 1, 10, 50, "shelved")]
    assert told(stretches_of(row, [(40, M.SHELVED)], (), FLAVORS)) == [(1, 1, 10, 40, "shelved")]


def test_a_resized_server_is_a_stretch_for_each_size() -> None:
    row, changes = server(LARGE, 2), [SizeChange(45, 1, 2)]
    found = stretches_of(row, [(50, M.RESIZED)], changes, FLAVORS)
    assert told(found) == [(1, 1, 0, 50, "resized"), (2, 4, 50, 100, "deleted")]
    assert [one.flavor for one in found] == ["small", "large"]
    assert all(one.size_known for one in found)


def test_a_resize_that_was_taken_back_is_three_stretches() -> None:
    marks, changes = [(50, M.RESIZED), (60, M.REVERTED)], [SizeChange(45, 1, 2)]
    expected = [(1, 1, 0, 50, "resized"), (2, 4, 50, 60, "resized"), (3, 1, 60, 100, "deleted")]
    assert told(stretches_of(server(), marks, changes, FLAVORS)) == expected


def test_a_migration_keeps_the_size() -> None:
    """Nova notes a cold migration by the same event as a resize."""
    assert told(stretches_of(server(), [(50, M.RESIZED)], [SizeChange(45, 1, 1)], FLAVORS)) == [
        (1, 1, 0, 100, "deleted")
    ]


def test_a_size_that_nobody_knows_is_the_later_one() -> None:
    found = stretches_of(server(LARGE, 2), [(50, M.RESIZED)], [SizeChange(45, 77, 2)], FLAVORS)
    assert [(one.size, one.size_known) for one in found] == [(LARGE, False), (LARGE, True)]


def test_a_server_can_be_resized_while_no_host_has_it_to_come_back() -> None:
    marks = [(20, M.OFFLOADED), (30, M.UNSHELVED), (50, M.RESIZED), (70, M.OFFLOADED)]
    found = stretches_of(server(LARGE, 2), marks, [SizeChange(45, 1, 2)], FLAVORS)
    assert told(found) == [(1, 1, 0, 20, "shelved"), (2, 1, 30, 50, "resized"), (3, 4, 50, 70, "shelved")]


def kept(**specs: str) -> str:
    data = {"vcpus": 2, "memory_mb": 512, "root_gb": 5, "ephemeral_gb": 1, "swap": 1500, "name": "a b"}
    return json.dumps({"cur": {"nova_object.data": {**data, "extra_specs": specs}}})


def test_a_flavor_is_read_from_what_nova_keeps_of_it() -> None:
    assert flavor_of(kept(), SMALL) == NovaFlavor(Resources(2, 512, 8), "a_b")
    spot = kept(**{"tenure:market": "spot", "tenure:flavor": "small"})
    assert flavor_of(spot, SMALL) == NovaFlavor(Resources(2, 512, 8), "small", is_spot=True)


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"cur": null}', '{"cur": {"nova_object.data": {}}}', "[" * 9000]
)
def test_without_a_readable_flavor_the_row_tells_the_size(text: str | None) -> None:
    assert flavor_of(text, SMALL) == NovaFlavor(SMALL)


# --- the file, and its import ----------------------------------------------------------------------------------------

HOUR = 3600 * SECOND_US
NODES = (
    ServerNode("cmp-1", Resources(2, 16384, 100), OvercommitRatios(4.0, 1.0, 1.0), 0),
    ServerNode("cmp-2", Resources(2, 16384, 100), OvercommitRatios(4.0, 1.0, 1.0), 5 * HOUR, 8 * HOUR),
    ServerNode("cmp-3", Resources(2, 16384, 100), OvercommitRatios(), 0, HOUR),
)


def stretch(
    name: str, *times: int | None, part: int = 1, end: str = "deleted", size: Resources = SMALL
) -> ServerStretch:
    created = times[0] or 0
    flavor = {SMALL: "small", LARGE: "large"}[size]
    return ServerStretch(name, part, size, created, *times, StretchEnd(end), flavor, "cmp-1")


RECORD = [
    ServerRecord(2 * HOUR, 10 * HOUR, NODES),
    stretch("long-gone", HOUR, 2 * HOUR),
    stretch("before", HOUR, 4 * HOUR),
    stretch("resized", 3 * HOUR, 5 * HOUR, end="resized"),
    stretch("resized", 5 * HOUR, None, part=2, end="running", size=LARGE),
    stretch("spot", 3 * HOUR, 6 * HOUR)._replace(is_spot=True),
    stretch("unmet", None, 7 * HOUR, end="unplaced", size=LARGE),
    stretch("failed", None, 7 * HOUR, end="failed"),
    stretch("guessed", 4 * HOUR, 6 * HOUR)._replace(size_known=False),
    ServerRecordEnd(9, 1),
]


def exported(tmp_path: Path, pieces: Sequence[object] = RECORD) -> Path:
    path = tmp_path / "past.jsonl"
    path.write_text("".join(f"{line}\n" for line in hidden_lines(iter(pieces), Hiding(b"k" * 16))))  # type: ignore[arg-type]
    return path


def decided(path: Path, **wishes: object) -> tuple[Past, list[object]]:
    with Scratch() as scratch:
        past = Past(scratch, [str(path)], Wishes(**wishes))  # type: ignore[arg-type]
        read_past(past, [path], [])
        events = [one.event for one in PastDecider(past, past.finish(), Policy(), 0).events()]
    return past, list(events)


def counts(past: Past) -> dict[str, int]:
    edges = ("running_at_start", "ends_with_record")
    return {rule["rule"]: rule["count"] for rule in past.findings.report() if rule["rule"] not in edges}


def test_the_file_names_nobody(tmp_path: Path) -> None:
    text = exported(tmp_path).read_text()
    for name in ("cmp-1", "resized", "spot\n", "before", "small", "large"):
        assert f'"{name}"' not in text.replace('"end":"resized"', "")
    assert "long-gone" not in text
    assert text.count(Hiding(b"k" * 16).once("resized")) == 2
    assert Hiding(b"l" * 16).once("resized") != Hiding(b"k" * 16).once("resized")


def test_a_record_becomes_a_past(tmp_path: Path) -> None:
    _, events = decided(exported(tmp_path))
    hidden = {Hiding(b"k" * 16).once(name): name for name in ("before", "resized", "spot", "guessed", "cmp-1", "cmp-2")}

    def name(text: str) -> str:
        server, dot, part = text.partition(".")
        return hidden[server] + dot + part

    started = [(name(e.instance_id), e.at_us / HOUR) for e in events if isinstance(e, InstanceStarted)]
    assert started == [("before", 2), ("resized", 3), ("spot", 3), ("guessed", 4), ("resized.2", 5)]
    stopped = [(name(e.instance_id), e.at_us / HOUR) for e in events if isinstance(e, InstanceStopped)]
    assert stopped == [("before", 4), ("resized", 5), ("spot", 6), ("guessed", 6)]
    nodes = [(name(e.node), e.capacity, e.at_us / HOUR) for e in events if isinstance(e, NodeAdded)]
    assert nodes == [("cmp-1", Resources(8, 16384, 100), 2), ("cmp-2", Resources(8, 16384, 100), 5)]
    assert [(name(e.node), e.at_us / HOUR) for e in events if isinstance(e, NodeRemoved)] == [("cmp-2", 8)]
    spot = [e for e in events if isinstance(e, InstanceStarted) and e.market is Market.SPOT]
    assert [(name(e.instance_id), e.lifetime_us, e.flavor) for e in spot] == [("spot", 3 * HOUR, "c1-m2048-d10")]


def test_the_report_tells_how_far_a_record_can_be_trusted(tmp_path: Path) -> None:
    past, _ = decided(exported(tmp_path))
    assert counts(past) == {
        "unmet_demand": 1,
        "duplicate": 1,
        "never_ran": 1,
        "resized": 1,
        "size_of_later": 1,
        "began_before": 1,
        "running_at_end": 1,
    }
    assert past.record is not None
    assert past.record["unmet_demand"] == {"servers": 1, "cores": 4, "memory_mib": 8192, "disk_gib": 40}
    assert past.record["overcommit"] == [{"nodes": 2, "cores": 4.0, "memory": 1.0, "disk": 1.0}]
    assert past.record["whole_from"] == "1970-01-01T02:00:00+00:00"
    assert past.flavors == {"c1-m2048-d10": SMALL, "c4-m8192-d40": LARGE}


def test_who_knows_better_says_from_when_the_record_is_whole(tmp_path: Path) -> None:
    past, events = decided(exported(tmp_path), since_us=4 * HOUR)
    assert counts(past)["before_record"] == 1
    assert [e.at_us for e in events if isinstance(e, InstanceStarted)][:3] == [4 * HOUR] * 3


def test_a_platform_and_flavors_can_be_given(tmp_path: Path) -> None:
    past, events = decided(exported(tmp_path), nodes=(Resources(2),), sizes=parse_sizes("doubling"))
    assert counts(past)["nodes_replaced"] == 2
    assert not [e for e in events if isinstance(e, NodeAdded) and e.capacity != Resources(2)]
    assert counts(past)["too_wide"] == 1


def test_a_second_size_of_a_flavor_has_a_name_of_its_own() -> None:
    from app.workbench.import_formats.servers import read_told  # noqa: PLC0415 - of this test alone

    other = stretch("other", 3 * HOUR, 4 * HOUR)._replace(size=Resources(2, 2048, 10))
    with Scratch() as scratch:
        past = Past(scratch, ["nova"], Wishes())
        read_told(past, "nova", iter([*RECORD[:4], other, RECORD[-1]]))  # type: ignore[arg-type]
        assert past.flavors == {"small": SMALL, "small--2": Resources(2, 2048, 10)}
        assert past.formats == ["nova"]


HEAD = '{"format":"tenure-servers","version":1,"whole_from_us":0,"read_at_us":0}'
SERVER = (
    '{"id_hmac":"a","part":1,"vcpus":1,"memory_mib":1,"disk_gib":1,"size_known":true,"created_us":0,"began_us":1,'
    '"ended_us":2,"market":"on_demand","end":"deleted"}'
)
LAST = '{"rows":1,"duplicates":0,"stretches":1}'


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([HEAD, SERVER], "the record is cut off"),
        ([HEAD, SERVER, LAST, SERVER], "line 4: a record is one head"),
        ([HEAD, HEAD, LAST], "line 2: a record is one head"),
        ([HEAD.replace('version":1', 'version":2')], "line 1: is no line of a file of servers"),
        ([HEAD, "nonsense", LAST], "line 2: is no line"),
        ([HEAD, "[]", LAST], "line 2: is no line"),
        ([HEAD, "[" * 4000, LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace('"vcpus":1', '"vcpus":true'), LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace('"vcpus":1', '"vcpus":-1'), LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace('"vcpus":1', '"vcpus":1e999'), LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace('"id_hmac":"a"', '"id_hmac":"../a"'), LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace('"began_us":1', '"began_us":999999999999999999'), LAST], "line 2: is no line"),
        ([HEAD, SERVER.replace("on_demand", "free"), LAST], "line 2: is no line"),
        ([HEAD, SERVER + " " * 4096, LAST], "line 2: is longer than 4096 bytes"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, lines: list[str], why: str) -> None:
    path = tmp_path / "past.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(InputError, match=why):
        decided(path, nodes=(Resources(2),))


@pytest.mark.parametrize("odd", [{"server": "no name"}, {"server": ""}, {"began_us": -1}, {"ended_us": 1 << 62}])
def test_a_server_that_cannot_be_one_is_counted_and_left_out(odd: dict[str, Any]) -> None:
    from app.workbench.import_formats.servers import read_told  # noqa: PLC0415 - as above

    good = stretch("good", 3 * HOUR, 4 * HOUR)
    strange = good._replace(**{"server": "strange", **odd})
    record: list[Any] = [RECORD[0], good, strange, ServerRecordEnd(2, 0)]
    lines = [*hidden_lines(iter(record), Hiding(b"k" * 16))]
    in_file = 2 if is_possible(strange) else 1
    assert sum("id_hmac" in line for line in lines) == in_file, "a file has none that it could not be read with"
    with Scratch() as scratch:
        past = Past(scratch, ["nova"], Wishes())
        read_told(past, "nova", iter(record))
        assert counts(past)["unreadable_server"] == 1
        assert past.flavors == {"small": SMALL}


def test_a_row_with_an_impossible_time_is_one_impossible_stretch() -> None:
    for odd in ({"launched_us": -1}, {"ended_us": -1}, {"created_us": -1, "launched_us": None}):
        (found,) = stretches_of(server(**odd), (), (), FLAVORS)
        assert not is_possible(found)
