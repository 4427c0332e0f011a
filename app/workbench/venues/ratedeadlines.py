"""Jobs with deadlines where nothing is known but a provider's bands: planned by rates, stepped through the record.

No price and no lifetime is seen by the plan: only the band of each region, as Amazon's advisor would have told it of
the first half of the record. The plan and the rule that is stepped are those of the service.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from app.domain.times import HOUR_US, SECOND_US
from app.venues.rules.assign import PlanLimits
from app.venues.rules.jobsteps import JobMoveKind, JobPolicy, advised_move
from app.venues.rules.planmaking import PlanQuestion, make_plan
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanPool, SurvivalSource, curve_of_rate
from app.venues.rules.planoptions import terms_of
from app.venues.rules.rates import BAND_CENTRES, band_of
from app.venues.rules.types import MachineType
from app.workbench.venues.availability import Availability

_SAVED_EVERY_US = 60.0 * SECOND_US
"""Work that is done is kept: checkpoints take no time, one a minute."""
_PROBABILITY = 0.95


@dataclass(frozen=True, slots=True)
class RatedTerms:
    """Hours of work and of time; the price on demand over that of a spot machine; hours of a launch."""

    case: tuple[float, float]
    on_demand: float
    changeover_h: float


@dataclass(frozen=True, slots=True)
class RatedEnd:
    """Hours on spot machines and on demand, launches, and the hours that were left until the deadline."""

    spot_h: float
    fixed_h: float
    launches: int
    left_h: float


def bands_of(records: Availability) -> Mapping[str, int]:
    """Return the band of each region: the share of the machines of the record's first half that it took back.

    A machine begins whenever one can be had again. The name of a zone is its file's up to the first underscore, the
    region's is that without its last letter.
    """
    begun, lost = defaultdict[str, int](int), defaultdict[str, int](int)
    for region, row in zip(regions_of(records), records.had[:, : records.had.shape[1] // 2], strict=True):
        changes = np.diff(row.astype(np.int8))
        begun[region] += int((changes > 0).sum()) + int(row[0])
        lost[region] += int((changes < 0).sum())
    return {region: band_of(lost[region] / max(count, 1)) for region, count in begun.items()}


def regions_of(records: Availability) -> list[str]:
    """Return the region of each zone."""
    return [zone.partition("_")[0][:-1] for zone in records.zones]


def rated_policy(records: Availability, terms: RatedTerms) -> tuple[JobPolicy, list[int]]:
    """Return the policy that a plan tells of the bands alone, and the zones of its ways."""
    bands, launch_us = bands_of(records), round(terms.changeover_h * HOUR_US)
    machine = MachineType(inf, inf, terms.on_demand)
    pools = [
        PlanPool(zone, machine, SurvivalSource.PROVIDER_RATE, steady=1.0, curve=curve_of_rate(BAND_CENTRES[bands[of]]))
        for zone, of in zip(records.zones, regions_of(records), strict=True)
    ]
    work_h, over = terms.case
    times = CheckpointTimes(0, 0, _SAVED_EVERY_US)
    job = PlanJob(
        "job", round(work_h * HOUR_US), 0.0, 0.0, round(work_h * over * HOUR_US), _PROBABILITY, checkpoint=times
    )
    [planned] = make_plan(PlanQuestion([job], PlanLimits(), launch_us, 0, HOUR_US), pools).jobs
    on_demand = terms_of(job, planned.fixed, 0)[0].on_demand
    return JobPolicy(tuple(one.times for one in planned.ways), on_demand), [one.pool for one in planned.ways]


def rated_run(
    records: Availability, start: int, terms: RatedTerms, policy: JobPolicy, zones: Sequence[int]
) -> RatedEnd:
    """Return what comes of a job that begins at a tick and does what it is advised."""
    tick_us, begin_us = records.tick_s * SECOND_US, start * records.tick_s * SECOND_US
    end_us, now_us = begin_us + terms.case[0] * terms.case[1] * HOUR_US, begin_us
    saved, spot_us, fixed_us, launches = 0.0, 0.0, 0.0, 0

    def is_there(zone: int, tick: int) -> bool:
        return tick < records.had.shape[1] and bool(records.had[zone, tick])

    while saved < 1.0 - 1e-9:
        tick = int((now_us + 1.0) // tick_us)
        move = advised_move(policy, end_us - now_us, saved, [is_there(zone, tick) for zone in zones])
        if move.kind is JobMoveKind.WAIT:
            now_us = min((tick + 1) * tick_us, now_us + move.at_most_us)
            continue
        launches += 1
        if move.kind is JobMoveKind.ON_DEMAND:
            fixed_us, now_us, saved = fixed_us + move.at_most_us, now_us + move.at_most_us, 1.0
            continue
        lost_us, until_us = tick * tick_us, now_us + move.at_most_us
        while lost_us < until_us and is_there(zones[move.way], int((lost_us + 1.0) // tick_us)):
            lost_us += tick_us
        is_lost = lost_us < until_us
        ran_us = min(lost_us, until_us) - now_us
        way = policy.ways[move.way]
        worked_us = max(ran_us - way.launch_us, 0.0) // way.every_us * way.every_us
        saved = saved + worked_us / way.run_us if is_lost else move.saved
        spot_us, now_us = spot_us + ran_us, now_us + ran_us
    return RatedEnd(spot_us / HOUR_US, fixed_us / HOUR_US, launches, (end_us - now_us) / HOUR_US)
