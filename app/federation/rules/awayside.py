"""Jobs at peers, as their origin sees them: what the clock and the words of hosts lead to, as events of the log.

The rules are those of `engine/jobs/originside.py`, whose state is part of the folded log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.domain.events import Event, JobAwarded, JobDeclined, JobEnded, JobOffered
from app.domain.jobs import AwayEnd, Word
from app.engine.cloud import Cloud, JobRecord
from app.engine.jobs import originside
from app.engine.jobs.attempts import HOLD_MAX_US, Wish
from app.engine.jobs.originside import OriginEvent
from app.federation.rules.reasons import REFUSED_BY_ALL


class Heard(NamedTuple):
    """A host's word on an attempt, or why there is none: then the offer is declined.

    `why`: the host's reason for its word; `promised`: the largest probability of preemption that comes with its offer.
    """

    job: str
    peer: str
    attempt: int
    word: Word | None
    reason: str | None = None
    why: str | None = None
    promised: float | None = None


class DueMessage(NamedTuple):
    """A message that is due to a peer, until its answer changes the state. `is_urgent`: its time ends soon."""

    peer: str
    wish: Wish
    record: JobRecord
    is_urgent: bool = False

    @property
    def until_us(self) -> int | None:
        """The time until which an offer is to be answered, or room is held for an award; None: it has no such time."""
        match self.wish:
            case Wish.OFFER:
                return self.record.away.at_us + self.record.away.answer_us
            case Wish.AWARD:
                return self.record.away.terms.held_until_us(self.record.away.reclaim_us)
            case _:
                return None


def wishes(cloud: Cloud, peer: str) -> Iterator[DueMessage]:
    """Yield what is to be told to a peer now."""
    for name in cloud.jobs.out.get(peer, ()):
        record = cloud.jobs.by_id[name]
        wish = record.away.wish()
        if wish is not None:
            yield DueMessage(*wish, record)


def is_recent(record: JobRecord, at_us: int) -> bool:
    """Return True if an attempt was offered so lately that its time, or that of its room, may last."""
    return at_us < record.away.at_us + record.away.answer_us + HOLD_MAX_US


def decide_away(
    cloud: Cloud, heard: Sequence[Heard], at_us: int, names: Iterable[str] | None = None
) -> Iterator[Event]:
    """Yield the events that words of hosts and the clock lead to; each must be applied before the next is asked for.

    `names`: the jobs for which the clock is looked at; None: all that are open.
    """
    for one in heard:
        record = cloud.jobs.by_id[one.job]
        if one.word is not None:
            for rule in record.away.decide_word(one.peer, one.attempt, one.word, at_us):
                yield _told(record, rule, at_us, one)
        elif one.attempt == record.away.attempt and record.away.wish() == (one.peer, Wish.OFFER):
            reason = one.reason or "no_answer"
            yield JobDeclined(at_us=at_us, job=one.job, attempt=one.attempt, reason=reason)
    for name in [*(cloud.jobs.open if names is None else names)]:
        record = cloud.jobs.by_id[name]
        for rule in () if record.is_native else record.away.decide_time(at_us):
            yield _told(record, rule, at_us)


def _told(record: JobRecord, rule: OriginEvent, at_us: int, heard: Heard | None = None) -> Event:
    """Return the event of the log that tells this."""
    name, why = record.asked.job, heard and heard.why
    match rule:
        case originside.AttemptOffered():
            return JobOffered(at_us=at_us, job=name, attempt=rule.attempt, peer=rule.peer)
        case originside.AttemptDeclined():
            return JobDeclined(at_us=at_us, job=name, attempt=rule.attempt, reason=str(rule.reason), why=why)
        case originside.AttemptAwarded():
            promised = heard and heard.promised
            return JobAwarded(
                at_us=at_us,
                job=name,
                attempt=rule.attempt,
                reclaim_us=rule.reclaim_us,
                eviction_probability=promised,
            )
        case originside.AttemptEnded():
            reason = why if rule.end is AwayEnd.FAILED else None
            return JobEnded(
                at_us=at_us, job=name, attempt=rule.attempt, end=rule.end, is_last=rule.is_last, reason=reason
            )
        case originside.JobGivenUp():
            reason = REFUSED_BY_ALL if rule.end is AwayEnd.REJECTED else None
            return JobEnded(at_us=at_us, job=name, attempt=0, end=rule.end, is_last=True, reason=reason)
    raise AssertionError(f"{rule} has no event")
