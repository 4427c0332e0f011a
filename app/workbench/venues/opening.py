"""Files of prices, plain or compressed by gzip, opened within bounds."""

from __future__ import annotations

import gzip
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from app.domain.inputs import InputError
from app.venues.rules.history import SilentStretch
from app.venues.rules.pricefiles import PriceRows, read_aws, read_csv, read_gaps
from app.venues.rules.types import MachineType, read_types

MOST_BYTES = 4_000_000_000
"""The most that a file may hold, unpacked."""
_CHUNK = 1_000_000


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
    if not rows.rows:
        why = f"line {rows.refused[0].line}: {rows.refused[0].why}" if rows.refused else "the file is empty"
        raise InputError(f"{paths[0]}: holds no price that could be taken; {why}")
    return rows


def read_gap_file(path: Path, now_us: int) -> list[SilentStretch]:
    """Return the gaps of a file. Raise InputError with its line where it cannot be read."""
    with _opened(path) as file:
        return read_gaps(file, now_us)


def _read_file(path: Path, rows: PriceRows) -> None:
    try:
        with path.open("rb") as packed:
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


def _unpacked(file: BinaryIO) -> BinaryIO:
    begin = file.read(2)
    file.seek(0)
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if begin == b"\x1f\x8b" else file


def _read(file: BinaryIO, rows: PriceRows) -> None:
    texts = _texts(file)
    first = next(texts, "")
    if first.lstrip("\ufeff \t\r\n").startswith("{"):
        read_aws(_again(first, texts), rows)
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
