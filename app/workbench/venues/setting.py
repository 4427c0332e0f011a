"""The setting of a backtest: prices, types, the time that is tested, and the seed of what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.times import DAY_US, HOUR_US, time_text
from app.venues.rules.drawing import PricedPools
from app.venues.rules.history import PoolName, PriceSteps, VenuePrices
from app.venues.rules.types import LISTED, MachineType

_NO_EARLIER_US = 20 * DAY_US
"""A test by default begins this long after the first price at the earliest."""
_PRICES_PER_MEDIAN = 8.0


@dataclass(frozen=True)
class BacktestSetting:
    """Times are microseconds; the test looks at moments in [from_us, to_us) and back by `window_us`."""

    prices: VenuePrices
    types: Mapping[str, MachineType]
    from_us: int
    to_us: int
    window_us: int
    seed: int
    progress: Progress

    @cached_property
    def names(self) -> list[PoolName]:
        """Return the names of the pools, in order."""
        return list(self.prices.pools)

    @cached_property
    def steps(self) -> list[PriceSteps]:
        """Return the histories of the pools, in the order of their names."""
        return list(self.prices.pools.values())

    @cached_property
    def on_demand(self) -> list[float]:
        """Return the on-demand price of each pool; eight times its median price before the test if it is unlisted."""
        return [self._on_demand(name, steps) for name, steps in self.prices.pools.items()]

    def machine(self, name: PoolName) -> MachineType | None:
        """Return the type of a pool, if it is known."""
        return self.types.get(name.instance_type, LISTED.get(name.instance_type))

    def _on_demand(self, name: PoolName, steps: PriceSteps) -> float:
        return on_demand_price(self.machine(name), steps, self.from_us)

    @cached_property
    def pools(self) -> PricedPools:
        """Return the pools with what each moment of them looks back at."""
        return PricedPools(self.steps, self.on_demand, self.window_us)

    def past(self, pool: int, now_us: int) -> PriceSteps | None:
        """Return what the window before a moment shows of a pool; None if the price is unknown then."""
        return self.pools.past(pool, now_us)


def on_demand_price(machine: MachineType | None, steps: PriceSteps, from_us: int) -> float:
    """Return the on-demand price of a pool; eight times its median price before a time if its type is not known."""
    if machine is not None:
        return machine.on_demand
    return _PRICES_PER_MEDIAN * float(np.nanmedian(steps.price[: max(steps.step_at(from_us), 0) + 1]))


def setting_of(
    prices: VenuePrices,
    types: Mapping[str, MachineType],
    span: tuple[int | None, int | None],
    window_us: int,
    seed: int,
    progress: Progress,
) -> BacktestSetting:
    """Return a setting; a time that is not given is the window's length after the first price, or the last price."""
    from_us, to_us = span
    if window_us < DAY_US:
        raise InputError("--window must be at least 24h: shorter histories say too little")
    begin_us, end_us = prices.from_us, prices.to_us
    if from_us is None:
        from_us = begin_us + min(max(window_us, _NO_EARLIER_US), (end_us - begin_us) // 2)
    to_us = end_us if to_us is None else min(to_us, end_us)
    if from_us < begin_us + DAY_US:
        raise InputError(f"history.too_short: the first price is of {time_text(begin_us)}; --from must be a day later")
    if to_us <= from_us + HOUR_US:
        raise InputError(f"--from must lie at least an hour before --to and before the last price, {time_text(end_us)}")
    return BacktestSetting(prices, types, from_us, to_us, window_us, seed, progress)
