"""Compiles what quotes and plans call, before a request needs it."""

from __future__ import annotations

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.assign import PlanLimits
from app.venues.rules.drawing import PricedPools
from app.venues.rules.features import FEATURES
from app.venues.rules.history import PoolName, PriceSteps, venue_of
from app.venues.rules.jobsteps import JobPolicy, WayTimes, advised_move
from app.venues.rules.learned import LearnedSurvival
from app.venues.rules.planmaking import PlanQuestion, make_plan
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanPool, SurvivalSource, curve_of_rate
from app.venues.rules.quotes import learned_quote, pool_quote
from app.venues.rules.training import LEVELS, TrainedSurvival
from app.venues.rules.types import MachineType

_NOW_US = 22 * DAY_US


def warm_up() -> None:
    """Compile every function of a quote and of a plan now, with a pool whose price moves and one of steady price."""
    at_us = np.arange(0, _NOW_US, HOUR_US, dtype=np.int64)
    steps = PriceSteps(at_us, np.where(np.arange(len(at_us)) % 24 == 0, 0.3, 0.1), _NOW_US)
    venue_of({PoolName("p", "r", "z", "t", "s"): (at_us, at_us)})
    count = len(FEATURES)
    model = LearnedSurvival(np.zeros(count), np.ones(count), np.zeros(count + 1))
    trained = TrainedSurvival(model, (0.0,) * len(LEVELS), _NOW_US, 1)
    pool_quote(steps, _NOW_US, _NOW_US, HOUR_US, 0.5, 1)
    learned_quote(PricedPools([steps], [1.0], _NOW_US), _NOW_US, HOUR_US, 0.5, 1, trained)
    machine = MachineType(1.0, 1.0, 1.0)
    pools = [
        PlanPool("priced", machine, SurvivalSource.PRICE_CROSSING, steps),
        PlanPool("steady", machine, SurvivalSource.PROVIDER_RATE, steady=0.1, curve=curve_of_rate(0.1)),
    ]
    job = PlanJob("job", 2 * HOUR_US, 1.0, 1.0, _NOW_US + DAY_US, 0.5, checkpoint=CheckpointTimes(1, 1))
    make_plan(PlanQuestion([job], PlanLimits(), 0, _NOW_US, _NOW_US), pools)
    advised_move(JobPolicy((WayTimes(1.0),), WayTimes(1.0)), 3.0, 0.0, [True])
