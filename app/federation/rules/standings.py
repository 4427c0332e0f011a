"""Rules on standing: whether a peer is offered no more, and for how long room is held for its offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.events import PeerPaused, PeerResumed
from app.domain.jobs import AwayEnd, Word
from app.domain.times import SECOND_US
from app.domain.values import NodeStatus
from app.engine.cloud import Cloud
from app.engine.jobs.standings import LAPSED, AwardFate, PeerTally
from app.federation.rules.peers import Peer
from app.judging.intervals import exact_interval

LEAST_AWARDS = 20
"""The number of ended awards from which a peer's promises are judged."""
MOST_LAPSED = 5
"""So many awards in a row that a peer did not honour are enough to pause it, if they ended over a while."""
LAPSES_OVER_US = 60 * SECOND_US
"""That while. One broken link can make all awards that are under way come too late."""
HOLD_LEAST_US = 5 * SECOND_US
"""The shortest time that room is held for a peer that lets offers lapse."""
_MOST_OVER = 2.0
_BROKEN = frozenset({AwayEnd.PREEMPTED, AwayEnd.RECLAIMED})
BEGUN = frozenset({*_BROKEN, AwayEnd.COMPLETED, AwayEnd.FAILED})
"""The ends of awards that began and were not cancelled."""
_WHOLE = 100


class PreemptedShare(NamedTuple):
    """A number of awards `lost`, `of` how many, and the 95 % interval of that share."""

    lost: int
    of: int
    low: float
    high: float


class HostedUse(NamedTuple):
    """The room of a peer at a cloud here now: attempts with held room, those that run, and the cores of both.

    `open_cores`: those of all open nodes; `data_bytes`: the inputs and outputs of all these attempts.
    """

    holding: int
    running: int
    cores: int
    open_cores: int
    data_bytes: int = 0

    def limit(self, cores_share: int) -> int:
        """Return how many cores it may have, of a share in hundredths."""
        return self.open_cores * cores_share // _WHOLE


def hosted_use(cloud: Cloud, origin: str) -> HostedUse:
    """Return what a peer has at a cloud now."""
    host = cloud.jobs.host
    own = [key for key in host.open_attempts() if key.origin == origin]
    holding = sum(host.word_on(key) is not Word.RUNNING for key in own)
    rooms = [cloud.jobs.held[key] for key in own]
    cores = sum(one.count * cloud.flavors[one.flavor].resources.cores for one in rooms)
    every = sum(node.capacity.cores for node in cloud.nodes_in_order() if node.status is NodeStatus.OPEN)
    return HostedUse(holding, len(own) - holding, cores, every, sum(one.data_bytes for one in rooms))


def broken(fates: Sequence[AwardFate]) -> str | None:
    """Return why a peer whose awards ended so, in the order of time, is to be offered no more; None: it is not.

    It is if even the lower end of the interval of what it preempted, or was never heard of again, is above twice what
    it promised, or if it did not honour its last awards.
    """
    last = fates[-MOST_LAPSED:]
    over_us = last[-1].at_us - last[0].at_us if last else 0
    if len(last) == MOST_LAPSED and over_us >= LAPSES_OVER_US and all(one.end == LAPSED for one in last):
        return f"it did not honour its last {MOST_LAPSED} awards"
    judged = [one for one in fates if one.promised is not None and one.end in BEGUN]
    if len(judged) < LEAST_AWARDS:
        return None
    lost = sum(one.end in _BROKEN for one in judged)
    promised = sum(one.promised or 0.0 for one in judged) / len(judged)
    low, _ = exact_interval(lost, len(judged))
    if low <= _MOST_OVER * promised:
        return None
    return f"of {len(judged)} awards it preempted or lost {lost}, and had promised {promised:.3g} of them at most"


def decide_pauses(cloud: Cloud, peers: Sequence[Peer], at_us: int) -> list[PeerPaused | PeerResumed]:
    """Return what the log of a cloud does not tell yet: which of the peers that it knows are paused, and by whom."""
    found: list[PeerPaused | PeerResumed] = []
    for peer in peers:
        told = cloud.jobs.standings.get(peer.name)
        if told is None or told.paused == peer.paused_by:
            continue
        if peer.paused_by is None:
            found.append(PeerResumed(at_us=at_us, peer=peer.name))
        else:
            found.append(PeerPaused(at_us=at_us, peer=peer.name, reason=peer.paused_by, why=peer.paused_because))
    return found


def preempted(standing: PeerTally) -> PreemptedShare:
    """Return how many awards were preempted, of how many that began and have ended."""
    lost, of = standing.ends(AwayEnd.PREEMPTED), sum(standing.ends(end) for end in BEGUN)
    return PreemptedShare(lost, of, *exact_interval(lost, of))


def hold_granted_us(standing: PeerTally | None, asked_us: int) -> int:
    """Return for how long room is held for a peer's offer: the shorter, the more of its held room was never awarded."""
    if standing is None or standing.words(Word.HELD) < LEAST_AWARDS:
        return asked_us
    kept = 1.0 - standing.words(Word.EXPIRED) / standing.words(Word.HELD)
    return min(asked_us, max(HOLD_LEAST_US, round(asked_us * kept)))
