"""Prices as they are read: the documented CSV, and what its rows and those of other forms must be.

Every line (of CSV) or entry (of JSON, `providerfiles.py`) is taken or refused by itself, with a permanent code. A file
whose form is broken is refused as a whole. Reading is bounded in size before anything is parsed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from app.domain.inputs import InputError
from app.domain.times import MAX_TIME_US, SECOND_US, from_datetime
from app.venues.rules.history import MICRO, PoolName, SilentStretch, VenuePrices, venue_of
from app.venues.rules.poolwords import POOL_WORD
from app.venues.rules.rates import ProviderRate, RateKind

CSV_COLUMNS = ["provider", "region", "zone", "instance_type", "product", "time", "price", "currency"]
EARLIEST_US = from_datetime(datetime(2009, 1, 1, tzinfo=UTC))
"""Nobody sold spot machines earlier."""
AHEAD_US = 300 * SECOND_US
"""By this much a time may be ahead of the clock of whoever reads it."""
GAP_COLUMNS = ["from", "to"]
MOST_POOLS = 20_000
_MOST_GAPS = 10_000
MOST_REFUSED_TOLD = 100
_LONGEST_LINE = 2_000
_LONGEST_WORD = 100
_PRICE = re.compile(r"\d{1,5}(?:\.\d{1,12})?", re.ASCII)
_SHARE = re.compile(r"[01](?:\.\d{1,20})?", re.ASCII)
_WORD = re.compile(POOL_WORD.strip("^$"), re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}")
_ZONE_ID = re.compile(r"[a-z]+\d*-az\d+")


class PriceRefused(NamedTuple):
    """A line or entry that was not taken: its number from 1, a permanent code, and why."""

    line: int
    code: str
    why: str


class _Unfit(Exception):
    """A row that cannot be taken."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(slots=True)
class PriceRows:
    """Rows taken so far, by pool; `refused` holds the first refusals, `refused_count` tells all.

    `other_count` entries are no prices of spot machines and were left out. `rates` are what providers told of machines
    that they took back, the newest for each pool; the region's name as a zone stands for all of its zones.
    """

    now_us: int
    rows: dict[PoolName, tuple[array[int], array[int]]] = field(default_factory=dict)
    refused: list[PriceRefused] = field(default_factory=list)
    rates: dict[PoolName, ProviderRate] = field(default_factory=dict)
    refused_count: int = 0
    read_count: int = 0
    other_count: int = 0
    currency: str | None = None
    _known: dict[tuple[str, ...], PoolName] = field(default_factory=dict)

    def take(self, line: int, words: Sequence[Any], time: object, price: object, currency: object) -> None:
        """Take a row, or note why it is refused. `words` are the five words of the pool's name."""
        self.read_count += 1
        try:
            at_us, micro = _time_us(time, self.now_us), _micro(price)
            self._check_currency(currency)
            ats, micros = self._pool(tuple(words))
        except _Unfit as error:
            self.refuse(line, error.code, str(error))
            return
        self.currency = str(currency)
        ats.append(at_us)
        micros.append(micro)

    def take_rate(self, line: int, words: Sequence[Any], time: object, kind: RateKind, share: object) -> None:
        """Take how often a provider took machines back, unless a newer rate is known, or note why it is refused."""
        self.read_count += 1
        try:
            told = ProviderRate(_time_us(time, self.now_us), kind, _share(share))
            name = _pool_name(tuple(words))
        except _Unfit as error:
            self.refuse(line, error.code, str(error))
            return
        if name in self.rates or len(self.rates) < MOST_POOLS:
            self.rates[name] = max(told, self.rates.get(name, told))
        else:
            self.refuse(line, "preemptible.pools.too_many", f"more than {MOST_POOLS} rates")

    def leave_out(self) -> None:
        """Note an entry that is no price of a spot machine."""
        self.read_count += 1
        self.other_count += 1

    def time_us(self, text: object) -> int | None:
        """Return a time that a row may have; None if it is none."""
        try:
            return _time_us(text, self.now_us)
        except _Unfit:
            return None

    def refuse_form(self, line: int, why: str) -> None:
        """Note a line or an entry that is no row at all."""
        self.read_count += 1
        self.refuse(line, "preemptible.line.malformed", why)

    def refuse(self, line: int, code: str, why: str) -> None:
        """Note a refusal."""
        self.refused_count += 1
        if len(self.refused) < MOST_REFUSED_TOLD:
            self.refused.append(PriceRefused(line, code, why))

    def venue(self, gaps: Sequence[SilentStretch] = ()) -> VenuePrices:
        """Return the histories of all rows taken; `gaps` are known beside those that the rows show."""
        rows = {
            name: (np.array(ats, np.int64), np.array(prices, np.int64)) for name, (ats, prices) in self.rows.items()
        }
        return venue_of(rows, gaps)

    def _pool(self, words: tuple[Any, ...]) -> tuple[array[int], array[int]]:
        try:
            name = self._known.get(words)
        except TypeError:  # a word is a list, say
            name = None
        if name is None:
            name = _pool_name(words)
            if len(self.rows) >= MOST_POOLS:
                raise _Unfit("preemptible.pools.too_many", f"more than {MOST_POOLS} pools")
            self._known[words] = name
            self.rows[name] = array("q"), array("q")
        return self.rows[name]

    def _check_currency(self, currency: object) -> None:
        if currency == self.currency and currency is not None:
            return
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
            raise _Unfit("preemptible.currency.invalid", f"{_short(currency)} is no currency of three capital letters")
        if self.currency is not None:
            raise _Unfit("preemptible.currency.mixed", f"{currency} after {self.currency}: a file has one currency")


