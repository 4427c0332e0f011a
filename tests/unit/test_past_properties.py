"""Tests of any file as a past: it is named as broken, or gives a log that passes the audit."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.inputs import InputError
from app.domain.values import Policy, Resources
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Sizes, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.audit import audit
from app.workbench.import_formats.files import read_past
from app.workbench.logcsv import LogWriter, read_log

TIMES = st.one_of(st.integers(-2, 60), st.sampled_from(["1.5", "0.0000001", "-1", "1e3", "9" * 12, "x", ""]))
NAMES = st.sampled_from(["a", "b", "c", "a.r2", "1", "é", "../x"])
CORES = st.one_of(st.integers(-2, 9), st.sampled_from(["1.5", "", "65536", "65537"]))
NODES = st.sampled_from(["X", "Y", "NODE10"])

starts = st.builds("START {} {} {} {}".format, TIMES, NAMES, NODES, CORES)
stops = st.builds("STOP {} {}".format, TIMES, NAMES)
sane = st.one_of(
    st.builds("START {} {} {} {}".format, st.integers(0, 60), st.sampled_from("abcd"), NODES, st.integers(1, 5)),
    st.builds("STOP {} {}".format, st.integers(0, 60), st.sampled_from("abcd")),
)
jobs = st.builds("{},{},{}".format, TIMES, TIMES, CORES)
sane_jobs = st.builds("{},{},{}".format, st.integers(0, 60), st.integers(-1, 60), st.integers(1, 9))
swf = st.builds(
    "{} {} {} {} {} -1 -1 {} -1 -1 {} 1 1 1 1 1 -1 -1".format,
    st.sampled_from(["1", "2", "3", "x/"]),
    *[st.integers(-1, 40)] * 3,
    st.integers(-1, 12),
    st.integers(-1, 12),
    st.integers(-1, 5),
)
files = st.one_of(
    st.lists(sane, max_size=30).map("\n".join),
    st.lists(st.one_of(starts, stops), max_size=8).map("\n".join),
    st.lists(sane_jobs, max_size=20).map(lambda lines: "\n".join(["start_s,lifetime_s,cores", *lines])),
    st.lists(jobs, max_size=5).map(lambda lines: "\n".join(["start_s,lifetime_s,cores", *lines])),
    st.lists(swf, max_size=20).map(lambda lines: "\n".join(["; MaxNodes: 2", "; MaxProcs: 8", *lines])),
    st.text(max_size=60),
)
wishes = st.builds(
    Wishes,
    st.sampled_from([None, (Resources(4),), (Resources(2), Resources(3))]),
    st.sampled_from([None, Sizes(), Sizes(doubling=True), Sizes((("small", 1), ("large", 4)))]),
    st.sampled_from([None, 5_000_000, 0]),
    st.booleans(),
)


def log_of(path: Path, file: Path, is_spot: bool, wanted: Wishes) -> Path:
    """The log that the file comes to, as CSV."""
    with Scratch() as scratch, path.open("w", encoding="utf-8", newline="") as text:
        past = Past(scratch, [str(file)], wanted)
        read_past(past, [] if is_spot else [file], [file] if is_spot else [])
        writer = LogWriter(text)
        for item in PastDecider(past, past.finish(), Policy(), 0).events():
            writer.write(item)
    return path


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files, wishes, st.booleans(), st.booleans())
def test_a_file_is_broken_or_becomes_a_log(text: str, wanted: Wishes, is_spot: bool, compressed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "past"
        data = text.encode()
        file.write_bytes(gzip.compress(data) if compressed else data)
        try:
            log = log_of(Path(name) / "log.csv", file, is_spot, wanted)
        except InputError:
            return
        assert audit(read_log(log), []).finding is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(sane, min_size=2, max_size=30).map("\n".join), st.binary(max_size=40), st.data())
def test_a_log_with_a_damaged_line(text: str, damage: bytes, data: st.DataObject) -> None:
    """A log is damaged somewhere: it is named as broken, or what is left of it is decided and passes the audit."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "past").write_text(text)
        try:
            log = log_of(Path(name) / "log.csv", Path(name) / "past", False, Wishes((Resources(4),)))
        except InputError:
            return
        whole = log.read_bytes()
        at = data.draw(st.integers(0, len(whole)))
        log.write_bytes(whole[:at] + damage + whole[at + data.draw(st.integers(0, 30)) :])
        try:
            again = log_of(Path(name) / "again.csv", log, False, Wishes())
        except InputError:
            return
        assert audit(read_log(again), []).finding is None
