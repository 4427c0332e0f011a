"""The backtest of bounds: how often what a survival is said to be at least was kept in the week that followed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from app.domain.times import DAY_US
from app.engine.cluster import Ints
from app.judging.intervals import CONFIDENCE
from app.venues.rules.bounds import DESIGN_EFFECTS, LIFETIMES_US, design_effect, least_survival, windows_of
from app.venues.rules.features import EVERY_US
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.survival import begun_under, highest_within, lattice, prices_at, share_surviving
from app.workbench.venues.setting import BacktestSetting

_WEEK_US = 7 * DAY_US
_LEAST_KNOWN = 0.5
"""A week counts for a pool if so much of it was observed."""


class BoundedWeek(NamedTuple):
    """A pool and a lifetime in a week: what was seen before, what happened, and which bounds covered it."""

    begin_us: int
    said: float
    bounds: tuple[float, ...]
    covered: tuple[bool, ...]


def backtest_bounds(setting: BacktestSetting) -> dict[str, Any]:
    """Return the share of tested weeks in which the survival at the on-demand price was at least its bound.

    The design effect of a week is that of all weeks before it. `distance` is how far the bound lies below what was
    seen. A start counts if its price was at most the bid, since a machine begins only then.
    """
    weeks = _weeks(setting)
    tested, chosen = [week for week in weeks if week.begin_us >= setting.from_us], list[int]()
    for week in tested:
        before = [one.covered for one in weeks if one.begin_us < week.begin_us]
        chosen.append(DESIGN_EFFECTS.index(design_effect(before, CONFIDENCE)))
    if not tested:
        return {"coverage": None, "distance": None, "design_effect": None, "count": 0}
    pairs = list(zip(tested, chosen, strict=True))
    return {
        "coverage": float(np.mean([week.covered[at] for week, at in pairs])),
        "distance": float(np.mean([week.said - week.bounds[at] for week, at in pairs])),
        "design_effect": DESIGN_EFFECTS[chosen[-1]],
        "count": len(tested),
    }


def _weeks(setting: BacktestSetting) -> list[BoundedWeek]:
    """Return the whole weeks before and after the test's begin, by time."""
    first = setting.from_us - (setting.from_us - setting.prices.from_us - _WEEK_US) // _WEEK_US * _WEEK_US
    begins = range(first, setting.to_us - _WEEK_US - LIFETIMES_US[-1] + 1, _WEEK_US)
    pools = range(len(setting.steps))
    found = (_week(setting, at, pool, life) for at in begins for pool in pools for life in LIFETIMES_US)
    return [week for week in found if week is not None]


def _week(setting: BacktestSetting, begin_us: int, pool: int, lifetime_us: int) -> BoundedWeek | None:
    past, bid = setting.past(pool, begin_us), setting.on_demand[pool]
    if past is None:
        return None
    starts_us = lattice(max(int(past.at_us[0]), begin_us - setting.window_us), begin_us, EVERY_US)
    week_us = lattice(begin_us, begin_us + _WEEK_US, EVERY_US)
    seen = highest_within(past, starts_us, lifetime_us)
    later = highest_within(setting.steps[pool], week_us, lifetime_us)
    is_observed = np.mean(~np.isnan(later)) >= _LEAST_KNOWN
    seen, later = _begun(past, starts_us, seen, bid), _begun(setting.steps[pool], week_us, later, bid)
    windows = windows_of(seen, starts_us, lifetime_us)
    said, happened = share_surviving(seen, bid), share_surviving(later, bid)
    if not windows or not is_observed or np.isnan(happened):
        return None
    bounds = tuple(least_survival(said, windows, effect, CONFIDENCE) for effect in DESIGN_EFFECTS)
    return BoundedWeek(begin_us, said, bounds, tuple(happened >= bound for bound in bounds))


def _begun(steps: PriceSteps, starts_us: Ints, highest: Dollars, bid: float) -> Dollars:
    return begun_under(highest, prices_at(steps.at_us, steps.price, starts_us), bid)
