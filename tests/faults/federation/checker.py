"""The checker: what docs/federation.md promises of jobs between clouds, asked of the logs of all of them.

It imports nothing of the service. All sites are on one machine, so times of their logs can be compared, as far as each
process knows its clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

LATE_S = 5.0
"""So long after its time held room may go and a job may be stopped, besides the times in which a part was away."""
CLOCKS_S = 0.1
"""So much two processes may differ about the time: each knows its database's clock from a look at it, to within half of
the time that the look took, and on a loaded machine that is some milliseconds.
"""
_ENDS = frozenset({"instance_stopped", "instance_evicted"})
_FINAL = {"failed": {"failed"}, "cancelled": {"cancelled", "superseded"}}
_LASTS = frozenset({"completed", "failed", "cancelled"})

Event = Mapping[str, Any]
Key = tuple[str, str, int]
"""An attempt: its origin, its job, its number."""


@dataclass
class Submitted:
    """A job that was submitted at a site, and the answers."""

    site: str
    job: str
    cancelled: bool = False
    statuses: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Findings:
    """The broken rules, by name, and how much was seen at all."""

    broken: list[tuple[str, str]]
    jobs: int
    attempts: int
    ran_away: int
    ends: Mapping[str, int]


@dataclass
class Hosted:
    """An attempt in the log of its host: when room was held, when it ran, what ended it, and its last words."""

    held: Event | None = None
    admitted: Event | None = None
    held_end: Event | None = None
    run_end: Event | None = None
    words: list[Event] = field(default_factory=list)


def check(
    logs: Mapping[str, Sequence[Event]],
    submitted: Sequence[Submitted],
    down: Mapping[str, Sequence[tuple[float, float]]],
) -> Findings:
    """Check the logs of all sites, of which a part was away at times; all jobs must have had time to end."""
    hosted = {site: _hosted(log) for site, log in logs.items()}
    broken = [*_submissions(logs, submitted)]
    for site, log in logs.items():
        broken += _origin(site, log, hosted)
    broken += _unasked(logs, hosted)
    broken += _twice(logs, hosted)
    for site, attempts in hosted.items():
        for key, one in attempts.items():
            broken += _room(site, key, one, down[site])
    ends: dict[str, int] = defaultdict(int)
    for event in chain.from_iterable(logs.values()):
        if event["kind"] == "job_ended" and event["is_last"]:
            ends[event["end"]] += 1
    ran = sum(one.admitted is not None for attempts in hosted.values() for one in attempts.values())
    offered = sum(event["kind"] == "job_offered" for log in logs.values() for event in log)
    return Findings(broken, sum(ends.values()), offered, ran, dict(ends))


def moment(event: Event, name: str = "at") -> float:
    """Return a time of an event in seconds."""
    return datetime.fromisoformat(event[name]).timestamp()


def _hosted(log: Sequence[Event]) -> dict[Key, Hosted]:
    """Return what a host's log says of each attempt."""
    found: defaultdict[Key, Hosted] = defaultdict(Hosted)
    named: dict[str, tuple[Key, str]] = {}
    for event in log:
        kind = event["kind"]
        if kind == "room_held":
            key = _key(event)
            found[key].held = event
            named[event["id"]] = key, "held_end"
        elif kind == "foreign_job_admitted":
            key = _key(event)
            found[key].admitted = event
            named[event["id"]] = key, "run_end"
        elif kind == "foreign_job_ended":
            found[_key(event)].words.append(event)
        elif kind in _ENDS and event["id"] in named:
            key, what = named.pop(event["id"])
            setattr(found[key], what, event)
    return dict(found)


def _key(event: Event) -> Key:
    return event["peer"], event["job"], event["attempt"]


def _submissions(logs: Mapping[str, Sequence[Event]], submitted: Sequence[Submitted]) -> Iterator[tuple[str, str]]:
    """All that was acknowledged is in the log, with one last end; nothing else is."""
    for one in submitted:
        of_job = [event for event in logs[one.site] if event.get("job") == one.job and "peer" not in event]
        asked = sum(event["kind"] == "job_requested" for event in of_job)
        lasts = [event for event in of_job if event["kind"] == "job_ended" and event["is_last"]]
        if 201 in one.statuses and not asked:
            yield "lost", f"{one.site}: job {one.job} was acknowledged, and is not in the log"
        if asked > 1:
            yield "lost", f"{one.site}: job {one.job} was requested {asked} times"
        if asked and len(lasts) != 1:
            yield "lost", f"{one.site}: job {one.job} has {len(lasts)} last ends"
        if not set(one.statuses) <= {201, 204}:
            yield "answer", f"{one.site}: job {one.job} was answered {one.statuses}"
    known = {(one.site, one.job) for one in submitted}
    for site, log in logs.items():
        for event in log:
            if event["kind"] == "job_requested" and (site, event["job"]) not in known:
                yield "lost", f"{site}: job {event['job']} was submitted by nobody"


