"""Gathers the present facts of every cloud.

A cloud that does not answer in time is named, and the facts of the others are returned without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from app.domain.budgets import BudgetUnit
from app.domain.errors import LogNewer
from app.domain.strata import stratum_names
from app.domain.times import SECOND_US
from app.domain.values import Clock, Market, NodeStatus
from app.engine.cloud import Cloud, OwnerAccount
from app.engine.cluster import NO_NODE
from app.judging.attainment import Attainment
from app.judging.intervals import exact_interval
from app.judging.outcomes import Outcomes, SectionStanding, largest
from app.observing.facts import ADMINS, OTHER, OTHERS, ClassFacts, CloudFacts, OwnerFacts, StandingFacts
from app.observing.store import Observation, Observations
from app.observing.truths import KeptTruths
from app.platform.asked import CommonTurns
from app.platform.clock import ServerClock
from app.scheduling.owners import OwnersMoment, OwnerStanding
from app.scheduling.scheduler import Attainments, Scheduler
from app.scheduling.slots import slots_of

logger = logging.getLogger(__name__)
T = TypeVar("T")
CLASSES_MAX = 20
"""A caller may ask for any eviction probability, and each is a class: this many are told one by one."""
FLAVORS_MAX = 20
"""So many flavors, those with most admissions, are told one by one."""
OWNERS_MAX = 10
"""So many owners, those whose running spot instances have most cores, are told one by one."""
ANSWER_S = 2.0
"""Each cloud is waited for this long, here and by the pages that show many."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SeenClouds:
    """The clouds that answered, by name, and the names of those that did not."""

    clouds: tuple[CloudFacts, ...] = ()
    silent: tuple[str, ...] = ()


class CloudWatch:
    """Reads the state of all clouds as of the ends of their logs."""

    def __init__(
        self, scheduler: Scheduler, observations: Observations, truths: KeptTruths, clock: ServerClock
    ) -> None:
        self._scheduler = scheduler
        self._observations = observations
        self._truths = truths
        self._clock = clock
        self._places = CommonTurns(_AT_ONCE)

    async def clouds(self) -> SeenClouds:
        """Return the facts of every cloud by name."""
        found = await self._observations.all()
        looked = await asyncio.gather(*(self._look(one) for one in found))
        silent = [one.cloud for one, facts in zip(found, looked, strict=True) if facts is None]
        return SeenClouds(tuple(facts for facts in looked if facts is not None), tuple(silent))

    async def _look(self, found: Observation) -> CloudFacts | None:
        """Return the facts of one cloud; None if they cannot be read in time."""
        async with self._places.taken():
            return await in_time(found.cloud, self._facts(found))

    async def _facts(self, found: Observation) -> CloudFacts:
        standing = await self._scheduler.attainments(found.cloud)
        facts = facts_of(found, standing, self._clock.now_us())
        owners = await OwnersMoment.of(standing.cloud, standing.at_us)
        return replace(
            facts,
            slots=await slots_of(standing.cloud, [*standing.cloud.flavors]),
            owner_count=owners.named,
            owners=await largest_owners(owners),
            estimates=self._truths.of(found.cloud),
        )


