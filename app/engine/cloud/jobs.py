"""The part of a cloud's state that holds its jobs, and what it knows of the attempts of its peers' jobs.

Both sides keep to the rules of `engine/jobs`. Jobs that have ended, and final words of a host, leave the state seven
days later, and before that what is beyond the newest 20,000 words of one peer or 50 MB of jobs; the log keeps them.
They leave when a job comes, of the cloud's users or of a peer, or a peer's job ends: the time alone changes no state.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.domain.events import (
    ForeignJobAdmitted,
    ForeignJobEnded,
    ForeignJobStaging,
    InstanceEvicted,
    InstanceStopped,
    JobAdmitted,
    JobAwarded,
    JobCancelled,
    JobCollected,
    JobDeclined,
    JobEnded,
    JobOffered,
    JobOutputsLost,
    JobRequested,
    PeerPaused,
    PeerResumed,
    RoomHeld,
)
from app.domain.jobs import AttemptKey, DataFault, Word
from app.domain.times import DAY_US
from app.engine.cloud.joborder import JobOrder
from app.engine.cloud.jobrecords import Collection, HostedRecord, JobRecord, Try, held_name, oldest, run_name, sharing
from app.engine.cloud.records import Facts, Fold, Folded, Undo
from app.engine.cloud.undoing import all_of, both, nothing
from app.engine.jobs import hostside, originside
from app.engine.jobs.attempts import LeaseTerms
from app.engine.jobs.hostside import HostEvent, HostSide
from app.engine.jobs.originside import AwayState, JobAway, OriginEvent
from app.engine.jobs.standings import LAPSED, PeerTally

KEPT_US = 7 * DAY_US
"""The time that a job that has ended, and a final word of a host, stay in the state."""
MOST_WORDS = 20_000
"""The final words on one peer's attempts that a host keeps. A peer can bring on a hundred each second, for attempts
that it never offered, too; whoever does loses words on its own attempts alone.
"""
MOST_ENDED = 100_000
"""The size of the jobs that have ended and are kept, in the parts of `JobRecord.size`: 1,500 of the largest."""
MOST_OPEN = 200_000
"""The size of the jobs that have not ended, or whose outputs are to be fetched, beyond which no other is taken."""
_OPEN = frozenset({Word.HELD, Word.STAGING, Word.RUNNING})
_FAULTS = frozenset(map(str, DataFault))


class Jobs:
    """The jobs by id, those that have not ended, those whose outputs are fetched, and the side of a host.

    `order`: that of their submission, which `by_id` does not keep; `out`: by peer, the jobs of which an attempt is out
    there. `size`: of all jobs; `size_ended`: of those that ended.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, JobRecord] = {}
        self.order = JobOrder()
        self.open: dict[str, None] = {}
        self.out: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.collecting: dict[str, None] = {}
        self.size = self.size_ended = 0
        self.host = HostSide()
        self.held: dict[AttemptKey, RoomHeld] = {}
        self.members: dict[str, str] = {}
        self.foreign: dict[str, AttemptKey] = {}
        self.standings: dict[str, PeerTally] = {}
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._final: defaultdict[str, OrderedDict[AttemptKey, int]] = defaultdict(OrderedDict)

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
            JobCollected: self._collect,
            JobOutputsLost: self._collect,
            RoomHeld: self._hold,
            ForeignJobStaging: self._stage,
            ForeignJobAdmitted: self._admit_foreign,
            ForeignJobEnded: self._end_foreign,
            PeerPaused: self._pause,
            PeerResumed: self._pause,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        known = self.host.attempts
        final = {key: at_us for own in self._final.values() for key, at_us in own.items()}
        hosted = [
            HostedRecord(*key, one.word, one.until_us, one.ends_us, final.get(key), self.held.get(key), one.reason)
            for key, one in known.items()
        ]
        return {
            "jobs": [self.by_id[name] for name in sorted(self.by_id)],
            "hosted": sorted(hosted, key=lambda one: one[:3]),
            "foreign": sorted((instance, *key) for instance, key in self.foreign.items()),
            "standings": [self.standings[name] for name in sorted(self.standings)],
        }

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        for job in sorted(sharing(facts.jobs), key=lambda job: job.place):
            self._enter(job.asked.job, job)
        self._ended = OrderedDict(sorted(self._ended.items(), key=lambda item: item[1]))
        for one in sorted(facts.hosted, key=lambda one: one.ended_us or 0):
            key = AttemptKey(one.peer, one.job, one.attempt)
            self.host.put(key, hostside.HostedAttempt(one.word, one.until_us, one.ends_us, one.reason))
            if one.ended_us is not None:
                self._final[key.origin][key] = one.ended_us
            if one.held is not None:
                self.held[key] = one.held
        self.foreign.update((one, AttemptKey(peer, job, attempt)) for one, peer, job, attempt in facts.foreign)
        self.standings.update((one.peer, one) for one in facts.standings)

    def concerned_by(self, moved: Folded) -> list[tuple[Jobs, Folded]]:
        """Return this part with what it enters of starts and stops that follow each other; nothing if it has none."""
        return [(self, moved)] if self.members or self.foreign else []

    def enter(self, moved: Folded) -> Undo | None:
        """Fold starts and stops that follow each other."""
        undo = [self._stop(event) for event, _ in moved if isinstance(event, InstanceStopped)]
        return all_of([one for one in undo if one is not None])

    # --- the origin's side -------------------------------------------------------------------------------------------

    def _request(self, event: JobRequested) -> Undo:
        return both(self._forget(event.at_us), self._put(event.job, JobRecord(event, _away(event))))

    def _admit(self, event: JobAdmitted) -> Undo:
        job = self.by_id[event.job]
        return self._put(event.job, replace(job, left=event.count, is_native=True))

    def _offer(self, event: JobOffered) -> Undo:
        tried = Try(event.attempt, event.peer, event.at_us)
        rule = originside.AttemptOffered(event.attempt, event.peer, event.at_us)
        changed = self._change(event.job, rule, (*self.by_id[event.job].tries, tried))
        return both(changed, self._stand(self._standing(event.peer).after_offer()))

    def _decline(self, event: JobDeclined) -> Undo:
        job, standing = self.by_id[event.job], self._standing(self._peer(event.job, event.attempt))
        if job.away.state is AwayState.AWARDED:
            end = event.why if event.why in _FAULTS else LAPSED
            stood = standing.after_end(event.at_us, end, self._promised(event.job, event.attempt))
        else:
            stood = standing.after_decline(event.why or event.reason)
        tries = self._tries(event.job, event.attempt, ended_us=event.at_us, outcome=event.reason, why=event.why)
        changed = self._change(event.job, originside.AttemptDeclined(event.attempt, event.reason), tries)
        return both(changed, self._stand(stood))

    def _award(self, event: JobAwarded) -> Undo:
        tries = self._tries(
            event.job,
            event.attempt,
            awarded_us=event.at_us,
            reclaim_us=event.reclaim_us,
            eviction_probability=event.eviction_probability,
        )
        standing = self._standing(self._peer(event.job, event.attempt)).after_award(event.eviction_probability)
        changed = self._change(event.job, originside.AttemptAwarded(event.attempt, event.reclaim_us), tries)
        return both(changed, self._stand(standing))

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
            tries=self._tries(
                event.job, event.attempt, ended_us=event.at_us, outcome=event.end.value, why=event.reason
            ),
            ended_us=event.at_us if event.is_last else None,
            reason=event.reason,
        )
        if not event.attempt:
            return self._put(event.job, job)
        promised = self._promised(event.job, event.attempt)
        standing = self._standing(self._peer(event.job, event.attempt))
        end = event.reason if event.reason in _FAULTS else event.end.value
        return both(self._put(event.job, job), self._stand(standing.after_end(event.at_us, end, promised)))

    def _collect(self, event: JobCollected | JobOutputsLost) -> Undo:
        reason = event.reason if isinstance(event, JobOutputsLost) else None
        return self._put(event.job, replace(self.by_id[event.job], collected=Collection(event.at_us, reason)))

    def _peer(self, name: str, attempt: int) -> str:
        return self.by_id[name].away.asked[attempt]

    def _promised(self, name: str, attempt: int) -> float | None:
        return next((one.eviction_probability for one in self.by_id[name].tries if one.number == attempt), None)

    def _change(self, name: str, rule: OriginEvent, tries: tuple[Try, ...]) -> Undo:
        job = self.by_id[name]
        return self._put(name, replace(job, away=job.away.after(rule), tries=tries))

    def _tries(self, name: str, attempt: int, **changed: Any) -> tuple[Try, ...]:  # noqa: ANN401 - fields of a try
        return tuple(one._replace(**changed) if one.number == attempt else one for one in self.by_id[name].tries)

    def _put(self, name: str, job: JobRecord | None) -> Undo:
        old = self.by_id.get(name)
        for one in () if old is None else old.instance_ids():
            self.members.pop(one, None)
        if old is not None and (wish := old.away.wish()) is not None:
            self.out[wish[0]].pop(name, None)
        self.open.pop(name, None)
        self.collecting.pop(name, None)
        if old is not None:
            self.order.leave(old.place)
            self.size -= old.size
            self.size_ended -= 0 if self._ended.pop(name, None) is None else old.size
        if job is None:
            self.by_id.pop(name, None)
        else:
            self._enter(name, job)
        return partial(self._put_back, name, old)

    def _enter(self, name: str, job: JobRecord) -> None:
        """Enter a job that none of the indexes knows."""
        self.by_id[name] = job
        self.order.enter(job.place)
        self.size += job.size
        if (wish := job.away.wish()) is not None:
            self.out[wish[0]][name] = None
        if job.ended_us is None:
            self.open[name] = None
            self.members.update(dict.fromkeys(job.instance_ids(), name))
        elif job.is_collecting:
            self.collecting[name] = None
        else:
            self._ended[name] = job.ended_us if job.collected is None else job.collected.at_us
            self.size_ended += job.size

    def _put_back(self, name: str, old: JobRecord | None) -> None:
        self._put(name, old)

    def _standing(self, peer: str) -> PeerTally:
        return self.standings.get(peer) or PeerTally(peer)

    def _stand(self, standing: PeerTally) -> Undo:
        old = self.standings.get(standing.peer)
        self.standings[standing.peer] = standing

        def undo() -> None:
            if old is None:
                del self.standings[standing.peer]
            else:
                self.standings[standing.peer] = old

        return undo

    def _pause(self, event: PeerPaused | PeerResumed) -> Undo:
        who = event.reason if isinstance(event, PeerPaused) else None
        return self._stand(self._standing(event.peer)._replace(paused=who))

    def _forget(self, now_us: int) -> Undo:
        """Let go what ended too long ago, or is too much. To undo it costs what it cost, however much else is known."""
        limit_us, over = now_us - KEPT_US, self.size_ended - MOST_ENDED
        jobs = [(one, self.by_id[one]) for one in oldest(self._ended, limit_us, over, lambda one: self.by_id[one].size)]
        finals = self._final.values()
        keys = [key for own in finals for key in oldest(own, limit_us, len(own) - MOST_WORDS, lambda _: 1)]
        if not jobs and not keys:
            return nothing
        words = [(key, self.host.attempts[key], self.held.get(key), self._final[key.origin].pop(key)) for key in keys]
        for name, _ in jobs:
            self._put(name, None)
        for key in keys:
            self.host.put(key, None)
            self.held.pop(key, None)

        def undo() -> None:
            for name, job in reversed(jobs):
                self._put(name, job)
                self._ended.move_to_end(name, last=False)
            for key, attempt, held, at_us in reversed(words):
                self._final[key.origin][key] = at_us
                self._final[key.origin].move_to_end(key, last=False)
                self.host.put(key, attempt)
                if held is not None:
                    self.held[key] = held

        return undo

    # --- the host's side ---------------------------------------------------------------------------------------------

    def _hold(self, event: RoomHeld) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        forgotten = self._forget(event.at_us)
        self.held[key], self.foreign[event.instance_id] = event, key
        back = self._tell(hostside.AttemptHeld(key, event.until_us, event.ends_us), event.at_us)

        def undo() -> None:
            del self.held[key], self.foreign[event.instance_id]
            back()
            forgotten()

        return undo

    def _stage(self, event: ForeignJobStaging) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        return self._tell(hostside.AttemptStaging(key, event.until_us), event.at_us)

    def _admit_foreign(self, event: ForeignJobAdmitted) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        old = self.held[key].instance_id
        del self.foreign[old]
        self.foreign[event.instance_id] = key
        back = self._tell(hostside.ForeignAdmitted(key), event.at_us)

        def undo() -> None:
            del self.foreign[event.instance_id]
            self.foreign[old] = key
            back()

        return undo

    def _end_foreign(self, event: ForeignJobEnded) -> Undo:
        key = AttemptKey(event.peer, event.job, event.attempt)
        names = run_name(key), held_name(key)
        named = [name for name in names if self.foreign.get(name) == key]
        return both(self._forget(event.at_us), self._over(key, event.word, named, event.at_us, event.reason))

    def _stop(self, event: InstanceStopped) -> Undo | None:
        if event.instance_id in self.members:
            name = self.members[event.instance_id]
            job = self.by_id[name]
            return self._put(name, replace(job, left=job.left - 1))
        key = self.foreign.get(event.instance_id)
        if key is None:
            return None
        word = Word.FINISHED if self.host.word_on(key) is Word.RUNNING else Word.EXPIRED
        return self._over(key, word, [event.instance_id], event.at_us)

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        key = self.foreign.get(event.instance_id)
        if key is None:
            return None
        word = Word.PREEMPTED if self.host.word_on(key) is Word.RUNNING else Word.EXPIRED
        return self._over(key, word, [event.instance_id], event.at_us)

    def _over(self, key: AttemptKey, word: Word, named: list[str], at_us: int, reason: str | None = None) -> Undo:
        for one in named:
            del self.foreign[one]
        back = self._tell(hostside.ForeignEnded(key, word, reason), at_us)

        def undo() -> None:
            self.foreign.update(dict.fromkeys(named, key))
            back()

        return undo

    def _tell(self, rule: HostEvent, at_us: int) -> Undo:
        key, old = rule.key, self.host.attempts.get(rule.key)
        final = self._final[key.origin]
        before, former = None if old is None else replace(old), final.pop(key, None)
        self.host.apply(rule)
        word = self.host.attempts[key].word
        if word not in _OPEN:
            final[key] = at_us
        stood = self._stand(self._standing(key.origin).after_word(word))

        def undo() -> None:
            stood()
            final.pop(key, None)
            if former is not None:
                final[key] = former
            self.host.put(key, before)

        return undo


def _away(event: JobRequested) -> JobAway:
    terms = LeaseTerms(event.hold_us or 1, event.stage_us + event.lifetime_us, event.margin_us)
    return JobAway(event.peers, terms, event.attempts, event.answer_us, event.on_preempted.again)
