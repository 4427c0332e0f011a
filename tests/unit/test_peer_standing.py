"""Promises of a peer against what happened: folded from the log, undone, kept by snapshots; the breaker's rule."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    ForeignJobEnded,
    InstanceStarted,
    InstanceStopped,
    JobAwarded,
    JobDeclined,
    JobEnded,
    JobOffered,
    JobRequested,
    NodeAdded,
    RoomHeld,
)
from app.domain.jobs import AttemptKey, AwayEnd, Federate, Word
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Basis, Guarantee, Market, Policy, Resources
from app.engine.cloud import KEPT_US, Cloud
from app.engine.jobs.standings import LAPSED, MOST_RECENT, AwardFate, PeerTally
from app.federation.rules.standings import HOLD_LEAST_US, LAPSES_OVER_US, broken, hold_granted_us, hosted_use
from app.scheduling.store.snapshots import decode_cloud, encode_cloud

FIRST: list[Event] = [
    CloudCreated(at_us=0, policy=Policy(guarantee=Guarantee.NONE)),
    NodeAdded(at_us=0, node="n", capacity=Resources(8)),
    FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)),
]


def cloud_of(events: list[Event]) -> Cloud:
    cloud = Cloud()
    for event in [*FIRST, *events]:
        cloud.apply(event)
    cloud.commit()
    return cloud


def requested(name: str, at_us: int) -> JobRequested:
    asked: dict[str, Any] = {"flavor": "c1", "count": 2, "lifetime_us": SECOND_US, "federate": Federate.ONLY}
    return JobRequested(at_us=at_us, job=name, peers=("b",), attempts=3, answer_us=1, hold_us=1, margin_us=1, **asked)


def away(name: str, at_us: int = 1) -> list[Event]:
    """A job that was refused once, then awarded and not honoured, then awarded and preempted."""
    at: dict[str, Any] = {"at_us": at_us, "job": name}
    return [
        requested(name, at_us),
        JobOffered(**at, attempt=1, peer="b"),
        JobDeclined(**at, attempt=1, reason="refused", why="no_capacity"),
        JobOffered(**at, attempt=2, peer="b"),
        JobAwarded(**at, attempt=2, reclaim_us=9, eviction_probability=0.05),
        JobDeclined(**at, attempt=2, reason="expired"),
        JobOffered(**at, attempt=3, peer="b"),
        JobAwarded(**at, attempt=3, reclaim_us=9, eviction_probability=0.15),
        JobEnded(**at, attempt=3, end=AwayEnd.PREEMPTED, is_last=True),
    ]


def hosted(job: str, at_us: int = 1) -> list[Event]:
    """Room held for a job of the peer a, until it is stopped."""
    at: dict[str, Any] = {"peer": "a", "job": job, "attempt": 1}
    name = f"a.{job}.1.held"
    held = RoomHeld(
        at_us=at_us, **at, instance_id=name, flavor="c1", count=1, lifetime_us=9, until_us=at_us + 9, ends_us=at_us + 99
    )
    spot = InstanceStarted(
        at_us=at_us,
        instance_id=name,
        market=Market.SPOT,
        flavor="c1",
        node="n",
        lifetime_us=9,
        basis=Basis(8),
        owner="a",
    )
    return [held, spot]


def test_the_log_tells_a_peers_standing() -> None:
    cloud = cloud_of(away("j"))
    found = cloud.jobs.standings["b"]
    assert (found.offered, found.awarded, found.bound) == (3, 2, 2)
    assert found.promised == pytest.approx(0.2)
    assert found.declined == (("no_capacity", 1),)
    assert found.ended == ((LAPSED, 1), ("preempted", 1))
    assert found.recent == (AwardFate(1, LAPSED, 0.05), AwardFate(1, "preempted", 0.15))
    tried = cloud.jobs.by_id["j"].tries
    assert [(one.outcome, one.why, one.eviction_probability) for one in tried] == [
        ("refused", "no_capacity", None),
        ("expired", None, 0.05),
        ("preempted", None, 0.15),
    ]


def test_hosts_count_every_word() -> None:
    cloud = cloud_of([*hosted("x"), InstanceStopped(at_us=2, instance_id="a.x.1.held"), *hosted("y", 3)])
    found = cloud.jobs.standings["a"]
    assert dict(found.hosted) == {"held": 2, "expired": 1}
    assert hosted_use(cloud, "a") == (1, 0, 1, 8, 0)
    assert hosted_use(cloud, "b")[:3] == (0, 0, 0)


def test_what_is_undone_leaves_no_trace_and_snapshots_hold_it() -> None:
    cloud = cloud_of([*away("j"), *hosted("x"), InstanceStopped(at_us=2, instance_id="a.x.1.held")])
    before = cloud.digest()
    late = 2 + KEPT_US + 1
    with cloud.tried():
        for event in [*away("k", late), *hosted("z", late)]:
            cloud.apply(event)
        assert [*cloud.jobs.by_id] == ["k"]
    assert cloud.digest() == before
    assert [*cloud.jobs.by_id] == ["j"]
    read = decode_cloud(encode_cloud(cloud))
    assert read is not None
    assert read.digest() == before
    for one in (cloud, read):
        for event in away("k", late):
            one.apply(event)
        one.commit()
    assert read.digest() == cloud.digest()


def test_what_ended_long_ago_leaves_the_state() -> None:
    key, heard = AttemptKey("a", "x", 1), AttemptKey("a", "unheard", 1)
    told = ForeignJobEnded(at_us=2, peer="a", job="unheard", attempt=1, word=Word.UNKNOWN)
    cloud = cloud_of([*away("j"), *hosted("x"), InstanceStopped(at_us=2, instance_id="a.x.1.held"), told])
    for event in away("k", 2 + KEPT_US):
        cloud.apply(event)
    assert [*cloud.jobs.by_id] == ["k"], "a job that ended at second 1"
    assert cloud.jobs.host.word_on(key) is Word.EXPIRED, "seven days have not passed since its last word"
    for event in hosted("y", 3 + KEPT_US):
        cloud.apply(event)
    cloud.commit()
    assert {cloud.jobs.host.word_on(one) for one in (key, heard)} == {Word.UNKNOWN}
    assert [*cloud.jobs.held] == [AttemptKey("a", "y", 1)]
    assert cloud.jobs.standings["b"].awarded == 4, "what counted still counts"


def test_the_state_stays_small_however_many_jobs_there_were() -> None:
    cloud = cloud_of([])
    for day in range(200):
        for event in [*away(f"j{day}", day * DAY_US), *hosted(f"x{day}", day * DAY_US)]:
            cloud.apply(event)
        cloud.apply(InstanceStopped(at_us=day * DAY_US, instance_id=f"a.x{day}.1.held"))
        cloud.commit()
    assert len(cloud.jobs.by_id) == len(cloud.jobs.host.attempts) == 8
    assert len(cloud.jobs.standings["b"].recent) == MOST_RECENT


def test_words_of_one_peer_beyond_so_many_leave_first_and_no_other_peers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.cloud.jobs.MOST_WORDS", 50)
    rng = random.Random(7)

    def word(peer: str, number: int, at_us: int) -> ForeignJobEnded:
        return ForeignJobEnded(at_us=at_us, peer=peer, job=f"x{number}", attempt=1, word=Word.UNKNOWN)

    cloud = cloud_of([word("b", 0, 1)])
    times = sorted(rng.randrange(2, 300) for _ in range(400))  # many at the same time
    for number, at_us in enumerate(times):
        before = cloud.digest()
        with cloud.tried():
            cloud.apply(word("a", number, at_us))
        assert cloud.digest() == before, "what is tried leaves no trace"
        if number == 300:  # a state that is read back forgets the same ones
            cloud = decoded(cloud)
        cloud.apply(word("a", number, at_us))
        cloud.commit()
    whole = cloud_of([word("b", 0, 1), *(word("a", number, at_us) for number, at_us in enumerate(times))])
    assert cloud.digest() == whole.digest()
    kept = sorted(int(key.job[1:]) for key in cloud.jobs.host.attempts if key.origin == "a")
    cut_us = times[len(times) - 51]
    assert kept == [number for number, at_us in enumerate(times) if at_us > cut_us], "those of one time go together"
    assert 40 < len(kept) <= 50
    assert AttemptKey("b", "x0", 1) in cloud.jobs.host.attempts


def decoded(cloud: Cloud) -> Cloud:
    found = decode_cloud(encode_cloud(cloud))
    assert found is not None
    return found


def fates(end: AwayEnd | str, count: int, promised: float | None = 0.05) -> list[AwardFate]:
    return [AwardFate(1, str(end), promised)] * count


def test_a_peer_is_paused_for_what_chance_does_not_explain() -> None:
    completed = fates(AwayEnd.COMPLETED, 16)
    assert broken([]) is None
    assert broken([*fates(AwayEnd.PREEMPTED, 3), *completed]) is None, "fewer than twenty"
    assert broken([*fates(AwayEnd.PREEMPTED, 5), *completed]) is None, "it may be chance"
    assert "preempted or lost 10" in str(
        broken([*fates(AwayEnd.PREEMPTED, 7), *fates(AwayEnd.RECLAIMED, 3), *completed])
    )
    assert broken([*fates(AwayEnd.PREEMPTED, 10, None), *completed]) is None, "nothing was promised"
    assert broken([*fates(AwayEnd.CANCELLED, 30), *fates(AwayEnd.PREEMPTED, 3)]) is None, "cancelled ones tell nothing"


def test_five_awards_in_a_row_that_were_not_honoured_are_enough() -> None:
    assert broken(fates(LAPSED, 4, None)) is None
    assert broken([*fates(LAPSED, 4), *fates(AwayEnd.COMPLETED, 1), *fates(LAPSED, 4)]) is None
    whole = fates(AwayEnd.COMPLETED, 50)
    assert broken([*whole, *fates(LAPSED, 5)]) is None, "one broken link can make them all too late"
    last = [*fates(LAPSED, 4), AwardFate(1 + LAPSES_OVER_US, LAPSED, None)]
    assert broken([*whole, *last]) == "it did not honour its last 5 awards"
    assert broken([*whole, *fates(LAPSED, 4), AwardFate(LAPSES_OVER_US, LAPSED, None)]) is None


def test_who_lets_offers_lapse_holds_room_for_a_shorter_time() -> None:
    asked = 100 * SECOND_US
    assert hold_granted_us(None, asked) == asked
    assert hold_granted_us(PeerTally("a", hosted=(("expired", 19), ("held", 19))), asked) == asked
    assert hold_granted_us(PeerTally("a", hosted=(("expired", 25), ("held", 100))), asked) == 75 * SECOND_US
    assert hold_granted_us(PeerTally("a", hosted=(("expired", 100), ("held", 100))), asked) == HOLD_LEAST_US
    assert hold_granted_us(PeerTally("a", hosted=(("expired", 100), ("held", 100))), SECOND_US) == SECOND_US
