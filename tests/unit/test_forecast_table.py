"""Survival curves against the naive Kaplan-Meier, and the two ways of reading a table against each other."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import survival as naive

from app.domain.errors import LogNewer
from app.engine.intervals import INTERVAL_COUNT
from app.forecast.replay import Samples
from app.forecast.rise import ROOM_COUNT, Rises
from app.forecast.survival import Bucket, estimate_buckets
from app.forecast.table import QuantileTable, make_curve

Rows = list[tuple[int, int, bool]]
rows = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 12), st.booleans()), min_size=1, max_size=60)


def buckets_of(samples: Rows) -> list[Bucket]:
    columns = [np.array(column) for column in zip(*samples, strict=True)]
    slots, lasted_us, was_evicted = (columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2].astype(bool))
    return estimate_buckets(Samples(slots, lasted_us, was_evicted, np.arange(len(slots))))


def table_of(samples: Rows, flavor: str = "f") -> QuantileTable:
    return QuantileTable(3, 1000, 42, {flavor: make_curve(buckets_of(samples))})


@given(rows)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_buckets_are_the_textbooks(samples: Rows) -> None:
    buckets = {bucket.slots: bucket for bucket in buckets_of(samples)}
    assert list(buckets) == sorted({slots for slots, _, _ in samples})
    for slots, bucket in buckets.items():
        own = [(lasted, evicted) for s, lasted, evicted in samples if s == slots]
        expected = naive.levels(own)
        assert bucket.sample_count == len(own)
        assert bucket.evicted_count == sum(evicted for _, evicted in own)
        assert bucket.longest_us == max(lasted for lasted, _ in own)
        assert bucket.times_us.tolist() == list(expected)
        assert bucket.levels.tolist() == pytest.approx([float(level) for level in expected.values()])


@given(rows, st.integers(1, 8), st.integers(0, 14), st.floats(0, 0.999))
@settings(max_examples=500, derandomize=True, deadline=None)
def test_admitting_by_lifetime_or_by_probability_is_the_same(
    samples: Rows, slots: int, lifetime: int, p: float
) -> None:
    """In seen, interpolated and extreme buckets alike, also exactly at the probability that was read."""
    table = table_of(samples)
    read = table.probability("f", slots, lifetime)
    assert (table.lifetime_us("f", slots, p) > lifetime) == (p >= read)
    if read < 1:
        assert table.lifetime_us("f", slots, read) > lifetime
    if 0 < read < 1:
        assert table.lifetime_us("f", slots, np.nextafter(read, 0)) <= lifetime


@given(rows, st.integers(0, 14))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_a_seen_bucket_gives_the_share_evicted(samples: Rows, lifetime: int) -> None:
    table = table_of(samples)
    for slots in {slots for slots, _, _ in samples}:
        own = [(lasted, evicted) for s, lasted, evicted in samples if s == slots]
        share = naive.share_evicted(naive.levels(own), max(lasted for lasted, _ in own), lifetime)
        assert table.probability("f", slots, lifetime) == pytest.approx(float(share))


EVEN: Rows = [(2, time, True) for time in range(10, 110, 10)] + [(6, 10 * time, True) for time in range(10, 110, 10)]


def test_quantiles_of_a_bucket_without_censoring() -> None:
    table = table_of(EVEN)
    assert [table.lifetime_us("f", 2, p) for p in (0.0, 0.05, 0.15, 0.55, 0.95)] == [10, 10, 20, 60, 100]
    assert [table.probability("f", 2, lifetime) for lifetime in (9, 10, 15)] == pytest.approx([0.0, 0.1, 0.1])


def test_buckets_never_seen_lie_between_the_nearest() -> None:
    table = table_of(EVEN)
    assert [table.lifetime_us("f", slots, 0.15) for slots in (0, 1, 2, 3, 4, 5, 6)] == [0, 10, 20, 65, 110, 155, 200]


def test_more_slots_than_ever_seen_read_the_most_free_bucket() -> None:
    table = table_of(EVEN)
    for slots in (7, 1 << 45):
        assert table.lifetime_us("f", slots, 0.15) == 200
        assert table.probability("f", slots, 150) == table.probability("f", 6, 150)


def test_zero_slots_promise_nothing() -> None:
    table = table_of(EVEN)
    assert table.lifetime_us("f", 0, 0.5) == 0
    assert table.probability("f", 0, 0) == 1.0


def test_nothing_is_certified_beyond_the_longest_observed_time() -> None:
    table = table_of([(1, 50, False), (1, 80, False)])
    assert table.lifetime_us("f", 1, 0.01) == 80
    assert table.probability("f", 1, 79) == 0.0
    assert table.probability("f", 1, 80) == 1.0


def test_without_evidence_there_is_no_answer() -> None:
    table = QuantileTable(1, 0, 0, {"f": make_curve([])})
    for flavor in ("f", "unknown"):
        assert table.lifetime_us(flavor, 1, 0.5) is None
        assert table.probability(flavor, 1, 5) is None
    assert table.flavors == ("f",)
    assert table.curve("f").buckets == ()


def test_great_numbers_do_not_overflow_between_buckets() -> None:
    year = 365 * 86_400_000_000
    table = table_of([(1, year, True), (1 << 44, 100 * year, True)])
    between = table.lifetime_us("f", 1 << 43, 0.5)
    assert year < between < 100 * year
    assert table.probability("f", 1 << 43, between - 1) == 0.0


@given(rows, rows)
@settings(max_examples=50, derandomize=True, deadline=None)
def test_bytes_keep_every_bit(first: Rows, second: Rows) -> None:
    curves = {"a": make_curve(buckets_of(first)), "b": make_curve([]), "c": make_curve(buckets_of(second))}
    table = QuantileTable(3, 1000, 42, curves)
    stored = QuantileTable.from_bytes(table.to_bytes(), epoch=3, epoch_us=1000, seq=42)
    assert (stored.epoch, stored.epoch_us, stored.seq, stored.flavors) == (3, 1000, 42, ("a", "b", "c"))
    assert stored.to_bytes() == table.to_bytes()
    for flavor in table.flavors:
        for slots in range(8):
            assert stored.lifetime_us(flavor, slots, 0.3) == table.lifetime_us(flavor, slots, 0.3)
            assert stored.probability(flavor, slots, 5) == table.probability(flavor, slots, 5)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(LogNewer, match="a newer version of Tenure computed the quantile table of epoch 1"):
        QuantileTable.from_bytes(b"tenure quantile table 4\n", epoch=1, epoch_us=0, seq=0)


def long_table() -> QuantileTable:
    """Return the table of a flavor with 200 buckets of 500 points."""
    times, levels = np.arange(1, 501), np.arange(1, 501) / 1000
    return QuantileTable(
        1, 0, 0, {"f": make_curve([Bucket(10 * n, 500, 500, 600, times + n, levels) for n in range(1, 201)])}
    )


def test_questions_leave_nothing_in_the_memory() -> None:
    table = long_table()
    ask(table, 0)
    tracemalloc.start()
    for number in range(1, 500):
        ask(table, number)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20_000, "one answer of 200 buckets or of 500 points has more"


def ask(table: QuantileTable, number: int) -> None:
    """Ask at ever other probabilities, and at slots on buckets, between them and beyond them."""
    table.lifetime_us("f", 3 + 7 * number, number / 501)
    table.probability("f", 3 + 7 * number, 250)
    table.bound("f", 10 * number, 250, 0.9)
    table.accepted_count("f", 10 * number, 250, number / 501)


def test_a_question_reads_no_more_than_two_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = long_table(), set[int]()
    for name in ("lifetime_us", "lifetimes_us", "probability"):
        asked = getattr(Bucket, name)
        monkeypatch.setattr(Bucket, name, lambda self, *of, asked=asked: read.add(self.slots) or asked(self, *of))
    for slots, around in ((100, {100}), (105, {100, 110}), (5, {0, 10}), (9999, {2000})):
        table.lifetime_us("f", slots, 0.25)
        table.probability("f", slots, 250)
        table.bound("f", slots, 250, 0.9)
        assert read <= around
        assert read
        read.clear()


def test_rises_are_stored_with_a_table_and_older_tables_have_none() -> None:
    """A table without them stays in the format that older programs read."""
    rooms = np.zeros((3, ROOM_COUNT), np.int64)
    rooms[0] = np.arange(ROOM_COUNT)
    shares = np.linspace(0, 1, 3 * ROOM_COUNT * INTERVAL_COUNT).reshape(3, ROOM_COUNT, INTERVAL_COUNT)
    rises = Rises(rooms, np.array([ROOM_COUNT, 0, 0]), shares, 123456789, spreads=np.array([4.25, 0.0, 1e9]))
    assert Rises.from_bytes(rises.to_bytes())[0].heights.shape == (3, 0, INTERVAL_COUNT)
    rises = rises._replace(heights=shares[::-1] / 3)
    table = replace(table_of([(1, 5, True), (2, 7, False)]), rises=rises)
    data = table.to_bytes()
    assert data.startswith(b"tenure quantile table 3\n")
    again = QuantileTable.from_bytes(data, epoch=3, epoch_us=1000, seq=42)
    assert again.rises is not None
    assert again.rises.seen_us == rises.seen_us
    assert again.rises.spreads.tolist() == [4.25, 0.0, 1e9]
    assert again.rises.heights.tolist() == rises.heights.tolist()
    for one, other in zip(again.rises[:3], rises[:3], strict=True):
        assert one.tolist() == other.tolist()  # type: ignore[union-attr]
    assert again.to_bytes() == data
    assert replace(again, rises=None).to_bytes() == replace(table, rises=None).to_bytes()
    assert replace(table, rises=None).to_bytes().startswith(b"tenure quantile table 2\n")


@given(rows, st.integers(0, 24), st.integers(0, 14), st.floats(0, 0.999))
@settings(max_examples=500, derandomize=True, deadline=None)
def test_the_starts_accepted_one_after_another_are_counted_as_by_trying_each(
    samples: Rows, slots: int, lifetime_us: int, p: float
) -> None:
    table = table_of([(3 * seen, lasted, evicted) for seen, lasted, evicted in samples])
    tried = [table.lifetime_us("f", slots - count, p) > lifetime_us for count in range(slots)]
    assert table.accepted_count("f", slots, lifetime_us, p) == [*tried, False].index(False)
    assert table.accepted_count("unknown", slots, lifetime_us, p) == 0
