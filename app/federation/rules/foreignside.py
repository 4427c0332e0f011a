"""Jobs of peers at their host: whether room is held, whether an award finds it still, and when both are over.

Held room is a spot instance that was promised nothing: it counts in no class, and whoever evicts takes it before all
others. An award gives it up and starts the job as a group of spot instances, decided like any such start by the
forecast and the budgets of that moment. The rules are those of `engine/jobs/hostside.py`, whose state is part of the
folded log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.admission.decide import accepted, decide_start
from app.admission.limits import MOST_CLASSES, is_class_too_many, is_full
from app.admission.quote import Quotes
from app.domain.errors import OfferConflict, TenureError
from app.domain.events import (
    Event,
    ForeignJobAdmitted,
    ForeignJobEnded,
    ForeignJobStaging,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    RoomHeld,
)
from app.domain.jobs import AttemptKey, DataFault, LinkRate, Word
from app.domain.requests import StartRequest
from app.domain.times import SECOND_US
from app.domain.values import Basis, Guarantee, Market
from app.engine.cloud import Cloud, held_name, run_name
from app.engine.jobs import hostside
from app.engine.jobs.attempts import LeaseTerms
from app.engine.jobs.hostside import HostEvent
from app.federation.rules.links import LINK_SLOW
from app.federation.rules.standings import hold_granted_us, hosted_use

QUOTA = "quota_exceeded"
PAUSED = "peer_paused"
NO_STORE = "no_store"
ID_TAKEN = "id_taken"
AWARDED_BEFORE = "awarded_before"
OUT_OF_BOUNDS = "out_of_bounds"
_CLASSES_OF_ITS_OWN = MOST_CLASSES // 2
"""So many eviction probabilities are left to the users of the cloud: peers found no class beyond the others."""


@dataclass(frozen=True, slots=True)
class PeerQuota:
    """The most that a peer may have at a host.

    `offers`: attempts whose room is held; `cores_share`: of the cores of open nodes, in hundredths, that its held and
    running jobs have together; `count`, `lifetime_us`: of one job; `data_bytes`: inputs and outputs of all of its jobs
    here that have not ended.
    """

    offers: int = 20
    cores_share: int = 10
    count: int = 256
    lifetime_us: int = 30 * 24 * 3600 * SECOND_US
    data_bytes: int = 100 * 10**9


@dataclass(frozen=True, slots=True)
class ForeignAsk:
    """An offer: a group of instances of a flavor of this cloud, for at most a lifetime.

    Its inputs have `stage_us` to come; 0: there are none. `data_bytes`: those of inputs and outputs together.
    `has_store`: there are stores at both ends. `is_slow`: the inputs would not come in the time that the origin gives,
    by what is known of the `link`.
    """

    key: AttemptKey
    flavor: str
    count: int
    lifetime_us: int
    eviction_probability: float | None
    hold_us: int
    stage_us: int = 0
    data_bytes: int = 0
    has_store: bool = True
    is_slow: bool = False
    link: LinkRate | None = None

    @property
    def held_id(self) -> str:
        """The id of the instance that stands for the held room."""
        return held_name(self.key)

    @property
    def run_id(self) -> str:
        """The id of the instance that runs."""
        return run_name(self.key)


def promised_to(cloud: Cloud, key: AttemptKey) -> float | None:
    """Return the largest probability of preemption that the room held for an attempt comes with; None: no promise."""
    held = cloud.jobs.held.get(key)
    if held is None or cloud.policy.guarantee is Guarantee.NONE:
        return None
    return held.eviction_probability or cloud.policy.eviction_probability


def word_told(cloud: Cloud, key: AttemptKey, at_us: int) -> Word:
    """Return the word on an attempt. One that was evicted runs as long as its controller may let it run."""
    word, known = cloud.jobs.host.word_on(key), cloud.jobs.host.attempts.get(key)
    leaves = word is Word.PREEMPTED and run_name(key) in cloud.handovers
    return Word.RUNNING if leaves and known is not None and at_us < known.ends_us else word


def decide_offer(
    cloud: Cloud, ask: ForeignAsk, quota: PeerQuota | None, quotes: Quotes | None, at_us: int
) -> Sequence[Event]:
    """Hold room for an attempt that was not heard of before, or refuse it. `quota` None: the peer is paused.

    Raises OfferConflict if the same attempt was offered with another body.
    """
    held = cloud.jobs.held.get(ask.key)
    if held is not None and not _is_same(held, ask):
        raise OfferConflict(f"attempt {ask.key.attempt} of {ask.key.job!r} was offered before with another body")
    ask = replace(ask, hold_us=hold_granted_us(cloud.jobs.standings.get(ask.key.origin), ask.hold_us))
    terms = LeaseTerms(ask.hold_us, ask.stage_us + ask.lifetime_us, 0)
    rule = cloud.jobs.host.decide_offer(ask.key, terms, at_us, is_admitted=True)
    if not rule or not isinstance(last := rule[-1], hostside.AttemptHeld):  # it was heard of before
        return _ends(cloud, rule, at_us)
    events = _ends(cloud, rule[:-1], at_us)
    with cloud.tried():
        for event in events:
            cloud.apply(event)
        reason, nodes = _room(cloud, ask, quota, quotes, at_us)
        if reason is None:
            return [*events, *_holding(cloud, ask, last, nodes, at_us)]
    if reason in {QUOTA, PAUSED}:  # so many may be refused for these that they are not written down
        return events
    refused = ForeignJobEnded(at_us=at_us, **_fields(ask.key), word=Word.REFUSED, reason=reason, link=ask.link)
    return [*events, refused]


def decide_award(cloud: Cloud, key: AttemptKey, quotes: Quotes | None, at_us: int) -> Sequence[Event]:
    """Start the job in its held room, if it is held still and the promise can be made.

    One with inputs keeps its room until they are here.
    """
    room = cloud.jobs.held.get(key)
    rule = cloud.jobs.host.decide_award(key, at_us, 0 if room is None else room.stage_us)
    match rule:
        case [hostside.AttemptStaging(_, until_us)]:
            return [ForeignJobStaging(at_us=at_us, **_fields(key), until_us=until_us)]
        case [hostside.ForeignAdmitted()]:
            return _started(cloud, key, quotes, at_us)
    return _ends(cloud, rule, at_us)


def decide_staged(cloud: Cloud, key: AttemptKey, quotes: Quotes | None, at_us: int) -> Sequence[Event]:
    """Start a job whose inputs are here, if they came in time and the promise can be made now."""
    return _started(cloud, key, quotes, at_us) if cloud.jobs.host.decide_staged(key, at_us) else []


def decide_unstaged(cloud: Cloud, key: AttemptKey, fault: DataFault, at_us: int) -> Sequence[Event]:
    """End an attempt whose inputs cannot be had."""
    if cloud.jobs.host.word_on(key) is not Word.STAGING:
        return []
    return _ends(cloud, cloud.jobs.host.decide_end(key, Word.FAILED), at_us, fault)


def _started(cloud: Cloud, key: AttemptKey, quotes: Quotes | None, at_us: int) -> Sequence[Event]:
    held = cloud.jobs.held[key]
    events: list[Event] = [
        ForeignJobAdmitted(at_us=at_us, **_fields(key), instance_id=run_name(key)),
        InstanceStopped(at_us=at_us, instance_id=held.instance_id),
    ]
    asked = _start(held, run_name(key), key.origin)
    if is_class_too_many(cloud, asked, _CLASSES_OF_ITS_OWN):
        return _ends(cloud, [hostside.ForeignEnded(key, Word.EXPIRED)], at_us, OUT_OF_BOUNDS)
    with cloud.tried():
        for event in events:
            cloud.apply(event)
        started = decide_start(cloud, asked, at_us, quotes)
    if isinstance(started[-1], InstanceRejected):
        return _ends(cloud, [hostside.ForeignEnded(key, Word.EXPIRED)], at_us, started[-1].reason.value)
    return [*events, *started]


def decide_taken(cloud: Cloud, key: AttemptKey, at_us: int) -> Sequence[Event]:
    """End an attempt because somebody has started an instance of the name that it would have."""
    word = cloud.jobs.host.word_on(key)
    if word is Word.UNKNOWN and key not in cloud.jobs.host.attempts:
        rule = cloud.jobs.host.decide_offer(key, LeaseTerms(1, 1, 0), at_us, is_admitted=False)
        return _ends(cloud, rule, at_us, ID_TAKEN)
    if word not in {Word.HELD, Word.STAGING}:
        return []
    return _ends(cloud, [hostside.ForeignEnded(key, Word.EXPIRED)], at_us, ID_TAKEN)


def decide_withdrawal(cloud: Cloud, key: AttemptKey, at_us: int) -> Sequence[Event]:
    """End an attempt at the wish of its origin, also before it was heard of."""
    return _ends(cloud, cloud.jobs.host.decide_cancel(key), at_us)


def decide_due(cloud: Cloud, at_us: int) -> Sequence[Event]:
    """Let held room go whose time is over, and stop what has come to the end of its lease."""
    return _ends(cloud, cloud.jobs.host.decide_time(at_us), at_us)


def _is_same(held: RoomHeld, ask: ForeignAsk) -> bool:
    told = held.flavor, held.count, held.lifetime_us, held.eviction_probability, held.stage_us > 0, held.data_bytes
    asked = ask.flavor, ask.count, ask.lifetime_us, ask.eviction_probability, ask.stage_us > 0, ask.data_bytes
    return told == asked


def _room(
    cloud: Cloud, ask: ForeignAsk, quota: PeerQuota | None, quotes: Quotes | None, at_us: int
) -> tuple[str | None, tuple[str, ...]]:
    """Return why there is no room for the offer, or None with the nodes that it takes."""
    if quota is None:
        return PAUSED, ()
    if ask.flavor not in cloud.flavors:
        return "no_flavor", ()
    if ask.data_bytes + ask.stage_us and not ask.has_store:
        return NO_STORE, ()
    if ask.is_slow:
        return LINK_SLOW, ()
    if _exceeds(cloud, ask, quota):
        return QUOTA, ()
    asked = _asked(ask)
    if is_full(cloud, ask.count) or is_class_too_many(cloud, asked, _CLASSES_OF_ITS_OWN):
        return OUT_OF_BOUNDS, ()
    try:
        decided = decide_start(cloud, asked, at_us, quotes)[-1]
    except TenureError:  # bounds of the policy
        return OUT_OF_BOUNDS, ()
    if isinstance(decided, InstanceStarted) and not decided.victims:
        return None, decided.places
    return decided.reason.value if isinstance(decided, InstanceRejected) else "no_capacity", ()


def _exceeds(cloud: Cloud, ask: ForeignAsk, quota: PeerQuota) -> bool:
    use = hosted_use(cloud, ask.key.origin)
    cores = use.cores + ask.count * cloud.flavors[ask.flavor].resources.cores
    too_large = ask.count > quota.count or ask.lifetime_us > quota.lifetime_us
    too_large = too_large or use.data_bytes + ask.data_bytes > quota.data_bytes
    return too_large or use.holding >= quota.offers or cores > use.limit(quota.cores_share)


def _holding(
    cloud: Cloud, ask: ForeignAsk, rule: hostside.AttemptHeld, nodes: tuple[str, ...], at_us: int
) -> list[Event]:
    room = RoomHeld(
        at_us=at_us,
        **_fields(ask.key),
        instance_id=ask.held_id,
        flavor=ask.flavor,
        count=ask.count,
        lifetime_us=ask.lifetime_us,
        until_us=rule.until_us,
        ends_us=rule.ends_us,
        eviction_probability=ask.eviction_probability,
        stage_us=ask.stage_us,
        data_bytes=ask.data_bytes,
        link=ask.link,
    )
    slots = max(cloud.available_slots(ask.flavor) - ask.count + 1, 0)
    longest_us = ask.hold_us + ask.stage_us
    asked = StartRequest(ask.held_id, Market.SPOT, ask.flavor, longest_us, owner=ask.key.origin, count=ask.count)
    start = accepted(cloud, asked, at_us, nodes, Basis(slots), ())
    return [room, replace(start, goes_first=True)]


def _asked(ask: ForeignAsk) -> StartRequest:
    return StartRequest(
        ask.run_id,
        Market.SPOT,
        ask.flavor,
        ask.lifetime_us,
        ask.eviction_probability,
        owner=ask.key.origin,
        count=ask.count,
    )


def _start(held: RoomHeld, name: str, owner: str) -> StartRequest:
    return StartRequest(
        name, Market.SPOT, held.flavor, held.lifetime_us, held.eviction_probability, owner=owner, count=held.count
    )


def _ends(cloud: Cloud, rule: Sequence[HostEvent], at_us: int, reason: str | None = None) -> list[Event]:
    """Return the last words, each with the stop of what stood for the attempt."""
    events: list[Event] = []
    for one in rule:
        assert isinstance(one, hostside.ForeignEnded)
        why = reason if one.word in {Word.REFUSED, Word.EXPIRED, Word.FAILED} else None
        if one.word is Word.EXPIRED and cloud.jobs.host.word_on(one.key) is Word.STAGING:
            why = why or DataFault.TOO_LATE
        events.append(ForeignJobEnded(at_us=at_us, **_fields(one.key), word=one.word, reason=why))
        names = run_name(one.key), held_name(one.key)
        there = [name for name in names if cloud.jobs.foreign.get(name) == one.key and name in cloud.running]
        events += [InstanceStopped(at_us=at_us, instance_id=name) for name in there]
    return events


def _fields(key: AttemptKey) -> dict[str, Any]:
    return {"peer": key.origin, "job": key.job, "attempt": key.attempt}