def read_csv(lines: Iterable[str], rows: PriceRows) -> None:
    """Take the rows of the documented CSV. Raise InputError if the header is another."""
    numbered = enumerate(lines, 1)
    header = next(numbered, (1, ""))[1].removeprefix("\ufeff").rstrip("\r\n")
    if header.split(",") != CSV_COLUMNS:
        raise InputError(f"line 1: expected the header {','.join(CSV_COLUMNS)}")
    for number, line in numbered:
        parts = line.rstrip("\r\n").split(",")
        if len(parts) == len(CSV_COLUMNS) and len(line) <= _LONGEST_LINE:
            rows.take(number, parts[:5], parts[5], parts[6], parts[7])
        elif parts != [""]:
            rows.refuse_form(
                number, f"expected {len(CSV_COLUMNS)} values of together at most {_LONGEST_LINE} characters"
            )


def read_gaps(lines: Iterable[str], now_us: int) -> list[SilentStretch]:
    """Return the gaps of a CSV with the header `from,to`, by time. Raise InputError with the line that is unfit."""
    numbered = enumerate((line.strip() for line in lines), 1)
    if next(numbered, (1, ""))[1].removeprefix("\ufeff") != ",".join(GAP_COLUMNS):
        raise InputError(f"line 1: expected the header {','.join(GAP_COLUMNS)}")
    found = list[SilentStretch]()
    for number, line in numbered:
        if not line:
            continue
        try:
            begin, end = line.split(",")
            gap = SilentStretch(_time_us(begin, now_us), _time_us(end, now_us))
        except (ValueError, _Unfit) as error:
            raise InputError(f"line {number}: expected two RFC 3339 times with a zone, since 2009") from error
        if gap.to_us <= gap.from_us or len(found) >= _MOST_GAPS:
            raise InputError(f"line {number}: a gap ends after it begins, and there are at most {_MOST_GAPS}")
        found.append(gap)
    return sorted(found)


def region_of(zone: str) -> str:
    """Return the region of a zone's name: us-east-1 of us-east-1a. A zone id (use1-az4) names its own, use1."""
    return zone.split("-az", maxsplit=1)[0] if _ZONE_ID.fullmatch(zone) else zone.rstrip("abcdefghijklmnopqrstuvwxyz")


def _time_us(text: object, now_us: int) -> int:
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]
        at_us = from_datetime(at)
    except (ValueError, TypeError, OverflowError):
        why = f"{_short(text)} is no RFC 3339 time with a zone"
        raise _Unfit("preemptible.time.invalid", why) from None
    if not EARLIEST_US <= at_us <= min(now_us + AHEAD_US, MAX_TIME_US):
        raise _Unfit("preemptible.time.out_of_range", f"{_short(text)} is before 2009 or in the future")
    return at_us


def _micro(text: object) -> int:
    if not isinstance(text, str) or not _PRICE.fullmatch(text):
        raise _Unfit("preemptible.price.invalid", f"{_short(text)} is no decimal price above 0 and below 100000")
    micro = round(float(text) * MICRO)
    if not micro:
        raise _Unfit("preemptible.price.invalid", f"{_short(text)} is no price of at least a millionth")
    return micro


def _share(text: object) -> float:
    if not isinstance(text, str) or not _SHARE.fullmatch(text) or float(text) > 1.0:
        raise _Unfit("preemptible.rate.invalid", f"{_short(text)} is no share from 0 to 1")
    return float(text)


def _pool_name(words: tuple[Any, ...]) -> PoolName:
    for word in words:
        if not isinstance(word, str) or len(word) > _LONGEST_WORD or not _WORD.fullmatch(word):
            raise _Unfit("preemptible.pool.invalid", f"{_short(word)} cannot be part of a pool's name")
    return PoolName(*words)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
