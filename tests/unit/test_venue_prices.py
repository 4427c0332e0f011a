"""Files of prices: what is taken, what is refused by line, and what the histories say of gaps."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.venues import history as oracle

from app.domain.inputs import InputError
from app.domain.times import DAY_US, HOUR_US, from_rfc3339
from app.venues.rules import pricefiles
from app.venues.rules.history import MICRO, PoolName, SilentStretch, VenuePrices, venue_of
from app.venues.rules.pricefiles import PriceRows
from app.venues.rules.rates import RateKind
from app.venues.rules.types import LISTED, read_types
from app.workbench.venues.opening import read_machine_types, read_prices

HEADER = "provider,region,zone,instance_type,product,time,price,currency"
POOL = "aws,us-east-1,us-east-1a,c3.xlarge,Linux/UNIX"
NAME = PoolName("aws", "us-east-1", "us-east-1a", "c3.xlarge", "Linux/UNIX")
NOW_US = from_rfc3339("2016-01-01T00:00:00Z")


def line(time: str, price: str, currency: str = "USD", pool: str = POOL) -> str:
    return f"{pool},{time},{price},{currency}"


def entry(time: str, price: object, zone: str = "us-east-1a") -> dict[str, object]:
    words = {"AvailabilityZone": zone, "InstanceType": "c3.xlarge", "ProductDescription": "Linux/UNIX"}
    return words | {"SpotPrice": price, "Timestamp": time}


def read(tmp_path: Path, content: str | bytes) -> PriceRows:
    path = tmp_path / "prices"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_prices(path, NOW_US)


def read_lines(tmp_path: Path, *lines: str) -> PriceRows:
    return read(tmp_path, "\n".join([HEADER, *lines]) + "\n")


def hourly(count: int, begin: str = "2015-05-01T00:00:00Z") -> list[str]:
    zero_us = np.datetime64(begin[:-1])
    return [line(f"{zero_us + np.timedelta64(i, 'h')}Z", f"0.{i + 1:03}") for i in range(count)]


def equal(one: VenuePrices, other: VenuePrices) -> bool:
    return one.gaps == other.gaps and all(
        np.array_equal(steps.at_us, other.pools[name].at_us)
        and np.array_equal(steps.price, other.pools[name].price, equal_nan=True)
        for name, steps in one.pools.items()
    )


def test_a_line_that_is_refused_sets_no_currency(tmp_path: Path) -> None:
    good = line("2015-05-01T02:00:00Z", "0.1")
    rows = read_lines(tmp_path, line("2015-05-01T01:00:00Z", "0.1", "EUR", POOL.replace("c3", "*")), good)
    assert (rows.currency, rows.refused_count, len(rows.rows)) == ("USD", 1, 1)


def test_an_entry_whose_word_is_a_list_is_refused(tmp_path: Path) -> None:
    bad = entry("2015-05-01T01:00:00Z", "0.1") | {"InstanceType": ["c3.xlarge"]}
    rows = read(tmp_path, json.dumps({"SpotPriceHistory": [bad, entry("2015-05-01T01:00:00Z", "0.1")]}))
    assert [one.code for one in rows.refused] == ["preemptible.pool.invalid"]
    assert [*rows.rows] == [NAME]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (line("2015-05-01T02:00:00Z", "-0.1"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "0"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "0.0000001"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "NaN"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "inf"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "1e9"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "1000000000"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", ""), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "cheap"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00Z", "٣"), "preemptible.price.invalid"),
        (line("2015-05-01T02:00:00", "0.1"), "preemptible.time.invalid"),
        (line("yesterday", "0.1"), "preemptible.time.invalid"),
        (line("0001-01-01T00:00:00+23:59", "0.1"), "preemptible.time.out_of_range"),
        (line("2008-12-31T23:59:59Z", "0.1"), "preemptible.time.out_of_range"),
        (line("2016-01-01T00:06:00Z", "0.1"), "preemptible.time.out_of_range"),
        (line("2015-05-01T02:00:00Z", "0.1", "EUR"), "preemptible.currency.mixed"),
        (line("2015-05-01T02:00:00Z", "0.1", "usd"), "preemptible.currency.invalid"),
        (line("2015-05-01T02:00:00Z", "0.1", pool="aws,,us-east-1a,c3.xlarge,Linux"), "preemptible.pool.invalid"),
        (line("2015-05-01T02:00:00Z", "0.1", pool=f"aws,r,z,{'t' * 101},p"), "preemptible.pool.invalid"),
        ("a,b,c", "preemptible.line.malformed"),
        (line("2015-05-01T02:00:00Z", "0.1") + ",more", "preemptible.line.malformed"),
        ("x" * 5_000, "preemptible.line.malformed"),
    ],
)
def test_a_bad_line_is_refused_by_itself(tmp_path: Path, bad: str, code: str) -> None:
    rows = read_lines(tmp_path, *hourly(2), bad, line("2015-05-01T03:00:00Z", "0.5"))
    assert [(one.line, one.code) for one in rows.refused] == [(4, code)]
    assert rows.refused_count == 1
    assert rows.venue().pools[NAME].price.tolist() == [0.001, 0.002, 0.5]


def test_refusals_are_counted_and_the_first_hundred_told(tmp_path: Path) -> None:
    rows = read_lines(tmp_path, *hourly(1), *["bad"] * 250)
    assert (rows.refused_count, len(rows.refused), rows.read_count) == (250, 100, 251)


@pytest.mark.parametrize("content", ["", "a,b\n", "[]", '{"SpotPriceHistory": []}', HEADER, HEADER + "\nbad\n", "\x00"])
def test_a_file_without_a_price_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError):
        read(tmp_path, content)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    whole = json.dumps({"SpotPriceHistory": [entry("2015-05-01T00:00:00Z", "0.1")] * 3})
    packed = gzip.compress("\n".join([HEADER, *hourly(500)]).encode())
    nested = '{"SpotPriceHistory": [' + "[" * 100_000
    for broken in (whole[:-1], whole[:-2], whole[:100], whole + "x", nested, packed[:-20], b"\xff\xfe" + packed):
        with pytest.raises(InputError):
            read(tmp_path, broken)


def test_the_order_of_rows_and_repeats_do_not_matter(tmp_path: Path) -> None:
    lines = [*hourly(30), line("2015-05-01T05:00:00Z", "0.9"), line("2015-05-05T00:00:00Z", "0.1")]
    expected = read_lines(tmp_path, *lines).venue()
    draw = np.random.default_rng(0)
    for _ in range(5):
        shuffled = [lines[i] for i in draw.permutation(np.tile(np.arange(len(lines)), 2))]
        assert equal(read_lines(tmp_path, *shuffled).venue(), expected)


def test_byte_order_marks_windows_lines_and_gzip_are_taken(tmp_path: Path) -> None:
    lines = [HEADER, *hourly(5)]
    expected = read(tmp_path, "\n".join(lines)).venue()
    assert equal(read(tmp_path, "\ufeff" + "\r\n".join(lines) + "\r\n").venue(), expected)
    assert equal(read(tmp_path, gzip.compress("\n".join(lines).encode())).venue(), expected)


@pytest.mark.parametrize("indent", [None, 4])
def test_the_history_that_aws_prints_is_the_same_as_the_csv(tmp_path: Path, indent: int | None) -> None:
    """Newest first, times with an offset, prices as text, the answer of many pages or of one."""
    lines = hourly(300)
    entries = [entry(one.split(",")[5].replace("Z", "+00:00"), one.split(",")[6]) for one in reversed(lines)]
    expected = read_lines(tmp_path, *lines).venue()
    for more in ({}, {"NextToken": "abc"}, {"NextToken": None}):
        text = json.dumps({"SpotPriceHistory": entries} | more, indent=indent)
        rows = read(tmp_path, text)
        assert rows.refused == []
        assert equal(rows.venue(), expected)


def test_entries_are_refused_one_by_one(tmp_path: Path) -> None:
    good = entry("2015-05-01T00:00:00Z", "0.1")
    bad = [entry("2015-05-01T00:00:00Z", 0.1), 7, {}, entry("2015-05-01T00:00:00Z", "0.1", zone="")]
    rows = read(tmp_path, json.dumps({"SpotPriceHistory": [good, *bad, good]}))
    assert [(one.line, one.code.rsplit(".", 2)[1]) for one in rows.refused] == [
        (2, "price"), (3, "line"), (4, "time"), (5, "pool"),
    ]  # fmt: skip


AZURE: dict[str, object] = {
    "currencyCode": "USD", "retailPrice": 0.0123, "unitPrice": 0.0123, "armRegionName": "westeurope",
    "effectiveStartDate": "2015-05-01T00:00:00Z", "productName": "Virtual Machines Dv3 Series",
    "skuName": "D2 v3 Spot", "armSkuName": "Standard_D2_v3", "unitOfMeasure": "1 Hour", "type": "Consumption",
}  # fmt: skip


def test_azures_spot_prices_are_taken_and_its_other_prices_left_out(tmp_path: Path) -> None:
    others = [
        AZURE | {"skuName": "D2 v3"}, AZURE | {"skuName": "D2 v3 Low Priority"}, AZURE | {"type": "Reservation"},
        AZURE | {"unitOfMeasure": "1 GB"}, {},
    ]  # fmt: skip
    windows = AZURE | {"productName": "Virtual Machines Dv3 Series Windows", "retailPrice": 1}
    bad = [AZURE | {"retailPrice": price} for price in (0.0, -1, 1e-7, "cheap", None)]
    body = {"BillingCurrency": "USD", "CustomerEntityId": "Default", "Items": [AZURE, *others, windows, *bad, 7]}
    rows = read(tmp_path, json.dumps(body | {"NextPageLink": None, "Count": 13}))
    found = {name: micro.tolist() for name, (_, micro) in rows.rows.items()}
    assert found == {
        PoolName("azure", "westeurope", "westeurope", "Standard_D2_v3", "Linux"): [12_300],
        PoolName("azure", "westeurope", "westeurope", "Standard_D2_v3", "Windows"): [1_000_000],
    }
    assert (rows.read_count, rows.other_count, rows.refused_count) == (13, 5, 6)
    assert [one.line for one in rows.refused] == [8, 9, 10, 11, 12, 13]


RATE_ABOVE_ONE = {"interval": {"endTime": "2015-05-02T00:00:00Z"}, "preemptionRate": 1.5}


def gcp(**changed: object) -> str:
    interval = {"startTime": "2015-05-01T00:00:00Z", "endTime": "2015-05-03T12:00:00Z"}
    price = {"interval": interval, "listPrice": {"currencyCode": "USD", "units": "1", "nanos": 20_000_000}}
    share = {"interval": interval, "preemptionRate": 0.25}
    body = {"machineType": "n2-standard-4", "priceHistory": [price], "preemptionHistory": [share]}
    return json.dumps(body | {"location": "https://compute/projects/p/zones/europe-west4-b"} | changed)


def test_gcps_prices_hold_for_their_interval_and_its_rates_are_kept(tmp_path: Path) -> None:
    rows = read(tmp_path, gcp())
    name = PoolName("gcp", "europe-west4", "europe-west4-b", "n2-standard-4", "Linux")
    assert [*rows.rows] == [*rows.rates] == [name]
    at_us, micro = rows.rows[name]
    begin_us = from_rfc3339("2015-05-01T00:00:00Z")
    assert [(one - begin_us) // HOUR_US for one in at_us] == [0, 24, 48, 60]
    assert set(micro) == {1_020_000}
    assert rows.rates[name] == (begin_us + 60 * HOUR_US, RateKind.OF_STOPS, 0.25)
    region = read(tmp_path, gcp(location="regions/europe-west4", priceHistory=[]))
    assert [*region.rates] == [PoolName("gcp", "europe-west4", "europe-west4", "n2-standard-4", "Linux")]
    late = {"interval": {"startTime": "2015-05-01T00:00:00Z", "endTime": "2015-05-09T00:00:00Z"}, "preemptionRate": 1}
    early = late | {"interval": {"endTime": "2015-05-02T00:00:00Z"}, "preemptionRate": 0.5}
    assert read(tmp_path, gcp(preemptionHistory=[late, early])).rates[name].share == 1.0


@pytest.mark.parametrize(
    ("history", "code"),
    [
        ({"priceHistory": [7]}, "preemptible.line.malformed"),
        ({"priceHistory": [{"interval": {}, "listPrice": {}}]}, "preemptible.time.invalid"),
        ({"preemptionHistory": [{"interval": {"endTime": "2015-05-02T00:00:00Z"}}]}, "preemptible.rate.invalid"),
        ({"preemptionHistory": [RATE_ABOVE_ONE]}, "preemptible.rate.invalid"),
        ({"preemptionHistory": [None]}, "preemptible.time.invalid"),
    ],
)  # fmt: skip
def test_records_of_gcp_are_refused_one_by_one(tmp_path: Path, history: dict[str, object], code: str) -> None:
    rows = read(tmp_path, gcp(**history))
    assert [one.code for one in rows.refused] == [code]
    for broken in ({"priceHistory": {}}, {"machineType": ["x"]}):
        with pytest.raises(InputError):
            read(tmp_path, gcp(**broken, preemptionHistory=[]))


def test_bands_of_the_advisor_are_rates_of_a_region(tmp_path: Path) -> None:
    told = {"us-east-1": {"Linux": {"c3.xlarge": {"r": 2, "s": 70}, "m3.medium": {"r": 9}, "r3.large": 1}}}
    body = {"instance_types": {"c3.xlarge": {"cores": 4}}, "ranges": [], "spot_advisor": told}
    rows = read(tmp_path, json.dumps(body))
    name = PoolName("aws", "us-east-1", "us-east-1", "c3.xlarge", "Linux/UNIX")
    assert rows.rates == {name: (NOW_US, RateKind.OF_A_MONTH, 0.125)}
    assert [(one.line, one.code) for one in rows.refused] == [
        (2, "preemptible.rate.invalid"), (3, "preemptible.rate.invalid"),
    ]  # fmt: skip
    for broken in ({"spot_advisor": []}, {"instance_types": {}}):
        with pytest.raises(InputError):
            read(tmp_path, json.dumps(broken))


def test_parquet_and_zstd_are_taken_like_the_csv(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lines = hourly(300)
    expected = read_lines(tmp_path, *lines).venue()
    columns = list(zip(*(one.split(",") for one in lines), strict=True))
    as_text = dict(zip(HEADER.split(","), map(list, columns), strict=True))
    times = [datetime.fromisoformat(one) for one in columns[5]]
    for typed in (
        {},
        {"time": times, "price": [float(one) for one in columns[6]]},
        {"time": [one.replace(tzinfo=None) for one in times]},
    ):
        parquet.write_table(arrow.table(as_text | typed), tmp_path / "prices.parquet")
        rows = read_prices(tmp_path / "prices.parquet", NOW_US)
        assert rows.refused == []
        assert equal(rows.venue(), expected)
    whole = (tmp_path / "prices.parquet").read_bytes()
    packed = arrow.compress("\n".join([HEADER, *lines]).encode(), codec="zstd", asbytes=True)
    assert equal(read(tmp_path, packed).venue(), expected)
    arrow.parquet.write_table(arrow.table({"time": times}), tmp_path / "other")
    for broken in (whole[:-20], whole[:50] + whole[80:], packed[:-20], packed[:40], (tmp_path / "other").read_bytes()):
        with pytest.raises(InputError):
            read(tmp_path, broken)


def test_zone_ids_are_never_merged_with_names() -> None:
    assert pricefiles.region_of("us-east-1a") == "us-east-1"
    assert pricefiles.region_of("use1-az4") == "use1"
    assert pricefiles.region_of("ap-northeast-1c") == "ap-northeast-1"


def test_a_silence_is_a_gap_and_not_an_unchanged_price(tmp_path: Path) -> None:
    """Of all pools together after six hours, of one pool after twenty-five; equal neighbours speak, too."""
    other = POOL.replace("1a", "1b")
    lines = [*hourly(3), line("2015-05-01T12:00:00Z", "0.7")]
    venue = read_lines(tmp_path, *lines).venue()
    begin = from_rfc3339("2015-05-01T02:00:00Z")
    assert [(gap.from_us, gap.to_us) for gap in venue.gaps] == [(begin, begin + 10 * HOUR_US)]
    assert np.isnan(venue.pools[NAME].price_at(begin + HOUR_US))
    assert venue.pools[NAME].price_at(begin + 10 * HOUR_US) == 0.7
    talking = [line(f"2015-05-{day:02}T{hour:02}:00:00Z", "0.3", pool=other) for day in (1, 2, 3) for hour in range(24)]
    venue = read_lines(tmp_path, *hourly(2), line("2015-05-03T10:00:00Z", "0.7"), *talking).venue()
    quiet, loud = venue.pools.values()
    assert venue.gaps == []
    assert np.isnan(quiet.price_at(quiet.at_us[1] + 1))
    assert loud.price.tolist() == [0.3]
    assert loud.price_at(loud.at_us[0] + DAY_US) == 0.3


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=12, unique=True), min_size=1, max_size=4),
    st.integers(0, 180),
)
def test_all_pools_are_silent_where_no_price_of_any_lies(quarters: list[list[int]], begin: int) -> None:
    """Prices each quarter of an hour or rarer, from any time of a day on; six hours to the second are no silence."""
    told = [sorted(begin * 60 + at * 900 for at in pool) for pool in quarters]
    rows = {
        NAME._replace(zone=f"zone-{number}"): (np.array(times) * 1_000_000, np.full(len(times), 1))
        for number, times in enumerate(told)
    }
    every = sorted({at for times in told for at in times})
    expected = [(a * 1_000_000, b * 1_000_000) for a, b in pairwise(every) if b - a > 6 * 3600]
    assert [tuple(gap) for gap in venue_of(rows).gaps] == expected


@settings(max_examples=300, deadline=None)
@given(
    pools=st.lists(
        st.lists(st.tuples(st.integers(0, 90), st.integers(1, 3)), min_size=1, max_size=12), min_size=1, max_size=4
    ),
    told=st.lists(st.tuples(st.integers(0, 95), st.integers(1, 9)), max_size=3),
)
def test_histories_are_those_of_the_oracle(pools: list[list[tuple[int, int]]], told: list[tuple[int, int]]) -> None:
    """Times are hours: silences of a pool begin after 25 of them, those of all after six."""
    rows = {
        NAME._replace(zone=f"z{number}"): (
            np.array([at * HOUR_US for at, _ in of_pool], np.int64),
            np.array([price * MICRO for _, price in of_pool], np.int64),
        )
        for number, of_pool in enumerate(pools)
    }
    found = venue_of(rows, [SilentStretch(at * HOUR_US, (at + length) * HOUR_US) for at, length in told])
    gaps = [(at, at + length) for at, length in told]
    steps, silent = oracle([[(at, float(price)) for at, price in one] for one in pools], gaps, 25, 6)
    assert [(gap.from_us / HOUR_US, gap.to_us / HOUR_US) for gap in found.gaps] == silent
    for one, expected in zip(found.pools.values(), steps, strict=True):
        assert (one.at_us / HOUR_US).tolist() == [at for at, _ in expected]
        assert np.array_equal(one.price, [price for _, price in expected], equal_nan=True)


def test_what_is_known_at_a_moment_ends_before_it(tmp_path: Path) -> None:
    steps = read_lines(tmp_path, *hourly(10)).venue().pools[NAME]
    found = steps.between(int(steps.at_us[2]) + 1, int(steps.at_us[5]))
    assert found.price.tolist() == steps.price[2:5].tolist()
    assert found.end_us == steps.at_us[5]


def test_machine_types_are_read_or_refused(tmp_path: Path) -> None:
    header = "instance_type,vcpu,compute_units,memory_mib,on_demand_price,from"
    assert read_types([header, "c3.xlarge,4,14,7680,0.21,2014-01-01"])["c3.xlarge"] == LISTED["c3.xlarge"]
    for bad in ("c3.xlarge,4,14,7680,0,x", "c3.xlarge,4,14,7680,nan,x", "c3.xlarge,4,14", "c,1,x,1,1,x"):
        with pytest.raises(InputError, match="line 2"):
            read_types([header, bad])
    with pytest.raises(InputError, match="No such file"):
        read_machine_types(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{HEADER}\n", "holds no price: after its header, or in its list, nothing follows"),
        (json.dumps({"SpotPriceHistory": []}), "holds no price: after its header, or in its list, nothing follows"),
        (f"{HEADER}\n{line('soon', '1')}\n", "holds no price that could be taken; line 2: 'soon' is no RFC 3339 time"),
        (
            json.dumps({"Items": [{"skuName": "D2", "retailPrice": 1.0}]}),
            "holds no price of a spot machine for an hour, but 1 of other products",
        ),
    ],
)
def test_a_file_without_any_price_says_why(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "prices"
    path.write_text(text)
    with pytest.raises(InputError) as told:
        read_prices(path, NOW_US)
    assert str(told.value).startswith(f"{path}: {why}")