def _origin(site: str, log: Sequence[Event], hosted: Mapping[str, Mapping[Key, Hosted]]) -> Iterator[tuple[str, str]]:
    """Attempts follow each other, one at a time, and their ends are what their hosts say."""
    by_job: defaultdict[str, list[Event]] = defaultdict(list)
    for event in log:
        if event["kind"].startswith("job_"):
            by_job[event["job"]].append(event)
    for job, events in by_job.items():
        number, peer, awarded, native, over = 0, "", None, False, False
        is_open = False
        for event in events:
            kind, told = event["kind"], f"{site}: job {job}, attempt {number}: {dict(event)}"
            if over:
                yield "order", f"{told} follows the end of the job"
            if kind == "job_admitted":
                native = True
            elif kind == "job_offered":
                if native or is_open or event["attempt"] != number + 1:
                    yield "order", f"{told} is not the next attempt"
                number, peer, awarded, is_open = event["attempt"], event["peer"], None, True
            elif kind == "job_awarded":
                if not is_open or awarded is not None or event["attempt"] != number:
                    yield "order", f"{told} was not offered"
                awarded = event
            elif kind == "job_declined":
                if not is_open or event["attempt"] != number:
                    yield "order", f"{told} was not offered"
                is_open = False
                if _at(hosted, peer, (site, job, number)).admitted is not None:
                    yield "ends", f"{told} came to nothing, and ran at {peer}"
            elif kind == "job_ended":
                if event["attempt"]:
                    asked = next(
                        (one for one in events if one["kind"] == "job_offered" and one["attempt"] == event["attempt"]),
                        None,
                    )
                    host = asked["peer"] if asked else ""
                    yield from _end(told, event, awarded, _at(hosted, host, (site, job, event["attempt"])))
                    is_open = is_open and event["attempt"] != number
                over = event["is_last"]


def _at(hosted: Mapping[str, Mapping[Key, Hosted]], host: str, key: Key) -> Hosted:
    return hosted.get(host, {}).get(key, Hosted())


def _end(told: str, event: Event, awarded: Event | None, there: Hosted) -> Iterator[tuple[str, str]]:
    """The end of an attempt at its origin is its host's word, or its lease is over."""
    end = event["end"]
    word = there.words[-1]["word"] if there.words else None
    by = there.run_end["kind"] if there.run_end is not None else None
    if end == "reclaimed":
        if awarded is None or moment(event) < moment(awarded, "reclaim_at"):
            yield "ends", f"{told} was taken back too early"
    elif end == "completed" and (by != "instance_stopped" or word is not None):
        yield "ends", f"{told} did not finish there: {there}"
    elif end == "preempted" and by != "instance_evicted":
        yield "ends", f"{told} was not preempted there: {there}"
    elif end in _FINAL and word not in _FINAL[end]:
        yield "ends", f"{told} is not the word of its host: {there}"


def _unasked(
    logs: Mapping[str, Sequence[Event]], hosted: Mapping[str, Mapping[Key, Hosted]]
) -> Iterator[tuple[str, str]]:
    """All that ran for a peer was awarded to this host, and before, as far as two clocks can tell."""
    asked: dict[tuple[str, Key], float] = {}
    for site, log in logs.items():
        to: dict[tuple[str, int], str] = {}
        for event in log:
            if event["kind"] == "job_offered":
                to[event["job"], event["attempt"]] = event["peer"]
            elif event["kind"] == "job_awarded":
                number = event["attempt"]
                asked[to[event["job"], number], (site, event["job"], number)] = moment(event)
    for host, attempts in hosted.items():
        for key, one in attempts.items():
            if one.admitted is None:
                continue
            at = asked.get((host, key))
            if at is None or at > moment(one.admitted) + CLOCKS_S:
                yield "unasked", f"{host}: {dict(one.admitted)} ran before it was awarded"


def _twice(
    logs: Mapping[str, Sequence[Event]], hosted: Mapping[str, Mapping[Key, Hosted]]
) -> Iterator[tuple[str, str]]:
    """No two attempts of a job ran at once. Nothing runs beyond its lease: who runs it stops it then by himself."""
    runs: defaultdict[tuple[str, str], list[tuple[float, float, str]]] = defaultdict(list)
    for host, attempts in hosted.items():
        for key, one in attempts.items():
            if one.admitted is not None and one.held is not None:
                lease = moment(one.held, "ends_at")
                until = lease if one.run_end is None else min(moment(one.run_end), lease)
                runs[key[0], key[1]].append((moment(one.admitted), until, f"attempt {key[2]} at {host}"))
    for site, log in logs.items():
        for event in log:
            if event["kind"] == "job_admitted" and (site, event["job"]) in runs:
                yield "twice", f"{site}: job {event['job']} ran at home and elsewhere"
    for (site, job), spans in runs.items():
        for earlier, later in pairwise(sorted(spans)):
            if later[0] < earlier[1]:
                yield (
                    "twice",
                    f"{site}: job {job}: {earlier[2]} ran until {earlier[1]:.3f}, {later[2]} from {later[0]:.3f}",
                )


def _room(site: str, key: Key, one: Hosted, down: Sequence[tuple[float, float]]) -> Iterator[tuple[str, str]]:
    """Held room goes in time, a job is stopped at the end of its lease, and the last word is said once."""
    told = f"{site}: attempt {key}"
    if len(one.words) > 1:
        yield "words", f"{told} has {len(one.words)} last words: {one.words}"
    if one.admitted is not None and one.held is None:
        yield "room", f"{told} ran without held room"
    if one.held is not None:
        yield from _in_time(f"{told}: room", one.held_end, moment(one.held, "until"), down)
        if one.admitted is not None:
            if moment(one.admitted) > moment(one.held, "until"):
                yield "room", f"{told} was admitted after its room was held"
            yield from _in_time(f"{told}: its job", one.run_end, moment(one.held, "ends_at"), down)


def _in_time(
    told: str, end: Event | None, until: float, down: Sequence[tuple[float, float]]
) -> Iterator[tuple[str, str]]:
    if end is None:
        yield "for ever", f"{told} was never let go"
        return
    away = sum(max(min(moment(end), to) - max(until, since), 0.0) for since, to in _merged(down))
    late = moment(end) - until - away
    if late > LATE_S:
        yield "late", f"{told} was let go {late:.1f} s late, and {away:.1f} s of outages besides"


def _merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for since, to in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], to)
        else:
            found.append((since, to))
    return found
