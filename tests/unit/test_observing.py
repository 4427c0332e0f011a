"""Tests that the facts of a cloud are bounded, whatever its callers ask for."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from app.domain.events import (
    CloudCreated,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    NodeAdded,
)
from app.domain.values import OWNER_PATTERN, Clock, EvictionReason, Market, Policy, Resources, RiskLevel
from app.engine.cloud import NOBODY, Cloud, OutcomeCounts, Overrun, OwnerAccount, Quota, Section, SectionKind
from app.forecasts.rules import Run
from app.judging.attainment import Attainment
from app.judging.outcomes import Outcomes, largest, standing
from app.judging.verdicts import judge_promise
from app.observing.facts import ADMINS, OTHER, OTHERS, CloudFacts, OwnerFacts
from app.observing.metrics import FAMILIES
from app.observing.pages.epochs import needless
from app.observing.service import CLASSES_MAX, OWNERS_MAX, facts_of, largest_owners
from app.observing.store import Observation
from app.scheduling.owners import OwnersMoment, OwnerStanding
from app.scheduling.scheduler import Attainments

FOUND = Observation("north", None, None, None, 0, 0, 0, 0, 0.0, 0, 0, 0)


def attainment(promised: float, admitted: int, evicted: int = 0) -> Attainment:
    return Attainment(promised, admitted, 1, evicted, judge_promise(promised, evicted, admitted), 0.5)


def facts(cloud: Cloud, at_us: int, classes: list[Attainment], server_us: int) -> CloudFacts:
    outcomes = Outcomes({one.promised: [] for one in classes}, [], [])
    return facts_of(FOUND, Attainments(cloud, cloud.policy, cloud.seq, at_us, classes, outcomes), server_us)


def test_callers_who_choose_their_promises_freely_make_no_endless_number_of_series() -> None:
    many = [attainment(number / 1000, admitted=number, evicted=1) for number in range(1, 101)]
    seen = facts(Cloud(), 0, many, 0)
    *told, other = seen.classes
    assert [one.name for one in told] == [str(number / 1000) for number in range(101 - CLASSES_MAX, 101)]
    assert other.name == OTHER
    rest = range(1, 101 - CLASSES_MAX)
    assert (other.admitted, other.running, other.evicted) == (sum(rest), len(rest), len(rest))
    assert other.promised == pytest.approx(sum(number * number / 1000 for number in rest) / sum(rest))
    assert other.left == pytest.approx(sum(one.left for one in many[: len(rest)]))
    samples = [sample for family in FAMILIES for sample in family.of([seen]).samples if "class" in sample.labels]
    assert len({(sample.name, sample.labels["class"]) for sample in samples}) == len(samples) == 8 * (CLASSES_MAX + 1)


def test_few_classes_are_told_each_by_its_own_name() -> None:
    close = [attainment(0.01, 5), attainment(0.010000001, 7)]
    seen = facts(Cloud(), 0, close, 0)
    assert [(one.name, one.promised, one.admitted) for one in seen.classes] == [
        ("0.01", 0.01, 5),
        ("0.010000001", 0.010000001, 7),
    ]


def test_flavors_that_are_too_many_are_told_as_one() -> None:
    counts = [OutcomeCounts(number, 1, number * 0.1, number * 60, 60, 2, 1) for number in range(1, 6)]
    of_flavors = [standing(Section(SectionKind.FLAVOR, f"c{one.admitted}"), one) for one in counts]
    *told, other = largest(of_flavors, 2, OTHER)
    assert [one.section.name for one in told] == ["c4", "c5"]
    assert (other.section.name, other.counts) == (OTHER, OutcomeCounts(6, 3, pytest.approx(0.6), 360, 180, 6, 3))
    assert other.promised == pytest.approx(0.1)
    assert largest(of_flavors, 5, OTHER) == of_flavors


def test_evictions_that_nobody_confirmed_are_told_by_whether_their_time_is_over() -> None:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy(grace_us=9)))
    cloud.apply(NodeAdded(at_us=0, node="node", capacity=Resources(4)))
    cloud.apply(FlavorAdded(at_us=0, flavor="c1", demand=Resources(1)))
    for name in "abcd":
        cloud.apply(
            InstanceStarted(at_us=0, instance_id=name, market=Market.SPOT, flavor="c1", node="node", lifetime_us=100)
        )
    for name, at_us in (("a", 1), ("b", 2), ("c", 3)):
        cloud.apply(
            EvictionScheduled(
                at_us=at_us, instance_id=name, reason=EvictionReason.DRILL, cause_seq=0, deadline_us=at_us + 9
            )
        )
        cloud.apply(InstanceEvicted(at_us=at_us, instance_id=name, reason=EvictionReason.DRILL, cause_seq=0))
    cloud.apply(
        EvictionRisk(at_us=4, instance_id="d", level=RiskLevel.RAISED, probability=0.5, threshold=0.1, epoch=1, slots=1)
    )
    cloud.apply(EvictionOverdue(at_us=10, instance_id="a", deadline_us=10))
    cloud.apply(EvictionConfirmed(at_us=10, instance_id="b"))
    told = {
        (sample.name, sample.labels.get("status")): sample.value
        for family in FAMILIES
        for sample in family.of([facts(cloud, 10, [], 10)]).samples
    }
    assert told["tenure_cloud_handovers", "overdue"] == told["tenure_cloud_handovers", "pending"] == 1
    assert told["tenure_cloud_instances_at_risk", None] == 1


def test_nothing_is_told_of_what_is_not_there() -> None:
    names = {sample.name for family in FAMILIES for sample in family.of([facts(Cloud(), 0, [], 0)]).samples}
    assert not [name for name in names if "_sla_" in name]
    assert not {"tenure_cloud_table_age_seconds", "tenure_cloud_table_epoch"} & names
    assert "tenure_cloud_table_max_age_seconds" in names


@pytest.mark.parametrize(
    ("clock", "server_us", "ahead_s"), [("system", 3, 4e-6), ("system", 9, 0), ("external", 3, None)]
)
def test_a_log_that_is_ahead_of_the_server_is_told(clock: str, server_us: int, ahead_s: float | None) -> None:
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=7, policy=Policy(clock=Clock(clock))))
    assert facts(cloud, 7, [], server_us).log_ahead_s == ahead_s


def test_a_run_that_found_its_table_made_is_told_apart() -> None:
    made = {"cloud_id": 1, "cause": "scheduled", "due_us": None, "status": "succeeded", "attempts": 1, "error": None}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    times = {"created_at": at, "started_at": at, "finished_at": at, "retry_at": None}
    epochs = {5: 2, 4: None, 3: 1, 2: 1, 1: None}
    runs = [Run(id=number, epoch=epoch, number=number, **made, **times) for number, epoch in epochs.items()]
    assert needless(runs) == {3}


def owner(name: str | None, cores: int, quota: int | None = None) -> OwnerStanding:
    account = OwnerAccount(running=1, cores=cores, admitted=10 * cores, evicted=1, overran=2)
    ended, has_own_quota = Overrun(3_600, 60), quota is not None
    return OwnerStanding(name, account, 1, cores // 2, 60, ended, Quota(quota), has_own_quota=has_own_quota)


async def told_of(*standings: OwnerStanding) -> list[OwnerFacts]:
    """Return what is told of these owners, whose accounts and overrunning instances a cloud says it has."""
    names = {one.name or NOBODY: one for one in standings}
    facts = (
        Cloud()
        .facts()
        ._replace(
            owners=[(name, one.account) for name, one in names.items()],
            quotas=[(name, one.quota) for name, one in names.items() if one.has_own_quota],
        )
    )
    cloud = Cloud.of_facts(facts)
    over = {name: (one.overrunning, one.overrunning_cores, one.overrunning_core_us) for name, one in names.items()}
    cloud.overrunning_now = lambda now_us: lambda: over
    return await largest_owners(await OwnersMoment.of(cloud, 0))


@pytest.mark.anyio
async def test_owners_that_are_too_many_are_told_as_one() -> None:
    count = OWNERS_MAX + 5
    *told, others = await told_of(*(owner(f"o{cores:02}", cores) for cores in range(1, count + 1)))
    assert [one.cores for one in told] == [*range(count, 5, -1)]
    assert others == OwnerFacts(OTHERS, 5, 15, 0 + 1 + 1 + 2 + 2, None, 150, 5, 15)
    assert not re.match(OWNER_PATTERN, OTHERS)
    assert not re.match(OWNER_PATTERN, ADMINS)


@pytest.mark.anyio
async def test_few_owners_are_told_each_by_its_own_name_with_its_quota() -> None:
    told = await told_of(owner("batch", 4, 64), owner(None, 9))
    assert [(one.name, one.cores, one.quota_cores) for one in told] == [(ADMINS, 9, None), ("batch", 4, 64)]
    assert await told_of() == []
