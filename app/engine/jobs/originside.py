"""A job at its origin: whom it is offered to, who was awarded it, until when, and how it ended.

Everything is in the events. `decide_*` return the events that the clock or a host's word leads to; the caller writes
them down, applies them, and only then sends `wish`. So an award is durable before any host hears of it, and whatever
is sent again after a restart is what was sent before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from app.domain.jobs import AwayEnd, Word
from app.engine.jobs.attempts import LeaseTerms, Wish


class AwayState(StrEnum):
    """`waiting`: no attempt is out. `offered`: a host was asked. `awarded`: it may run there. `ended`: for good."""

    WAITING = "waiting"
    OFFERED = "offered"
    AWARDED = "awarded"
    ENDED = "ended"


class AttemptOffered(NamedTuple):
    """An attempt is offered to a host, from a time on."""

    attempt: int
    peer: str
    at_us: int


class AttemptDeclined(NamedTuple):
    """An attempt came to nothing: the host refused it, or did not answer, or let it go before it began."""

    attempt: int
    reason: str


class AttemptAwarded(NamedTuple):
    """An attempt was awarded. Until `reclaim_us` only its host can say that it is over."""

    attempt: int
    reclaim_us: int


class AttemptEnded(NamedTuple):
    """An awarded attempt is over; `is_last`: the job with it."""

    attempt: int
    end: AwayEnd
    is_last: bool


class CancelWished(NamedTuple):
    """Its user wants the job no more. It has ended once no attempt can run."""


class JobGivenUp(NamedTuple):
    """The job has ended without an attempt that is out."""

    end: AwayEnd


OriginEvent = AttemptOffered | AttemptDeclined | AttemptAwarded | AttemptEnded | CancelWished | JobGivenUp
_ENDS = {
    Word.PREEMPTED: AwayEnd.PREEMPTED,
    Word.FAILED: AwayEnd.FAILED,
    Word.FINISHED: AwayEnd.COMPLETED,
    Word.CANCELLED: AwayEnd.CANCELLED,
    Word.SUPERSEDED: AwayEnd.CANCELLED,
}
_NEVER_BEGAN = frozenset({Word.REFUSED, Word.EXPIRED})
"""Of an awarded attempt. A host that knows nothing of it held its room once: it is another one now, or has forgotten
what may run still. So that word changes nothing, and the lease decides.
"""


@dataclass(slots=True)
class JobAway:
    """A job that its origin could not start.

    `peers`: whom to ask, in order, again from the first after the last; `attempts`: the most attempts; `answer_us`: how
    long a host has to answer an offer; `again`: whether a preempted job is offered again. `asked`: the host of each
    attempt that may have finished yet: the newest one until it comes to nothing, and those that were taken back.
    """

    peers: tuple[str, ...]
    terms: LeaseTerms
    attempts: int
    answer_us: int
    again: bool
    state: AwayState = AwayState.WAITING
    attempt: int = 0
    at_us: int = 0
    reclaim_us: int = 0
    is_cancelled: bool = False
    end: AwayEnd | None = None
    asked: dict[int, str] = field(default_factory=dict)

    @property
    def peer(self) -> str:
        """The host of the newest attempt."""
        return self.asked[self.attempt]

    def apply(self, event: OriginEvent) -> None:
        """Fold one event."""
        match event:
            case AttemptOffered():
                self.state, self.attempt, self.at_us = AwayState.OFFERED, event.attempt, event.at_us
                self.asked[event.attempt] = event.peer
            case AttemptAwarded():
                self.state, self.reclaim_us = AwayState.AWARDED, event.reclaim_us
            case AttemptDeclined():
                self.state = AwayState.WAITING
                del self.asked[event.attempt]
            case AttemptEnded():
                self.state = AwayState.ENDED if event.is_last else AwayState.WAITING
                self.end = event.end if event.is_last else None
                if not (event.is_last or event.end is AwayEnd.RECLAIMED):
                    del self.asked[event.attempt]
            case CancelWished():
                self.is_cancelled = True
            case JobGivenUp():
                self.state, self.end = AwayState.ENDED, event.end

    def after(self, event: OriginEvent) -> JobAway:
        """Return the job after one event, and leave this one as it is."""
        found = replace(self, asked=dict(self.asked))
        found.apply(event)
        return found

    def wish(self) -> tuple[str, Wish] | None:
        """Return what to tell which host now; it is told again until its answer changes the state."""
        match self.state:
            case AwayState.OFFERED:
                return self.peer, Wish.OFFER
            case AwayState.AWARDED:
                return self.peer, Wish.CANCEL if self.is_cancelled else Wish.AWARD
            case _:
                return None

    def is_overdue(self, now_us: int) -> bool:
        """Return True for an attempt that was awarded and whose lease is over for sure."""
        return self.state is AwayState.AWARDED and now_us >= self.reclaim_us + self.answer_us

    def decide_time(self, now_us: int) -> list[OriginEvent]:
        """Offer the job to the next host, or end an attempt that was not answered or is over for sure."""
        match self.state:
            case AwayState.WAITING if self.is_cancelled:
                return [JobGivenUp(AwayEnd.CANCELLED)]
            case AwayState.WAITING if self.attempt >= self.attempts or not self.peers:
                return [JobGivenUp(AwayEnd.REJECTED)]
            case AwayState.WAITING:
                return [AttemptOffered(self.attempt + 1, self.peers[self.attempt % len(self.peers)], now_us)]
            case AwayState.OFFERED if self.is_cancelled:
                return [AttemptDeclined(self.attempt, AwayEnd.CANCELLED)]
            case AwayState.OFFERED if now_us >= self.at_us + self.answer_us:
                return [AttemptDeclined(self.attempt, "timeout")]
            case AwayState.AWARDED if self.is_overdue(now_us):
                return [self._ended(self.attempt, AwayEnd.RECLAIMED)]
            case _:
                return []

    def decide_cancel(self) -> list[OriginEvent]:
        """Take the wish of the user to have the job no more."""
        return [] if self.is_cancelled or self.state is AwayState.ENDED else [CancelWished()]

    def decide_word(self, peer: str, attempt: int, word: Word, now_us: int) -> list[OriginEvent]:
        """Take the word of a host on an attempt. Words on older ones change nothing, but for one that finished.

        As long as no newer attempt was awarded, work of one that was taken back is not lost.
        """
        if self.state is AwayState.ENDED or self.asked.get(attempt) != peer:
            return []
        is_newest_out = attempt == self.attempt and self.state is not AwayState.WAITING
        if not is_newest_out:
            may_take = word is Word.FINISHED and self.state is not AwayState.AWARDED
            return [AttemptEnded(attempt, AwayEnd.COMPLETED, is_last=True)] if may_take else []
        if self.state is AwayState.OFFERED:
            return self._offer_answered(word, now_us)
        if word in _NEVER_BEGAN:
            return [AttemptDeclined(attempt, word)]
        return [self._ended(attempt, _ENDS[word])] if word in _ENDS else []

    def _offer_answered(self, word: Word, now_us: int) -> list[OriginEvent]:
        if word is not Word.HELD:
            return [AttemptDeclined(self.attempt, word)]
        if self.is_cancelled:
            return []
        return [AttemptAwarded(self.attempt, self._reclaim_us(now_us))]

    def _reclaim_us(self, answered_us: int) -> int:
        return self.terms.reclaim_us(answered_us)

    def _ended(self, attempt: int, end: AwayEnd) -> AttemptEnded:
        goes_on = end is AwayEnd.RECLAIMED or (end is AwayEnd.PREEMPTED and self.again)
        return AttemptEnded(attempt, end, is_last=not goes_on)
