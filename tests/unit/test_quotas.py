"""An owner's share of what a book has left, and the accounts of owners in the folded state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from oracles.histories import RandomCloud

from app.admission.decide import decide_start
from app.admission.extend import decide_extension
from app.admission.observe import decide_abort
from app.domain.events import (
    CloudCreated,
    ExtensionRejected,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    QuotaRemoved,
    QuotaSet,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import (
    Clock,
    EvictionReason,
    Forecast,
    Guarantee,
    Market,
    Policy,
    QuotaKind,
    QuotaUse,
    Rejection,
    Resources,
)
from app.engine.cloud import NOBODY, Cloud, OwnerAccount

POLICY = Policy(
    guarantee=Guarantee.STRATIFIED,
    eviction_probability=0.5,
    clock=Clock.EXTERNAL,
    clock_step_us=None,
    forecast=Forecast.REPLAY,
    owner_share=0.5,
)


class EvenQuotes:
    """A table that estimates one risk for everything: a fifth, unless another is given."""

    epoch, epoch_us, seq = 1, DAY_US, 1

    def __init__(self, risk: float = 0.2) -> None:
        self.risk = risk

    def lifetime_us(self, flavor: str, slots: int, probability: float) -> int | None:
        return 2 * HOUR_US

    def probability(self, flavor: str, slots: int, lifetime_us: int) -> float | None:
        return self.risk

    def bound(self, flavor: str, slots: int, lifetime_us: int, confidence: float) -> float | None:
        return 0.3

    def seen_from(self, outlooks: object) -> EvenQuotes:
        return self


def make_cloud(policy: Policy = POLICY) -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=policy))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(64)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    return cloud


def start(cloud: Cloud, name: str, owner: str | None, at_us: int = DAY_US, lifetime_us: int = HOUR_US // 2) -> object:
    request = StartRequest(name, Market.SPOT, "c1", lifetime_us, None, at_us, owner)
    (event,) = decide_start(cloud, request, at_us, EvenQuotes())
    cloud.apply(event)
    return event


def test_an_owner_takes_its_share_of_a_book_and_leaves_the_rest() -> None:
    """Of one eviction, the least that counts as left, an owner may take a half: two instances of a fifth each."""
    cloud = make_cloud()
    assert [type(start(cloud, f"a{n}", "a")) for n in range(2)] == [InstanceStarted] * 2
    refused = start(cloud, "a2", "a")
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.QUOTA_EXCEEDED
    use = refused.basis.quota if refused.basis else None
    assert use is not None
    assert (use.kind, use.asked, use.allowed) == (QuotaKind.SHARE, 0.2, 0.5)
    assert use.used == pytest.approx(0.4)
    assert isinstance(start(cloud, "b0", "b"), InstanceStarted)
    assert isinstance(start(cloud, "admin", None), InstanceStarted)
    assert isinstance(start(cloud, "a3", "a", lifetime_us=2 * HOUR_US), InstanceStarted), "another book"
    later = DAY_US + HOUR_US // 4
    assert isinstance(start(cloud, "a4", "a", later), InstanceStarted), "half of the risk is borne"
    cloud.apply(QuotaSet(at_us=later, owner="a", share=1.0))
    assert isinstance(start(cloud, "a5", "a", later), InstanceStarted)


def test_an_extension_takes_of_the_share_too() -> None:
    cloud = make_cloud(replace(POLICY, owner_share=0.3))
    assert isinstance(start(cloud, "a", "a"), InstanceStarted)
    assert isinstance(start(cloud, "b", "b"), InstanceStarted)
    cloud.apply(QuotaSet(at_us=DAY_US, owner="a", share=0.1))
    later = DAY_US + HOUR_US // 4
    (refused,) = decide_extension(cloud, ExtendRequest("a", HOUR_US, later), later, EvenQuotes())
    assert isinstance(refused, ExtensionRejected)
    assert refused.reason is Rejection.QUOTA_EXCEEDED
    (extended,) = decide_extension(cloud, ExtendRequest("b", HOUR_US, later), later, EvenQuotes())
    assert not isinstance(extended, ExtensionRejected)


def test_an_owner_overruns_a_share_of_what_it_ran_and_no_more() -> None:
    """A core-hour is tolerated, and a tenth of the ten hours within lifetimes. Other owners have their own records."""
    cloud = make_cloud(replace(POLICY, guarantee=Guarantee.NONE, overrun_share=0.1))
    begin_us = DAY_US + 10 * HOUR_US
    assert isinstance(start(cloud, "kept", "a", lifetime_us=11 * HOUR_US), InstanceStarted)
    cloud.apply(InstanceStopped(at_us=begin_us, instance_id="kept"))
    assert isinstance(start(cloud, "late", "a", begin_us, HOUR_US), InstanceStarted)
    assert isinstance(start(cloud, "just", "a", begin_us + 3 * HOUR_US, DAY_US), InstanceStarted)
    assert_overran(start(cloud, "more", "a", begin_us + 4 * HOUR_US), 3.0, 2.0)
    assert isinstance(start(cloud, "other", "b", begin_us + 4 * HOUR_US), InstanceStarted)
    assert isinstance(start(cloud, "admin", None, begin_us + 4 * HOUR_US), InstanceStarted)
    cloud.apply(InstanceStopped(at_us=begin_us + 4 * HOUR_US, instance_id="late"))
    assert_overran(start(cloud, "again", "a", begin_us + 4 * HOUR_US), 3.0, 2.1)
    cloud.apply(QuotaSet(at_us=begin_us + 4 * HOUR_US, owner="a", overrun_share=0.5))
    assert isinstance(start(cloud, "helped", "a", begin_us + 4 * HOUR_US, 40 * DAY_US), InstanceStarted)
    cloud.apply(QuotaRemoved(at_us=begin_us + 4 * HOUR_US, owner="a"))
    cloud.apply(InstanceStopped(at_us=begin_us + 4 * HOUR_US, instance_id="just"))
    assert isinstance(start(cloud, "fourth-week", "a", 24 * DAY_US), InstanceRejected)
    assert isinstance(start(cloud, "fifth-week", "a", 25 * DAY_US), InstanceStarted), "four weeks are over"


def assert_overran(refused: object, used: float, allowed: float) -> None:
    assert isinstance(refused, InstanceRejected)
    assert refused.reason is Rejection.OVERRUNNING
    assert refused.basis is not None
    assert refused.basis.quota == QuotaUse(QuotaKind.OVERRAN, used, 0, allowed)


@pytest.mark.parametrize("seed", range(12))
def test_accounts_are_the_sums_of_the_log(seed: int) -> None:
    """However the events are folded: one by one, in runs, or undone and folded again."""
    policy = Policy(guarantee=Guarantee.NONE, displaces_overrunning=seed % 2 == 0, grace_us=5 * (seed % 3))
    world = RandomCloud(Random(seed), policy)
    world.open()
    for _ in range(300):
        world.step()
    expected, starts, lately = dict[str, list[int]](), dict[str, InstanceStarted](), Counter[str]()
    cores, deadlines = {name: one.resources.cores for name, one in world.cloud.flavors.items()}, dict[str, int]()
    for item in world.log:
        event = item.event
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            starts[event.instance_id] = event
            deadlines[event.instance_id] = event.at_us + (event.lifetime_us or 0)
            count(expected, event, [1, event.count * cores[event.flavor], 1, 0, 0, 0, 0])
        elif isinstance(event, InstanceStopped | InstanceEvicted) and event.instance_id in starts:
            begun = starts[event.instance_id]
            size, over = begun.count * cores[begun.flavor], max(event.at_us - deadlines[event.instance_id], 0)
            evicted = isinstance(event, InstanceEvicted) and event.reason is not EvictionReason.DRILL
            more = [-1, -size, 0, evicted and not over, over > 0, size * over, evicted and over > 0]
            count(expected, begun, [int(one) for one in more])
            lately[begun.owner or NOBODY] += size * (event.at_us - begun.at_us)
        elif hasattr(event, "former_lifetime_us") and not isinstance(event, ExtensionRejected):
            deadlines[event.instance_id] = event.deadline_us
    found = {name: OwnerAccount(*sums) for name, sums in expected.items()}
    assert world.cloud.owners == found
    folded = Cloud()
    folded.apply_recorded(world.log)
    assert folded.owners == found
    assert folded.digest() == world.cloud.digest()
    for owner, account in found.items():
        ended = world.cloud.ended_lately(owner, world.now_us)
        known = (lately[owner] - account.overrun_core_us, account.overrun_core_us) if owner else (0, 0)
        assert ended == known, "the histories are shorter than four weeks"
        assert ended == folded.ended_lately(owner, world.now_us)
    over = world.cloud.overrunning_now(world.now_us)()
    running = [one for one in world.cloud.running.values() if one.deadline_us < world.now_us]
    assert sum(count for count, _, _ in over.values()) == len(running)


def count(expected: dict[str, list[int]], start: InstanceStarted, more: list[int]) -> None:
    sums = expected.setdefault(start.owner or NOBODY, [0] * len(more))
    expected[start.owner or NOBODY] = [a + b for a, b in zip(sums, more, strict=True)]


def test_promises_that_differ_in_the_last_digit_share_what_a_book_counts_as_having() -> None:
    """Each had a book that counted as having one eviction left, so an owner took its share of one a hundred times."""
    cloud, events = make_cloud(replace(POLICY, owner_share=0.2)), []
    for number in range(5):
        request = StartRequest(f"a{number}", Market.SPOT, "c1", HOUR_US // 2, 0.5 + number / 1e9, DAY_US, "a")
        (event,) = decide_start(cloud, request, DAY_US, EvenQuotes())
        cloud.apply(event)
        events.append(event)
    assert [type(event) for event in events] == [InstanceStarted, *[InstanceRejected] * 4]
    use = events[1].basis.quota if isinstance(events[1], InstanceRejected) and events[1].basis else None
    assert use is not None
    assert (use.kind, use.used, use.asked) == (QuotaKind.SHARE, 0.0, 0.2)
    assert use.allowed == pytest.approx(0.0), "it uses .2 of the first book, more than its share of that, .1"
    assert isinstance(start(cloud, "other", "a", lifetime_us=2 * HOUR_US), InstanceStarted), "another stratum"


def test_many_promises_give_no_more_than_one() -> None:
    """Each start earns for its own book, so that an owner had 46 starts of a fiftieth where one promise gave 10."""
    admitted = []
    for step in (0.0, 1e-9):
        cloud = make_cloud(replace(POLICY, owner_share=0.2))
        for number in range(60):
            request = StartRequest(f"a{number}", Market.SPOT, "c1", HOUR_US // 2, 0.5 + number * step, DAY_US, "a")
            (event,) = decide_start(cloud, request, DAY_US, EvenQuotes(0.02))
            cloud.apply(event)
        admitted.append(cloud.owners["a"].admitted)
    assert admitted == [10, 10]


def test_what_a_book_has_earned_is_not_taken_for_another_promise() -> None:
    """An owner that uses no more than its share of what the books have left may use as many as it likes."""
    cloud = make_cloud()
    for number in range(5):
        request = StartRequest(f"a{number}", Market.SPOT, "c1", HOUR_US // 2, 0.5 + number / 1e9, DAY_US, "a")
        (event,) = decide_start(cloud, request, DAY_US, EvenQuotes())
        assert isinstance(event, InstanceStarted), (
            "it earns .5 for its book, half of that is its owner's, and it uses .2"
        )
        cloud.apply(event)


def test_an_abort_wipes_out_no_overrunning() -> None:
    """A controller that declares a minute and runs for hours would else say at its end that nothing ever ran."""
    cloud = make_cloud()
    for name in ("late", "never"):
        assert isinstance(start(cloud, name, "a", lifetime_us=HOUR_US), InstanceStarted)
    (never,) = decide_abort(cloud, "never", DAY_US + HOUR_US)
    cloud.apply(never)
    assert cloud.owners["a"].admitted == 1, "one that came to nothing within its lifetime counts nowhere"
    later = DAY_US + 10 * HOUR_US
    (stopped,) = decide_abort(cloud, "late", later)
    cloud.apply(stopped)
    account = cloud.owners["a"]
    assert (account.admitted, account.overran, account.overrun_core_us) == (1, 1, 9 * HOUR_US)
    assert cloud.overrun_lately("a", later).overrun_core_us == 9 * HOUR_US
