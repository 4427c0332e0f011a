"""The forms in which prices come: the documented CSV, and what `aws ec2 describe-spot-price-history` prints.

Every line (of CSV) or entry (of JSON) is taken or refused by itself, with a permanent code. A file whose form is broken
is refused as a whole. Reading is bounded in size before anything is parsed.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from app.domain.inputs import InputError
from app.domain.times import MAX_TIME_US, SECOND_US, from_datetime
from app.venues.rules.history import MICRO, PoolName, SilentStretch, VenuePrices, venue_of

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
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/()+-]*", re.ASCII)
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
    """Rows taken so far, by pool; `refused` holds the first refusals, `refused_count` tells all."""

    now_us: int
    rows: dict[PoolName, tuple[array[int], array[int]]] = field(default_factory=dict)
    refused: list[PriceRefused] = field(default_factory=list)
    refused_count: int = 0
    read_count: int = 0
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
        ats.append(at_us)
        micros.append(micro)

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

    def _pool(self, words: tuple[str, ...]) -> tuple[array[int], array[int]]:
        name = self._known.get(words)
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
        self.currency = currency


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
            rows.read_count += 1
            why = f"expected {len(CSV_COLUMNS)} values of together at most {_LONGEST_LINE} characters"
            rows.refuse(number, "preemptible.line.malformed", why)


def read_aws(chunks: Iterable[str], rows: PriceRows) -> None:
    """Take the entries of AWS' `{"SpotPriceHistory": [...]}`, in any order, one entry in memory at a time."""
    for number, entry in enumerate(_entries(chunks), 1):
        if not isinstance(entry, dict):
            rows.read_count += 1
            rows.refuse(number, "preemptible.line.malformed", "an entry is no object")
            continue
        zone = entry.get("AvailabilityZone") or entry.get("AvailabilityZoneId")
        region = region_of(zone) if isinstance(zone, str) else ""
        words = "aws", region, zone, entry.get("InstanceType"), entry.get("ProductDescription")
        rows.take(number, words, entry.get("Timestamp"), entry.get("SpotPrice"), "USD")


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


_LIST = re.compile(r'\s*\ufeff?\s*\{\s*"SpotPriceHistory"\s*:\s*\[')
_END = re.compile(r'\s*(?:,\s*"NextToken"\s*:\s*(?:null|"[^"]{0,10000}")\s*)?\}\s*')
_LONGEST_ENTRY = 10_000


def _entries(chunks: Iterable[str]) -> Iterator[Any]:
    """Yield the entries of the list, one after another. Raise InputError where the form breaks."""
    texts, buffer, decoder, count = iter(chunks), "", json.JSONDecoder(), 0
    while not (opening := _LIST.match(buffer)):
        buffer = _more(texts, buffer, 'the file is no {"SpotPriceHistory": [...]}')
    at = opening.end()
    while True:
        if len(buffer) - at < _LONGEST_ENTRY:
            buffer, at = buffer[at:] + next(texts, ""), 0
        rest = len(buffer) - len(buffer[at:].lstrip()) if buffer[at : at + 1].isspace() else at
        if buffer[rest : rest + 1] == "]":
            break
        if count:
            if buffer[rest : rest + 1] != ",":
                raise InputError(f"after entry {count}: the JSON is broken or cut short")
            rest = _after_spaces(buffer, rest + 1)
        try:
            entry, at = decoder.raw_decode(buffer, rest)
        except (ValueError, RecursionError):
            raise InputError(f"after entry {count}: the JSON is broken or cut short") from None
        count += 1
        yield entry
    _check_end(texts, buffer[rest + 1 :], count)


def _after_spaces(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _check_end(texts: Iterator[str], rest: str, count: int) -> None:
    for text in texts:
        rest += text
        if len(rest) > 2 * _LONGEST_ENTRY + len(text):
            break
    if not _END.fullmatch(rest):
        raise InputError(f"after entry {count}: the JSON is broken or cut short")


def _more(texts: Iterator[str], buffer: str, why: str) -> str:
    more = next(texts, "")
    if not more or len(buffer) > _LONGEST_ENTRY:
        raise InputError(why)
    return buffer + more


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
        raise _Unfit("preemptible.price.invalid", f"{_short(text)} is no decimal price below 100000")
    micro = round(float(text) * MICRO)
    if not micro:
        raise _Unfit("preemptible.price.invalid", f"{_short(text)} is no price of at least a millionth")
    return micro


def _pool_name(words: tuple[Any, ...]) -> PoolName:
    for word in words:
        if not isinstance(word, str) or len(word) > _LONGEST_WORD or not _WORD.fullmatch(word):
            raise _Unfit("preemptible.pool.invalid", f"{_short(word)} cannot be part of a pool's name")
    return PoolName(*words)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
