"""Reports the manager's record to the service, in a thread of its own: a service that is down or slow stops nothing.

The record's file is the source. How far it was reported stands in a file beside it, which is written after the service
has answered. A line that is reported twice has the same key, so the service takes it once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from app.clusters.rules.wanted import ClusterWanted, PoolWanted
from app.domain.inputs import NO_TEXT
from app.managing.events import Events
from app.managing.files import put
from tenure_client import ClientError, NotFound, TenureClient

REPORT_S = 2.0
_LAST_S = 5.0
_MOST_LINES = 300
_MOST_BYTES = 1 << 17
_MOST_FACTS = 16
_LONGEST_FACT = 500
_LARGEST = 1e15
_OF_POOL = ("name", "cloud", "flavor", "market", "max_nodes", "price_per_hour", "on_demand_price_per_hour")
_OF_BID = ("zone", "product")
_FACT = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_KIND = re.compile(r"[a-z][a-z_]{0,39}", re.ASCII)
_CONTROL = re.compile(rf"[{NO_TEXT}\ud800-\udfff]")
"""Control characters, and halves of characters as in names that are not UTF-8, which no request carries."""


class _NewestLook(NamedTuple):
    """A look of the manager: how long it took, and the machines without an instance."""

    loop_s: float
    orphan_count: int


class Reporter:
    """Reports one cluster. `wanted` tells how its file wants it now; `client` must give up at once, as this
    thread tries again by itself.
    """

    def __init__(self, wanted: Callable[[], ClusterWanted], events: Events, client: TenureClient) -> None:
        self._wanted, self._events, self._client = wanted, events, client
        self._place = events.path.with_name("events.told")
        self._look: _NewestLook | None = None
        self._over = Event()
        self._described: ClusterWanted | None = None
        self._said = ""
        self._thread = Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def looked(self, loop_s: float, orphan_count: int) -> None:
        """Take the manager's newest look, to be told next."""
        self._look = _NewestLook(loop_s, orphan_count)

    def close(self) -> None:
        """Report the rest, if the service takes it at once, and end."""
        self._over.set()
        self._thread.join(_LAST_S)

    def _run(self) -> None:
        while not self._over.wait(REPORT_S):
            self._try()
        self._try()

    def _try(self) -> None:
        try:
            while self._report():
                pass
            self._said = ""
        except (ClientError, OSError) as error:
            if str(error) != self._said:
                self._said = str(error)
                self._events.write("not_reported", error=self._said)

    def _report(self) -> bool:
        """Report the next part of the record, and the newest look; return True if there is more."""
        wanted = self._wanted()
        if wanted != self._described:
            self._describe(wanted)
        begin = self._begin()
        told, end = _next_lines(self._events.path, begin)
        look, self._look = self._look, None
        if not told and look is None:
            return False
        more = {} if look is None else look._asdict()
        try:
            self._client.report_cluster_events(wanted.name, told, **more)
        except NotFound:  # somebody has removed it
            self._described = None
            raise
        if end != begin:
            put(self._place, str(end))
        return len(told) == _MOST_LINES

    def _describe(self, wanted: ClusterWanted) -> None:
        pools = [_described(pool) for pool in wanted.pools]
        self._client.put_cluster(wanted.name, pools, wanted.scale.max_nodes)
        self._described = wanted

    def _begin(self) -> int:
        """Return how far the record is reported; 0 where it is another record, or nothing was."""
        try:
            place = int(self._place.read_text())
            return place if place <= self._events.path.stat().st_size else 0
        except (OSError, ValueError):
            return 0


def _described(pool: PoolWanted) -> dict[str, Any]:
    names = (*_OF_POOL, *(_OF_BID if pool.is_bid else ()))
    return {name: value for name, value in asdict(pool).items() if name in names}


def _next_lines(path: Path, begin: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events of the next whole lines of a record, and where they end."""
    with path.open("rb") as file:
        file.seek(begin)
        content = file.read(_MOST_BYTES)
    if len(content) == _MOST_BYTES and b"\n" not in content:
        return [], begin + _MOST_BYTES  # no event is so long: it is passed over
    found, end = [], begin
    for line in content.splitlines(keepends=True)[:_MOST_LINES]:
        if not line.endswith(b"\n"):
            break
        end += len(line)
        found += [*_told(line)]
    return found, end


def _told(line: bytes) -> Iterator[dict[str, Any]]:
    """Yield the event of a line as it is reported; nothing for a line that is none, as after a full disk."""
    try:
        facts = json.loads(line)
        at, kind = facts.pop("at"), facts.pop("kind")
        is_dated = datetime.fromisoformat(at).tzinfo is not None
    except (ValueError, KeyError, AttributeError, TypeError):
        return
    if not (is_dated and isinstance(kind, str) and _KIND.fullmatch(kind)):
        return
    plain = {name: _plain(value) for name, value in facts.items() if _FACT.fullmatch(name)}
    key = blake2b(line, digest_size=16).hexdigest()
    yield {"key": key, "at": at, "kind": kind, "facts": dict([*plain.items()][:_MOST_FACTS])}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) <= _LARGEST:
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return _CONTROL.sub(" ", text)[:_LONGEST_FACT]
