"""Files of prices, plain or compressed by gzip or zstd, or of Parquet, opened within bounds.

Parquet and zstd are read by pyarrow, which comes with the extra `parquet`.
"""

from __future__ import annotations

import gzip
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from app.domain.inputs import InputError
from app.venues.rules.history import SilentStretch
from app.venues.rules.pricefiles import CSV_COLUMNS, PriceRows, read_csv, read_gaps
from app.venues.rules.providerfiles import read_json
from app.venues.rules.types import MachineType, read_types

MOST_BYTES = 4_000_000_000
"""The most that a file may hold, unpacked."""
_CHUNK = 1_000_000
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_ROWS_AT_ONCE = 20_000


def read_prices(path: Path, now_us: int) -> PriceRows:
    """Return the rows of a file of prices. Raise InputError if it has no known form, or holds no row that is fit."""
    return read_price_files([path], now_us)


def read_price_files(paths: Sequence[Path], now_us: int) -> PriceRows:
    """Return the rows of several files as one. Raise InputError if one has no known form, or none holds a fit row."""
    rows = PriceRows(now_us)
    for path in paths:
        told = len(rows.refused)
        _read_file(path, rows)
        if len(paths) > 1:
            rows.refused[told:] = [one._replace(why=f"{path.name}: {one.why}") for one in rows.refused[told:]]
    if not rows.rows and not rows.rates:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise InputError(f"{paths[0]}{more}: {_why_nothing(rows)}")
    return rows


def _why_nothing(rows: PriceRows) -> str:
    """Return why nothing was taken of files whose form is known."""
    if rows.refused:
        return f"holds no price that could be taken; line {rows.refused[0].line}: {rows.refused[0].why}"
    if rows.other_count:
        return f"holds no price of a spot machine for an hour, but {rows.other_count:,} of other products"
    return "holds no price: after its header, or in its list, nothing follows"


def read_gap_file(path: Path, now_us: int) -> list[SilentStretch]:
    """Return the gaps of a file. Raise InputError with its line where it cannot be read."""
    with _opened(path) as file:
        return read_gaps(file, now_us)


def _read_file(path: Path, rows: PriceRows) -> None:
    try:
        with path.open("rb") as packed:
            if packed.peek(len(_PARQUET))[: len(_PARQUET)] == _PARQUET:
                _read_parquet(packed, rows)
            else:
                _read(_unpacked(packed), rows)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'the compressed file is damaged'}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_machine_types(path: Path) -> dict[str, MachineType]:
    """Return the machine types of a file. Raise InputError with its line where it cannot be read."""
    with _opened(path) as file:
        return read_types(file)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _unpacked(file: BufferedReader) -> BinaryIO:
    begin = file.peek(len(_ZSTD))
    if begin.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if begin.startswith(_ZSTD):
        return cast("BinaryIO", _arrow("pyarrow").CompressedInputStream(file, "zstd"))
    return file


def _arrow(module: str) -> Any:  # noqa: ANN401 - the library has no types
    try:
        return import_module(module)
    except ImportError:
        raise InputError("needs pyarrow, for Parquet and zstd: install tenure[parquet]") from None


def _read_parquet(file: BinaryIO, rows: PriceRows) -> None:
    """Take the rows of a Parquet file with the columns of the documented CSV; times and prices as text or as such."""
    arrow, parquet = _arrow("pyarrow"), _arrow("pyarrow.parquet")
    try:
        opened, number = parquet.ParquetFile(file), 0
        if not set(CSV_COLUMNS) <= set(opened.schema_arrow.names):
            raise InputError(f"expected the columns {', '.join(CSV_COLUMNS)}")
        for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=CSV_COLUMNS):
            for row in zip(*(batch.column(name).to_pylist() for name in CSV_COLUMNS), strict=True):
                number += 1
                rows.take(number, row[:5], _time_text(row[5]), _price_text(row[6]), row[7])
    except arrow.ArrowException as error:
        raise InputError(f"the Parquet file is damaged: {str(error)[:200]}") from error


def _time_text(value: object) -> object:
    """Return a timestamp as RFC 3339; one without a zone is UTC by the format's definition."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return value


def _price_text(value: object) -> object:
    return f"{value:.12f}".rstrip("0").rstrip(".") if isinstance(value, float | Decimal) else value


def _read(file: BinaryIO, rows: PriceRows) -> None:
    texts = _texts(file)
    first = next(texts, "")
    begin = first.lstrip("\ufeff \t\r\n")[:1]
    if begin == "{":
        read_json(_again(first, texts), rows)
    elif begin == "[":
        raise InputError("begins like a JSON list; prices as JSON are one object, as AWS, Azure or GCP tell them")
    else:
        read_csv(_lines(_again(first, texts)), rows)


def _texts(file: BinaryIO) -> Iterator[str]:
    """Yield the text in chunks."""
    decoder, count = getincrementaldecoder("utf-8")(), 0
    while chunk := file.read(_CHUNK):
        count += len(chunk)
        if count > MOST_BYTES:
            raise InputError(f"holds more than {MOST_BYTES} bytes")
        if text := decoder.decode(chunk):
            yield text
    decoder.decode(b"", final=True)


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _lines(texts: Iterator[str]) -> Iterator[str]:
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).split("\n")
        if len(rest) > _CHUNK:
            raise InputError(f"has a line of more than {_CHUNK} characters")
        yield from whole
    if rest:
        yield rest
