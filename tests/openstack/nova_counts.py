"""Fates of spot servers, counted from Nova's own databases alone, beside what Tenure says of its promises.

Nova keeps the rows of deleted servers. Of each spot server there are its cell (cell0 has those that found no host, with
the reason), its launch, who asked for its deletion and when, what it was asked with, and the daemon's marks in its
metadata: its promise, and when Tenure evicted it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from math import sqrt
from typing import Any

import psycopg
from nova_lab import CLOUD, NovaLab

from app.nova.rules.marks import DEADLINE, EVICT_AT, PROBABILITY
from tenure_client.forms.promises import ClassAnswer

_PAST = "past-"
_UNMARKED = "ended by the daemon while it was built, and not marked,"
REFUSED_BY_TENURE = "No valid host was found. Tenure: "
_SERVERS = """
SELECT i.uuid, i.created_at, i.launched_at, i.deleted <> 0,
       (SELECT message FROM instance_faults f WHERE f.instance_uuid = i.uuid ORDER BY f.id DESC LIMIT 1)
FROM instances i WHERE i.project_id = %s
"""
_MARKS = "SELECT instance_uuid, key, value FROM instance_metadata WHERE key LIKE 'tenure:%%' ORDER BY id"
_DELETIONS = """
SELECT DISTINCT ON (instance_uuid) instance_uuid, user_id, start_time
FROM instance_actions WHERE action = 'delete' ORDER BY instance_uuid, start_time, id
"""
_ASKED = """
SELECT instance_uuid, spec::json #> '{nova_object.data,scheduler_hints}'
FROM request_specs WHERE spec::json #>> '{nova_object.data,flavor,nova_object.data,name}' LIKE 'spot.%%'
"""


@dataclass(frozen=True)
class SpotServer:
    """A spot server as Nova's databases tell of it.

    `fate`: refused by Tenure, never_decided by it, came_to_nothing before it ran, evicted within its lifetime, or kept.
    """

    uuid: str
    promise: float
    fate: str
    runs: bool
    why: str


@dataclass
class PromiseCounts:
    """The counts of one promise. `running` are those within their lifetime, `finished` those that reached its end."""

    admitted: int = 0
    evicted: int = 0
    running: int = 0
    refused: int = 0

    @property
    def finished(self) -> int:
        return self.admitted - self.evicted - self.running


@dataclass
class Compared:
    """Both counts by promise, and every server of which the two sides say something else."""

    nova: dict[float, PromiseCounts]
    tenure: dict[float, PromiseCounts]
    intervals: dict[float, dict[str, Any]]
    differing: list[str] = field(default_factory=list)
    aside: Counter[str] = field(default_factory=Counter)

    @property
    def is_exact(self) -> bool:
        return self.nova == self.tenure and not self.differing

    @property
    def is_kept(self) -> bool:
        """True if no promise lies below the interval of what happened."""
        return all(one["low"] <= promise for promise, one in self.intervals.items())

    def told(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        sides = {
            side: {f"{promise:g}": asdict(one) | {"finished": one.finished} for promise, one in counts.items()}
            for side, counts in (("nova", self.nova), ("tenure", self.tenure))
        }
        intervals = {f"{promise:g}": one for promise, one in self.intervals.items()}
        verdicts = {"is_exact": self.is_exact, "is_kept": self.is_kept}
        return sides | verdicts | {"intervals": intervals, "differing": self.differing, "aside": dict(self.aside)}


def compare(lab: NovaLab, daemon_user: str) -> Compared:
    """Count on both sides. Nothing may change meanwhile but lifetimes that end, which are counted as of one time."""
    sla = lab.tenure.sla(CLOUD)
    servers = spot_servers(lab, daemon_user, sla.as_of)
    nova: dict[float, PromiseCounts] = {}
    aside = Counter(one.fate for one in servers if one.fate in ("came_to_nothing", "never_decided"))
    aside["unmarked"] = sum(one.why.startswith(_UNMARKED) for one in servers)
    for one in servers:
        _count(nova.setdefault(one.promise, PromiseCounts()), one)
    tenure = {one.promised: PromiseCounts(one.admitted, one.evicted, one.running) for one in sla.classes}
    for one in lab.tenure.instances(CLOUD, status="rejected", market="spot"):
        if one.id.startswith(_PAST):
            continue
        assert one.eviction_probability is not None
        tenure.setdefault(one.eviction_probability, PromiseCounts()).refused += 1
    intervals = {one.promised: _interval(one) for one in sla.classes if one.admitted}
    nova = {promise: one for promise, one in nova.items() if one != PromiseCounts() or promise in tenure}
    found = Compared(dict(sorted(nova.items())), dict(sorted(tenure.items())), intervals, aside=aside)
    found.differing = _differing(lab, servers)
    return found


def spot_servers(lab: NovaLab, daemon_user: str, as_of: datetime) -> list[SpotServer]:
    """Return every spot server of the users' project that Nova's databases know."""
    rows = [(False, row) for row in _rows(lab, "nova_cell0", _SERVERS, [lab.projects["demo"]])]
    rows += [(True, row) for row in _rows(lab, "nova", _SERVERS, [lab.projects["demo"]])]
    marks: dict[str, dict[str, str]] = {}
    for uuid, key, value in _rows(lab, "nova", _MARKS):
        marks.setdefault(uuid, {})[key] = value
    deletions = {uuid: (user == daemon_user, at) for uuid, user, at in _rows(lab, "nova", _DELETIONS)}
    asked = {uuid: _texts(hints) for uuid, hints in _rows(lab, "nova_api", _ASKED)}
    found = []
    for had_host, (uuid, created, launched, is_deleted, fault) in rows:
        if uuid in asked:
            row = _Row(uuid, had_host, _utc(created), launched is not None, is_deleted, fault or "", asked[uuid])
            found.append(row.judged(marks.get(uuid, {}), deletions.get(uuid), as_of))
    return found


@dataclass(frozen=True)
class _Row:
    """The rows of one server, read."""

    uuid: str
    had_host: bool
    created: datetime
    was_launched: bool
    is_deleted: bool
    fault: str
    asked: dict[str, str]

    def judged(self, marks: dict[str, str], deletion: tuple[bool, datetime] | None, as_of: datetime) -> SpotServer:
        promise = float(marks.get(PROBABILITY) or self.asked["tenure:probability"])
        least_end = self.created + timedelta(seconds=float(self.asked["tenure:lifetime"]))
        end = datetime.fromisoformat(marks[DEADLINE]) if DEADLINE in marks else least_end
        fate, why = self._fate(marks, deletion, end)
        runs = fate == "kept" and not self.is_deleted and end > as_of
        return SpotServer(self.uuid, promise, fate, runs, why)

    def _fate(self, marks: dict[str, str], deletion: tuple[bool, datetime] | None, end: datetime) -> tuple[str, str]:
        if not self.had_host:
            return ("refused" if self.fault.startswith(REFUSED_BY_TENURE) else "never_decided"), self.fault[:80]
        by_daemon, at = deletion or (False, None)
        if EVICT_AT in marks:
            evicted = datetime.fromisoformat(marks[EVICT_AT])
            return ("evicted" if evicted < end else "kept"), f"evicted at {evicted}, promised until {end}"
        if by_daemon and at is not None:  # while it was being built, when nothing can be written to it
            return ("evicted" if _utc(at) <= end else "kept"), f"{_UNMARKED} at {at}"
        return ("kept" if self.was_launched else "came_to_nothing"), f"its user's deletion: {at}"


def _count(counts: PromiseCounts, server: SpotServer) -> None:
    counts.refused += server.fate == "refused"
    counts.admitted += server.fate in ("evicted", "kept")
    counts.evicted += server.fate == "evicted"
    counts.running += server.runs


def _differing(lab: NovaLab, servers: list[SpotServer]) -> list[str]:
    """Return a line for each server of which Tenure's log and Nova's databases say something else."""
    there = {one.id: one for one in lab.tenure.instances(CLOUD, market="spot") if not one.id.startswith(_PAST)}
    lines = []
    for server in servers:
        known = there.pop(server.uuid, None)
        said = "unknown" if known is None else _fate_in_tenure(known)
        if said != server.fate and not (server.fate == "never_decided" and said in ("unknown", "came_to_nothing")):
            lines.append(f"{server.uuid}: Nova {server.fate} ({server.why}), Tenure {said} {_told(known)}")
    return [*lines, *(f"{one}: Nova does not know it, Tenure {_fate_in_tenure(known)}" for one, known in there.items())]


def _fate_in_tenure(known: Any) -> str:
    if known.status == "rejected":
        return "refused"
    if known.aborted:
        return "came_to_nothing"
    deadline = known.at + timedelta(seconds=known.lifetime_s)
    return "evicted" if known.status == "evicted" and known.ended_at < deadline else "kept"


def _told(known: Any) -> str:
    return "" if known is None else f"({known.status} at {known.ended_at}, started {known.at}, {known.lifetime_s} s)"


def _interval(one: ClassAnswer) -> dict[str, Any]:
    """Return the interval that `tenure sla` shows, and Wilson's for the same share."""
    return {
        "share": one.ratio,
        "low": one.low,
        "high": one.high,
        "wilson": wilson(one.evicted, one.admitted),
        "is_kept": one.is_kept,
        "verdict": one.verdict,
        "sentence": one.sentence,
    }


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval of a share with 95 % confidence."""
    z = 1.959964
    share, width = hits / count, z * z / count
    middle, half = share + width / 2, z * sqrt(share * (1 - share) / count + width / (4 * count))
    return (middle - half) / (1 + width), (middle + half) / (1 + width)


def _rows(lab: NovaLab, database: str, query: str, values: list[Any] | None = None) -> list[Any]:
    with psycopg.connect(lab.database_url(database)) as connection:
        return connection.execute(query, values or []).fetchall()  # type: ignore[arg-type]


def _texts(hints: dict[str, Any]) -> dict[str, str]:
    return {name: values[0] if isinstance(values, list) else values for name, values in hints.items()}


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def as_json(found: Compared) -> str:
    return json.dumps(found.told(), default=str)
