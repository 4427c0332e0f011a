"""A warm-up leaves nothing to compile: for the tables of a worker, and for quotes and plans over venues."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import app.engine
import app.forecast
import app.venues.rules
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import EvictionPolicy, Forecast, Policy, Resources
from app.forecast.compute import Forecaster
from app.forecasts.recompute import warm_up
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.venues.rules.assign import PlanLimits
from app.venues.rules.drawing import PricedPools
from app.venues.rules.history import PriceSteps
from app.venues.rules.planmaking import PlanQuestion, make_plan
from app.venues.rules.planned import CheckpointTimes, PlanJob, PlanPool, SurvivalSource, curve_of_rate
from app.venues.rules.quotes import learned_quote, pool_quote
from app.venues.rules.training import train
from app.venues.rules.types import MachineType
from app.venues.rules.warming import warm_up as warm_up_venues
from app.workbench.import_formats.files import read_past
from app.workbench.synthesis import synthesize
from app.workbench.workload import write_trace


def modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            yield importlib.import_module(f"{package.__name__}.{module.name}")


def compiled(*packages: ModuleType) -> dict[str, int]:
    """Return how many versions of every kernel of some packages are compiled."""
    return {
        f"{module.__name__}.{name}": len(value.signatures)
        for module in modules(*packages)
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


def test_nothing_is_left_to_compile(tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = tmp_path_factory.mktemp("trace") / "trace.csv"
    with trace.open("w") as file:
        write_trace(synthesize(days=2, mean_utilisation=8, cores=1, seed=2), file)
    with Scratch() as scratch:
        past = Past(scratch, [str(trace)] * 2, Wishes((Resources(4, 8),) * 3))
        read_past(past, [trace], [trace])
        recorded = list(PastDecider(past, past.finish(), Policy(), 0).events())
    warm_up()
    before = compiled(app.engine, app.forecast)
    for policy in (
        Policy(sample_count=500),
        Policy(sample_count=500, history_window_us=DAY_US, eviction_policy=EvictionPolicy.YJF_GLOBAL),
    ):
        forecaster = Forecaster(policy, set(Forecast))
        forecaster.extend(recorded)
        table = forecaster.publish(2 * DAY_US, 1, len(recorded))
        assert table.lifetime_us("c1", 3, 0.1) is not None
    assert compiled(app.engine, app.forecast) == before


def test_no_quote_and_no_plan_waits_for_the_compiler() -> None:
    warm_up_venues()
    before = compiled(app.venues.rules)
    draw, now_us = np.random.default_rng(0), 40 * DAY_US
    at_us = np.sort(draw.choice(now_us, 4_000, replace=False)).astype(np.int64)
    steps = [PriceSteps(at_us, draw.uniform(0.02, 0.3, 4_000), now_us) for _ in range(3)]
    machine = MachineType(14.0, 7.5, 0.21)
    pools = [PlanPool(f"zone {at}", machine, SurvivalSource.PRICE_CROSSING, one) for at, one in enumerate(steps)]
    rated = PlanPool("rated", machine, SurvivalSource.PROVIDER_RATE, steady=0.1, curve=curve_of_rate(0.1))
    jobs = [
        PlanJob("kept", 5 * HOUR_US, 14.0, 7.5, now_us + 12 * HOUR_US, 0.9, checkpoint=CheckpointTimes(60, 60)),
        PlanJob("sold", 5 * HOUR_US, 14.0, 7.5, None, 0.5, value=3.0),
        PlanJob("bare", 5 * HOUR_US, 14.0, 7.5, now_us + 9 * HOUR_US, 0.9),
    ]
    for asked in (pools[:1], [*pools, rated]):
        assert make_plan(PlanQuestion(jobs, PlanLimits(), 0, now_us, now_us), asked).jobs
    assert pool_quote(steps[0], now_us, now_us, 6 * HOUR_US, 0.9, 8).bid is not None
    trained = train(PricedPools(steps, [0.21] * 3, 20 * DAY_US), now_us)
    assert trained is not None
    assert learned_quote(PricedPools(steps[:1], [0.21], 40 * DAY_US), now_us, HOUR_US, 0.9, 8, trained) is not None
    assert compiled(app.venues.rules) == before
