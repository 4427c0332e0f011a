"""The command `venue observe`: what was seen of machines, from a file to a running service."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from app.commands import options
from app.commands.options import on_service
from app.commands.output import STDOUT, interruptible, print_json, progress_bar
from app.commands.venue_service import VenueName
from app.domain.inputs import InputError
from tenure_client import MachineSeen, TenureClient

_AT_ONCE = 1000
_MOST = 1_000_000
_LONGEST_LINE = 2_000
_KINDS = ("started", "revoked", "ended", "probe_up", "probe_down", "notice")
_FIELDS = MachineSeen.__struct_fields__

Lines = Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="A JSON object in each line.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "tenure venue observe aws-east interruptions.jsonl"
    app.command("observe", epilog=f"Example: {example}")(on_service(observe))


def observe(client: TenureClient, name: VenueName, file: Lines, *, as_json: options.Json = False) -> None:
    """Report what became of machines of a venue's pools.

    A line is an object with provider, region, zone, instance_type, product, id, at and kind: started, revoked, ended,
    probe_up, probe_down or notice. A line that cannot be read is told, and then nothing is sent. The same file twice
    changes nothing.
    """
    seen, new = _read(file), 0
    with interruptible("what was sent is kept; send the file again"), progress_bar("sending") as progress:
        for begin in range(0, len(seen), _AT_ONCE):
            new += client.observe(name, seen[begin : begin + _AT_ONCE]).new
            progress(min(begin + _AT_ONCE, len(seen)), len(seen))
    if as_json:
        print_json({"venue": name, "read": len(seen), "new": new})
    else:
        STDOUT.print(f"{name}: {new:,} new of {len(seen):,} observations", highlight=False)


def _read(path: Path) -> list[MachineSeen]:
    """Return what a file says. Raise InputError with the line that cannot be read."""
    found = list[MachineSeen]()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                if not line.strip():
                    continue
                if len(found) >= _MOST:
                    raise InputError(f"{path}: more than {_MOST:,} lines")
                found.append(_seen(line, f"{path}: line {number}"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if not found:
        raise InputError(f"{path}: holds no observation")
    return found


def _seen(line: bytes, place: str) -> MachineSeen:
    try:
        told = json.loads(line)
        seen = MachineSeen(**told | {"at": datetime.fromisoformat(told["at"])})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{place}: expected an object with {', '.join(_FIELDS)}") from error
    if seen.kind not in _KINDS:
        raise InputError(f"{place}: kind {str(seen.kind)[:50]!r} is none of {', '.join(_KINDS)}")
    if seen.at.tzinfo is None:
        raise InputError(f"{place}: at must be an RFC 3339 time with a zone")
    return seen