async def in_time(cloud: str, asked: Coroutine[Any, Any, T]) -> T | None:
    """Await one cloud's part of a question to many; return None if it fails or takes too long."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asked
    except LogNewer:
        return None  # the store has said so, and readiness does
    except TimeoutError:
        logger.warning("a cloud did not answer in time", extra={"cloud": cloud, "waited_s": ANSWER_S})
    except Exception:  # one cloud's fault must not hide the others
        logger.exception("a cloud could not be read", extra={"cloud": cloud})
    return None


def facts_of(found: Observation, standing: Attainments, server_us: int) -> CloudFacts:
    """Join what the state and the database say of a cloud, but for its owners, the available slots
    and the verdicts on its estimates.
    """
    cloud, present_us = standing.cloud, standing.at_us
    policy, counts = cloud.policy, cloud.counts
    classes, capacity = _classes(standing.classes, policy.strata_us), _capacity(cloud)
    running, used = _running(cloud)
    return CloudFacts(
        name=found.cloud,
        log_events=cloud.seq,
        log_ahead_s=None if policy.clock is Clock.EXTERNAL else max(0, cloud.at_us - server_us) / SECOND_US,
        requested={Market.ON_DEMAND: counts.on_demand_requested, Market.SPOT: counts.spot_requested},
        admitted={Market.ON_DEMAND: counts.on_demand_admitted, Market.SPOT: counts.spot_admitted},
        evicted=counts.spot_evicted,
        drilled=counts.spot_drilled,
        running=running,
        at_risk=len(cloud.at_risk),
        wanting={"open": len(cloud.wants) - len(cloud.told), "told": len(cloud.told)},
        handovers=_handovers(cloud),
        classes=classes,
        strata=_strata(standing.outcomes, {one.name for one in classes}),
        flavors=[_standing("", one) for one in largest(standing.outcomes.flavors, FLAVORS_MAX, OTHER)],
        owner_count=0,
        owners=(),
        estimates=(),
        nodes={status: len(cores) for status, cores in capacity.items()},
        capacity_cores={status: sum(cores) for status, cores in capacity.items()},
        used_cores=used,
        slots={},
        epoch=found.epoch,
        table_age_s=None if found.epoch_us is None else max(0, present_us - found.epoch_us) / SECOND_US,
        table_max_age_s=policy.table_max_age_us / SECOND_US,
        table_computing_s=found.wall_s,
        runs={"pending": found.pending, "running": found.running, "failed": found.failed},
        run_waiting_s=found.waiting_s,
        webhooks={"active": found.webhooks - found.paused, "paused": found.paused},
        dead_letters=found.dead_letters,
        snapshot_lag_events=max(0, cloud.seq - found.snapshot_seq),
    )


def _classes(attainment: Sequence[Attainment], boundaries_us: Sequence[int]) -> list[ClassFacts]:
    """Return the largest classes one by one, by rising promise, and all others as one."""
    ranked = sorted(attainment, key=lambda one: (-one.admitted, one.promised))
    names = stratum_names(boundaries_us)
    told = [
        replace(
            _class(str(one.promised), [one]),
            books={name: book.left for name, book in zip(names, one.books, strict=False)},
        )
        for one in sorted(ranked[:CLASSES_MAX], key=lambda one: one.promised)
    ]
    return [*told, _class(OTHER, ranked[CLASSES_MAX:])] if ranked[CLASSES_MAX:] else told


def _class(name: str, parts: Sequence[Attainment]) -> ClassFacts:
    admitted, running = sum(part.admitted for part in parts), sum(part.running for part in parts)
    evicted = sum(part.evicted for part in parts)
    mean = sum(part.promised * part.admitted for part in parts) / admitted if admitted else parts[0].promised
    low, high = exact_interval(evicted, admitted)
    promised = parts[0].promised if len(parts) == 1 else mean
    unit, left = parts[0].unit, sum(part.left for part in parts)
    by_instances = left if unit is BudgetUnit.INSTANCES else mean * admitted - evicted
    return ClassFacts(name, promised, admitted, running, evicted, low, high, by_instances, left, unit)


def _strata(outcomes: Outcomes, classes: Container[str]) -> list[StandingFacts]:
    """Return the strata with admissions of the classes that are told one by one."""
    return [
        _standing(str(promised), one)
        for promised, strata in outcomes.strata.items()
        for one in strata
        if one.counts.admitted and str(promised) in classes
    ]


def _standing(of_class: str, one: SectionStanding) -> StandingFacts:
    counts = one.counts
    return StandingFacts(
        of_class,
        one.section.name,
        one.promised,
        counts.admitted,
        counts.evicted,
        one.judgement.low,
        counts.core_us / SECOND_US,
        counts.lost_core_us / SECOND_US,
        counts.overran,
        counts.overrun_evicted,
    )


async def largest_owners(owners: OwnersMoment) -> list[OwnerFacts]:
    """Return the owners with most cores one by one, the largest first, and all others as one."""
    told = [owners.standing(name) for name in await owners.largest(OWNERS_MAX)]
    facts = [_owner(one.name or ADMINS, one) for one in told]
    return [*facts, _other_owners(owners, await owners.total(), facts)] if len(owners.names) > OWNERS_MAX else facts


def _owner(name: str, one: OwnerStanding) -> OwnerFacts:
    account = one.account
    return OwnerFacts(
        name,
        running=account.running,
        cores=account.cores,
        overrunning_cores=one.overrunning_cores,
        quota_cores=one.quota.cores,
        admitted=account.admitted,
        evicted=account.evicted,
        overran=one.overran,
    )


def _other_owners(owners: OwnersMoment, total: OwnerAccount, told: Sequence[OwnerFacts]) -> OwnerFacts:
    """Return the sum of all owners without those that are told one by one."""
    overrunning, overrunning_cores = owners.overrunning
    return OwnerFacts(
        OTHERS,
        running=total.running - sum(one.running for one in told),
        cores=total.cores - sum(one.cores for one in told),
        overrunning_cores=overrunning_cores - sum(one.overrunning_cores for one in told),
        quota_cores=None,
        admitted=total.admitted - sum(one.admitted for one in told),
        evicted=total.evicted - sum(one.evicted for one in told),
        overran=total.overran + overrunning - sum(one.overran for one in told),
    )


def _handovers(cloud: Cloud) -> dict[str, int]:
    """Count unconfirmed evictions, by whether a worker has reported them as overdue."""
    overdue = sum(one.is_overdue for one in cloud.handovers.values())
    return {"pending": len(cloud.handovers) - overdue, "overdue": overdue}


def _capacity(cloud: Cloud) -> dict[str, list[int]]:
    """Return the cores of each node, by status."""
    cores: dict[str, list[int]] = {NodeStatus.OPEN: [], NodeStatus.DRAINED: []}
    for node in cloud.nodes.values():
        cores[node.status].append(node.capacity.cores)
    return cores


def _running(cloud: Cloud) -> tuple[dict[str, int], dict[str, int]]:
    """Count running instances and their cores, by market."""
    cluster = cloud.cluster
    runs = cluster.node_of != NO_NODE
    counts, cores = {}, {}
    for market in Market:
        rows = runs & (cluster.is_spot == (market is Market.SPOT))
        counts[market.value] = int(np.count_nonzero(rows))
        cores[market.value] = int(cluster.demand[rows, 0].sum())
    return counts, cores
