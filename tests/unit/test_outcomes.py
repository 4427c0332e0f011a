"""Counts of promises by stratum, flavor and week: equal to plain counts, and undone without a trace."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from oracles.histories import RandomCloud

from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceEvicted,
    InstanceExtended,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    Recorded,
)
from app.domain.strata import STRATA, stratum_of
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Basis, EvictionReason, Guarantee, Market, Policy, Resources
from app.domain.weeks import begin_of_week, week_of
from app.engine.cloud import Cloud, OutcomeCounts, SectionKind
from app.engine.cloud.outcomes import MOST_WEEKS
from app.judging.outcomes import outcomes_now
from app.judging.verdicts import Judged
from app.scheduling.store.snapshots import decode_cloud, encode_cloud

Key = tuple[str, object, object]


def plain(log: list[Recorded], now_us: int) -> dict[Key, list[float]]:
    """Count a log in the plainest way: admitted, evicted, core-microseconds, lost ones, overran, evicted then."""
    starts: dict[str, InstanceStarted] = {}
    lifetimes: dict[str, int] = {}
    cores: dict[str, int] = {}
    ends: dict[str, InstanceStopped | InstanceEvicted] = {}
    for event in (item.event for item in log):
        if isinstance(event, FlavorAdded):
            cores[event.flavor] = event.demand.cores
        elif isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            starts[event.instance_id], lifetimes[event.instance_id] = event, event.lifetime_us or 0
        elif isinstance(event, InstanceExtended):
            lifetimes[event.instance_id] = event.lifetime_us
        elif isinstance(event, InstanceStopped | InstanceEvicted):
            ends[event.instance_id] = event
    found: dict[Key, list[float]] = defaultdict(lambda: [0] * 6)
    for name, start in starts.items():
        promised = start.probability if start.basis is None else start.basis.probability
        if promised is None:
            continue
        end, core_us = ends.get(name), cores[start.flavor] * lifetimes[name]
        late = (now_us if end is None else end.at_us) > start.at_us + lifetimes[name]
        forced = isinstance(end, InstanceEvicted) and end.reason is not EvictionReason.DRILL
        row = [1, forced and not late, core_us, core_us * (forced and not late), late, forced and late]
        for key in (
            ("stratum", stratum_of(lifetimes[name]), promised),
            ("flavor", start.flavor, None),
            ("week", week_of(start.at_us), None),
        ):
            found[key] = [a + b for a, b in zip(found[key], row, strict=True)]
    return dict(found)


def counted(cloud: Cloud, now_us: int) -> dict[Key, list[float]]:
    found: dict[Key, list[float]] = {}
    for section, c in cloud.outcomes_now(now_us)().items():
        key = {
            SectionKind.STRATUM: (section.name, section.promised),
            SectionKind.FLAVOR: (section.name, None),
            SectionKind.WEEK: (section.number, None),
        }[section.kind]
        row = [c.admitted, c.evicted, c.core_us, c.lost_core_us, c.overran, c.overrun_evicted]
        if any(row):
            found[section.kind.value, *key] = row
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_counts_are_the_plain_ones(seed: int) -> None:
    random = Random(seed)
    guarantee = random.choice([*Guarantee])
    world = RandomCloud(random, Policy(guarantee=guarantee, warm_up_us=0))
    world.open()
    for _ in range(150):
        world.step()
    expected = plain(world.log, world.now_us)
    assert counted(world.cloud, world.now_us) == expected
    again = Cloud()
    again.apply_recorded(world.log)
    assert counted(again, world.now_us) == expected
    assert again.digest() == world.cloud.digest()


def opened() -> Cloud:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(eviction_probability=0.1)))
    cloud.apply(NodeAdded(at_us=0, node="n", capacity=Resources(1000)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c2", demand=Resources(2)))
    cloud.commit()
    return cloud


def started(name: str, at_us: int, lifetime_us: int, promised: float = 0.1) -> InstanceStarted:
    basis = Basis(8, 1, promised, 1, 0.05)
    return InstanceStarted(
        at_us=at_us,
        instance_id=name,
        market=Market.SPOT,
        flavor="c2",
        node="n",
        lifetime_us=lifetime_us,
        basis=basis,
    )


def test_what_is_undone_leaves_no_trace_and_a_snapshot_keeps_all() -> None:
    cloud = opened()
    cloud.apply(started("a", 0, HOUR_US // 2))
    cloud.apply(started("b", 0, 3 * HOUR_US))
    cloud.commit()
    before = cloud.digest()
    cloud.apply_run([started(f"r{n}", 8 * DAY_US, 9 * HOUR_US) for n in range(6)])
    cloud.apply_run([InstanceStopped(at_us=9 * DAY_US, instance_id=name) for name in ("a", "r0", "r1", "r2", "r3")])
    cloud.apply(InstanceEvicted(at_us=9 * DAY_US, instance_id="b", reason=EvictionReason.ON_DEMAND_START, cause_seq=1))
    longer = InstanceExtended(
        at_us=9 * DAY_US,
        instance_id="r4",
        lifetime_us=9 * DAY_US,
        former_lifetime_us=9 * HOUR_US,
        deadline_us=17 * DAY_US,
        basis=Basis(8, 1, 0.1, 1, 0.05),
        total_risk=0.06,
    )
    cloud.apply(longer)
    found = outcomes_now(cloud, 9 * DAY_US)()
    assert [(one.section.name, one.counts.admitted) for one in found.strata[0.1]] == list(
        zip(STRATA, (1, 1, 5, 0, 1), strict=True)
    )
    assert [one.counts.overran for one in found.strata[0.1]] == [1, 1, 5, 0, 0]
    assert [one.counts.overrun_evicted for one in found.strata[0.1]] == [0, 1, 0, 0, 0]
    assert decode_cloud(encode_cloud(cloud)).digest() == cloud.digest()
    cloud.rollback()
    assert cloud.digest() == before


def test_weeks_begin_on_monday_and_the_newest_are_kept() -> None:
    assert begin_of_week(week_of(4 * DAY_US)) == 4 * DAY_US, "the fifth of January 1970 was a Monday"
    assert week_of(4 * DAY_US - 1) == week_of(4 * DAY_US) - 1
    cloud = opened()
    for week in range(MOST_WEEKS + 30):
        cloud.apply(started(f"w{week}", begin_of_week(week + 1), HOUR_US))
    found = outcomes_now(cloud, cloud.at_us)().weeks
    assert [one.section.number for one in found] == list(range(31, MOST_WEEKS + 31))
    before = cloud.digest()
    cloud.commit()
    cloud.apply(started("more", cloud.at_us + 7 * DAY_US, HOUR_US))
    cloud.rollback()
    assert cloud.digest() == before
    cloud.apply(InstanceEvicted(at_us=cloud.at_us, instance_id="w0", reason=EvictionReason.DRILL, cause_seq=1))
    assert len(outcomes_now(cloud, cloud.at_us)().weeks) == MOST_WEEKS, "a forgotten week does not come back"


def test_a_stratum_can_be_broken_where_the_class_is_kept() -> None:
    cloud = opened()
    for number in range(400):
        cloud.apply(started(f"s{number}", 0, HOUR_US // 2))
    for number in range(20):
        cloud.apply(started(f"l{number}", 0, 3 * DAY_US))
    for number in range(10):
        lost = InstanceEvicted(
            at_us=DAY_US, instance_id=f"l{number}", reason=EvictionReason.ON_DEMAND_START, cause_seq=1
        )
        cloud.apply(lost)
    found = outcomes_now(cloud, DAY_US)()
    verdicts = [one.judgement.verdict for one in found.strata[0.1]]
    assert verdicts == [Judged.KEPT, Judged.TOO_FEW, Judged.TOO_FEW, Judged.BROKEN, Judged.TOO_FEW]
    (of_flavor,), (of_week,) = found.flavors, found.weeks
    assert (
        of_flavor.counts
        == of_week.counts
        == OutcomeCounts(
            420, 10, pytest.approx(42.0), 2 * (400 * HOUR_US // 2 + 20 * 3 * DAY_US), 10 * 2 * 3 * DAY_US, 400, 0
        )
    )
    assert of_flavor.judgement.verdict is Judged.KEPT
