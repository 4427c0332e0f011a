"""The command `nova export`: Nova's past into a file that names nobody."""

from __future__ import annotations

import gzip
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from app.commands import novapast, options
from app.commands.novapast import NovaAsked, from_databases
from app.commands.output import STDERR, interruptible, progress_bar
from app.domain.inputs import InputError
from app.workbench.wholefiles import check_apart, whole_file

_NOT_WHOLE = "the file was not finished"
_KEY_BYTES = 32
_BATCH = 1_000
_FAST = 1

KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="a new key, thrown away",
        help="The key under which ids and hosts are hidden; made if it is not there. The same key gives the same ids.",
    ),
]


def export(
    *,
    database: novapast.Database = None,
    cell: novapast.Cells = None,
    api_database: novapast.ApiDatabase = None,
    since: novapast.Since = None,
    key: KeyFile = None,
    out: options.Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write the past of Nova's servers as lines of JSON, compressed by gzip, for `tenure import` somewhere else.

    Only Nova's databases are needed, and they are only read. No name, address, key or id of the cloud is in the file:
    ids, flavors and hosts are replaced by HMAC-SHA-256 under a key that stays here, and sizes and times are kept.
    """
    from app.nova.past.lines import Hiding, hidden_lines  # noqa: PLC0415 - nothing else needs it

    check_apart([("--key", key)], [("--out", out)])
    past = from_databases(NovaAsked("nova", database, cell or [], api_database, None, since))
    if out is None and sys.stdout.isatty():
        raise InputError("the file is no text for a terminal: give --out past.jsonl.gz, or send it on")
    hiding = Hiding(_key(key))
    with interruptible(_NOT_WHOLE), progress_bar("exporting") as progress:
        lines = hidden_lines(past.pieces(progress), hiding)
        count = _write(lines, out, overwrite=overwrite)
    STDERR.print(f"{count} lines written", style="dim", highlight=False)


def _key(path: Path | None) -> bytes:
    """Return the key of a file, which is made for its owner alone if it is not there; else a new key."""
    from app.nova.past.lines import SHORTEST_KEY  # noqa: PLC0415 - as above

    if path is None:
        return secrets.token_bytes(_KEY_BYTES)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(made, secrets.token_bytes(_KEY_BYTES))
        os.close(made)
    except FileExistsError:
        pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        held = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if len(held) < SHORTEST_KEY:
        raise InputError(f"{path}: a key has at least {SHORTEST_KEY} bytes")
    return held


def _write(lines: Iterable[str], out: Path | None, *, overwrite: bool) -> int:
    """Write the lines, and return how many. A file comes whole or not at all."""
    if out is None:
        return _compress(lines, sys.stdout.buffer)
    with whole_file(out, may_replace=overwrite) as part, part.open("wb") as file:
        return _compress(lines, file)


def _compress(lines: Iterable[str], file: BinaryIO) -> int:
    count = 0
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_FAST, mtime=0) as packed:
        for batch in _batched(lines, _BATCH):
            packed.write("".join(f"{line}\n" for line in batch).encode())
            count += len(batch)
    return count


def _batched(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(lines)
    while batch := list(islice(rest, size)):
        yield batch
