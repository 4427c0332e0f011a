"""A worker's warm-up leaves nothing to compile for the tables that it computes afterwards."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

import app.engine
import app.forecast
from app.domain.times import DAY_US
from app.domain.values import EvictionPolicy, Forecast, Policy, Resources
from app.forecast.compute import Forecaster
from app.forecasts.recompute import warm_up
from app.importing.decide_past import PastDecider
from app.importing.past import Past, Wishes
from app.importing.store.scratch import Scratch
from app.workbench.import_formats.files import read_past
from app.workbench.synthesis import synthesize
from app.workbench.workload import write_trace


def modules() -> Iterator[ModuleType]:
    for package in (app.engine, app.forecast):
        for module in pkgutil.iter_modules(package.__path__):
            yield importlib.import_module(f"{package.__name__}.{module.name}")


def compiled() -> dict[str, int]:
    """Return how many versions of every kernel are compiled."""
    return {
        f"{module.__name__}.{name}": len(value.signatures)
        for module in modules()
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
    before = compiled()
    for policy in (
        Policy(sample_count=500),
        Policy(sample_count=500, history_window_us=DAY_US, eviction_policy=EvictionPolicy.YJF_GLOBAL),
    ):
        forecaster = Forecaster(policy, set(Forecast))
        forecaster.extend(recorded)
        table = forecaster.publish(2 * DAY_US, 1, len(recorded))
        assert table.lifetime_us("c1", 3, 0.1) is not None
    assert compiled() == before
