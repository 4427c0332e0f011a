"""The standing of a peer: what it promised, as this cloud's log tells it, against what happened.

A log has both directions: attempts that were offered to the peer, and attempts of the peer's own jobs here.
"""

from __future__ import annotations

from typing import NamedTuple

from app.domain.jobs import AwayEnd, Word

MOST_RECENT = 100
"""The number of ended awards that are remembered one by one."""
_MOST_REASONS = 16
_OTHER = "other"
LAPSED = "lapsed"
"""The end of an award that its host did not honour: it had let the room go, or knew of no offer."""

WordCounts = tuple[tuple[str, int], ...]
"""Numbers by word, in the order of the words."""


class AwardFate(NamedTuple):
    """The end of an award: when, how, and the largest probability of preemption that was promised, if one was."""

    at_us: int
    end: str
    promised: float | None


class PeerTally(NamedTuple):
    """All that a cloud's log tells of a peer.

    As a host of our jobs: attempts `offered` to it, those `declined` by reason, `awarded`, the sum of the probabilities
    of preemption that it `promised` with `bound` of these, and how awards `ended`; `recent`: the newest ends.
    As an origin: attempts of its jobs here by what became of them, `hosted`; `held` and `running` count all that ever
    were. `paused`: who paused it; None: it is not paused.
    """

    peer: str
    offered: int = 0
    declined: WordCounts = ()
    awarded: int = 0
    promised: float = 0.0
    bound: int = 0
    ended: WordCounts = ()
    recent: tuple[AwardFate, ...] = ()
    hosted: WordCounts = ()
    paused: str | None = None

    @property
    def promised_ratio(self) -> float | None:
        """The mean probability of preemption that the peer promised; None if it promised none."""
        return self.promised / self.bound if self.bound else None

    def after_offer(self) -> PeerTally:
        """Return the standing after an attempt was offered to the peer."""
        return self._replace(offered=self.offered + 1)

    def after_decline(self, reason: str) -> PeerTally:
        """Return the standing after an offer that came to nothing."""
        return self._replace(declined=counted(self.declined, reason))

    def after_award(self, promised: float | None) -> PeerTally:
        """Return the standing after an attempt was awarded to the peer."""
        found = self._replace(awarded=self.awarded + 1)
        return found if promised is None else found._replace(promised=self.promised + promised, bound=self.bound + 1)

    def after_end(self, at_us: int, end: str, promised: float | None) -> PeerTally:
        """Return the standing after the end of an award."""
        recent = (*self.recent[1 - MOST_RECENT :], AwardFate(at_us, end, promised))
        return self._replace(ended=counted(self.ended, end), recent=recent)

    def after_word(self, word: Word) -> PeerTally:
        """Return the standing after a new word on an attempt of the peer's own jobs."""
        return self._replace(hosted=counted(self.hosted, word.value))

    def ends(self, end: AwayEnd | str) -> int:
        """Return how many awards ended so."""
        return dict(self.ended).get(str(end), 0)

    def words(self, word: Word) -> int:
        """Return how many attempts of the peer's own jobs came to this word."""
        return dict(self.hosted).get(word.value, 0)


def counted(counts: WordCounts, word: str) -> WordCounts:
    """Return the counts with one more of a word. Words beyond the first sixteen count as `other`."""
    found = dict(counts)
    name = word if word in found or len(found) < _MOST_REASONS else _OTHER
    found[name] = found.get(name, 0) + 1
    return tuple(sorted(found.items()))
