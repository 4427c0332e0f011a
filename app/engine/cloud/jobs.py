"""The part of a cloud's state that holds its jobs, and what it knows of the attempts of its peers' jobs.

Both sides keep to the rules of `engine/jobs`. Jobs and words are kept for good: an id is used once, and a host never
takes a word back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.domain.events import (
    ForeignJobAdmitted,
    ForeignJobEnded,
    InstanceEvicted,
    InstanceStopped,
    JobAdmitted,
    JobAwarded,
    JobCancelled,
    JobDeclined,
    JobEnded,
    JobOffered,
    JobRequested,
    RoomHeld,
)
from app.domain.jobs import AttemptKey, Word
from app.engine.cloud.jobrecords import HostedRecord, JobRecord, Try
from app.engine.cloud.records import Facts, Fold, Folded, Undo
from app.engine.jobs import hostside, originside
from app.engine.jobs.attempts import LeaseTerms
from app.engine.jobs.hostside import HostEvent, HostSide
from app.engine.jobs.originside import JobAway, OriginEvent


class Jobs:
    """The jobs by id, those that have not ended, and the side of a host."""

    def __init__(self) -> None:
        self.by_id: dict[str, JobRecord] = {}
        self.open: dict[str, None] = {}
        self.host = HostSide()
        self.held: dict[AttemptKey, RoomHeld] = {}
        self.members: dict[str, str] = {}
        self.foreign: dict[str, AttemptKey] = {}

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            JobRequested: self._request,
            JobAdmitted: self._admit,
            JobOffered: self._offer,
            JobDeclined: self._decline,
            JobAwarded: self._award,
            JobCancelled: self._cancel,
            JobEnded: self._end,
            RoomHeld: self._hold,
            ForeignJobAdmitted: self._admit_foreign,
            ForeignJobEnded: self._end_foreign,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        known = self.host.attempts
        hosted = [
            HostedRecord(*key, one.word, one.until_us, one.ends_us, self.held.get(key)) for key, one in known.items()
        ]
        return {
            "jobs": [self.by_id[name] for name in sorted(self.by_id)],
            "hosted": sorted(hosted, key=lambda one: one[:3]),
            "foreign": sorted((instance, *key) for instance, key in self.foreign.items()),
        }

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        for job in facts.jobs:
            self._put(job.asked.job, job)
        for one in facts.hosted:
            key = AttemptKey(one.peer, one.job, one.attempt)
            self.host.put(key, hostside.HostedAttempt(one.word, one.until_us, one.ends_us))
            if one.held is not None:
                self.held[key] = one.held
        self.foreign.update((one, AttemptKey(peer, job, attempt)) for one, peer, job, attempt in facts.foreign)

    def concerned_by(self, moved: Folded) -> list[tuple[Jobs, Folded]]:
        """Return this part with what it enters of starts and stops that follow each other; nothing if it has none."""
        return [(self, moved)] if self.members or self.foreign else []

    def enter(self, moved: Folded) -> Undo | None:
        """Fold starts and stops that follow each other."""
        undo = [self._stop(event) for event, _ in moved if isinstance(event, InstanceStopped)]
        return _all_of([one for one in undo if one is not None])

    # --- the origin's side -------------------------------------------------------------------------------------------

    def _request(self, event: JobRequested) -> Undo:
        return self._put(event.job, JobRecord(event, _away(event)))

    def _admit(self, event: JobAdmitted) -> Undo:
        job = self.by_id[event.job]
        return self._put(event.job, replace(job, left=event.count, is_native=True))

    def _offer(self, event: JobOffered) -> Undo:
        tried = Try(event.attempt, event.peer, event.at_us)
        rule = originside.AttemptOffered(event.attempt, event.peer, event.at_us)
        return self._change(event.job, rule, (*self.by_id[event.job].tries, tried))

    def _decline(self, event: JobDeclined) -> Undo:
        tries = self._tries(event.job, event.attempt, ended_us=event.at_us, outcome=event.reason)
        return self._change(event.job, originside.AttemptDeclined(event.attempt, event.reason), tries)

    def _award(self, event: JobAwarded) -> Undo:
        tries = self._tries(event.job, event.attempt, awarded_us=event.at_us, reclaim_us=event.reclaim_us)
        return self._change(event.job, originside.AttemptAwarded(event.attempt, event.reclaim_us), tries)

    def _cancel(self, event: JobCancelled) -> Undo:
        return self._change(event.job, originside.CancelWished(), self.by_id[event.job].tries)

    def _end(self, event: JobEnded) -> Undo:
        job = self.by_id[event.job]
        if event.attempt:
            rule: OriginEvent = originside.AttemptEnded(event.attempt, event.end, event.is_last)
        else:
            rule = originside.JobGivenUp(event.end)
        job = replace(
            job,
            away=job.away.after(rule),
            tries=self._tries(event.job, event.attempt, ended_us=event.at_us, outcome=event.end.value),
            ended_us=event.at_us if event.is_last else None,
            reason=event.reason,
        )
        return self._put(event.job, job)

    def _change(self, name: str, rule: OriginEvent, tries: tuple[Try, ...]) -> Undo:
        job = self.by_id[name]
        return self._put(name, replace(job, away=job.away.after(rule), tries=tries))

    def _tries(self, name: str, attempt: int, **changed: Any) -> tuple[Try, ...]:  # noqa: ANN401 - fields of a try
        return tuple(one._replace(**changed) if one.number == attempt else one for one in self.by_id[name].tries)

    def _put(self, name: str, job: JobRecord | None) -> Undo:
        old = self.by_id.pop(name, None)
        for one in () if old is None else old.instance_ids():
            self.members.pop(one, None)
        self.open.pop(name, None)
        if job is not None:
            self.by_id[name] = job
            if job.ended_us is None:
                self.open[name] = None
                self.members.update(dict.fromkeys(job.instance_ids(), name))
        return partial(self._put_back, name, old)

    def _put_back(self, name: str, old: JobRecord | None) -> None:
        self._put(name, old)

    # --- the host's side ---------------------------------------------------------------------------------------------

    def _hold(self, event: RoomHeld) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        self.held[key], self.foreign[event.instance_id] = event, key
        back = self._tell(hostside.AttemptHeld(key, event.until_us, event.ends_us))

        def undo() -> None:
            del self.held[key], self.foreign[event.instance_id]
            back()

        return undo

    def _admit_foreign(self, event: ForeignJobAdmitted) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        old = self.held[key].instance_id
        del self.foreign[old]
        self.foreign[event.instance_id] = key
        back = self._tell(hostside.ForeignAdmitted(key))

        def undo() -> None:
            del self.foreign[event.instance_id]
            self.foreign[old] = key
            back()

        return undo

    def _end_foreign(self, event: ForeignJobEnded) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        named = [name for name, one in self.foreign.items() if one == key] if key in self.held else []
        return self._over(key, event.word, named)

    def _stop(self, event: InstanceStopped) -> Undo | None:
        if event.instance_id in self.members:
            name = self.members[event.instance_id]
            job = self.by_id[name]
            return self._put(name, replace(job, left=job.left - 1))
        key = self.foreign.get(event.instance_id)
        if key is None:
            return None
        word = Word.FINISHED if self.host.word_on(key) is Word.RUNNING else Word.EXPIRED
        return self._over(key, word, [event.instance_id])

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        key = self.foreign.get(event.instance_id)
        if key is None:
            return None
        word = Word.PREEMPTED if self.host.word_on(key) is Word.RUNNING else Word.EXPIRED
        return self._over(key, word, [event.instance_id])

    def _over(self, key: AttemptKey, word: Word, named: list[str]) -> Undo:
        for one in named:
            del self.foreign[one]
        back = self._tell(hostside.ForeignEnded(key, word))

        def undo() -> None:
            self.foreign.update(dict.fromkeys(named, key))
            back()

        return undo

    def _tell(self, rule: HostEvent) -> Undo:
        old = self.host.attempts.get(rule.key)
        before = None if old is None else replace(old)
        self.host.apply(rule)
        return lambda: self.host.put(rule.key, before)


def _away(event: JobRequested) -> JobAway:
    terms = LeaseTerms(event.hold_us or 1, event.lifetime_us, event.margin_us)
    return JobAway(event.peers, terms, event.attempts, event.answer_us, event.on_preempted.again)


def _all_of(undo: list[Undo]) -> Undo | None:
    if not undo:
        return None

    def back() -> None:
        for one in reversed(undo):
            one()

    return back
