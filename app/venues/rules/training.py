"""Fits a venue's learned survival to its own past, and calibrates it there: nothing that comes later is used.

1. Bids are drawn in each of the last ten-day blocks, and what happened to them is looked up. 2. A model of all blocks
but the last bids for requests of the last one; after each, the target of a level moves with what happened. The mean
of its second half is kept as the level's shift. 3. The model that is kept is fitted to all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.venues.rules.calibrate import moved_shift, target_of
from app.venues.rules.candidates import candidate_bids, least_reaching
from app.venues.rules.drawing import PricedPools, highest_from
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.learned import LearnedSurvival, fit_survival

LEAST_KNOWN_US = 20 * DAY_US
"""A pool with a shorter past, or a venue, is quoted by counting."""
LEVELS = (0.5, 0.75, 0.9, 0.95, 0.97, 0.99)
_BLOCK_US = 10 * DAY_US
_BLOCKS = 6
_DRAWN_PER_BLOCK = 2_500
_REQUESTS = 700
_SEED, _SEED_OF_REQUESTS = 1, 9
_PRICES_PER_MEDIAN = 8.0
_FIRST_DAYS_US = 3 * DAY_US
_LONG_US = 12 * HOUR_US


@dataclass(frozen=True, slots=True)
class TrainedSurvival:
    """A model with the shift of each of LEVELS, and until when it has seen prices."""

    model: LearnedSurvival
    shifts: tuple[float, ...]
    until_us: int
    outcomes: int

    def shift(self, share: float) -> float:
        """Return the shift of a probability, between those of the levels around it on the logit."""
        return float(np.interp(_logit(share), [_logit(level) for level in LEVELS], self.shifts))

    def least_bid(
        self, pools: PricedPools, pool: int, past: PriceSteps, lifetime_us: int, share: float
    ) -> tuple[float, float]:
        """Return the least candidate bid that reaches a share, else the highest, and its calibrated chance.

        The candidates are searched by halves, so their chances are taken to rise with the bid.
        """
        bids = candidate_bids(float(past.price[-1]), pools.on_demand[pool])
        shift = self.shift(share)
        target, low, high = target_of(share, shift), 0, len(bids) - 1
        known = dict[int, float]()

        def chance(at: int) -> float:
            if at not in known:
                known[at] = float(self.model.chances(pools.rows(pool, past, [float(bids[at])], lifetime_us))[0])
            return known[at]

        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if chance(middle) >= target else (middle + 1, high)
        return float(bids[low]), _sigmoid(_logit(chance(low)) - shift)

    def chances(self, rows: Dollars) -> Dollars:
        """Return the calibrated probability to survive for each row of features: the level that it is the least for.

        A level is reached by the chance of `target_of` its shift; between and beyond LEVELS the shift is as in `shift`.
        """
        levels = np.array([_logit(level) for level in LEVELS])
        targets = np.maximum.accumulate(levels + self.shifts)
        asked = np.array([_logit(chance) for chance in self.model.chances(rows).tolist()])
        found = np.interp(asked, targets, levels)
        found += np.minimum(asked - targets[0], 0.0) + np.maximum(asked - targets[-1], 0.0)
        return np.array([_sigmoid(one) for one in found.tolist()])

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        model = {name: getattr(self.model, name).tolist() for name in ("mean", "scale", "weights")}
        return model | {"shifts": [*self.shifts], "until_us": self.until_us, "outcomes": self.outcomes}


def trained_of(body: dict[str, Any]) -> TrainedSurvival:
    """Return what `as_json` gave."""
    model = LearnedSurvival(*(np.array(body[name], np.float64) for name in ("mean", "scale", "weights")))
    return TrainedSurvival(model, tuple(body["shifts"]), body["until_us"], body["outcomes"])


def guessed_on_demand(steps: PriceSteps) -> float:
    """Return the price on demand where nobody told it: eight times the median price, a guess."""
    return _PRICES_PER_MEDIAN * float(np.nanmedian(steps.price))


def train(pools: PricedPools, until_us: int) -> TrainedSurvival | None:
    """Return the model of what was known at a time; None if the past is too short. The same pools give the same."""
    first_us = min(int(steps.at_us[0]) for steps in pools.steps) + _FIRST_DAYS_US
    begins = [at for n in range(_BLOCKS, 0, -1) if (at := until_us - n * _BLOCK_US) >= first_us]
    if len(begins) < 2:
        return None
    rows, survived = [], []
    for number, begin_us in enumerate(begins):
        drawn = pools.draw_bids((begin_us, begin_us + _BLOCK_US), _DRAWN_PER_BLOCK, (_SEED, number))
        rows.append(pools.rows_of(drawn))
        survived.append(np.array([one.survived for one in drawn], np.float64))
    if not len(rows[-1]) or not sum(map(len, rows[:-1])):
        return None
    before = fit_survival(np.concatenate(rows[:-1]), np.concatenate(survived[:-1]))
    judged = TrainedSurvival(before, (0.0,) * len(LEVELS), begins[-1], 0)
    shifts = _shifts(judged, pools, (begins[-1], until_us))
    whole = fit_survival(np.concatenate(rows), np.concatenate(survived))
    return TrainedSurvival(whole, shifts, until_us, sum(map(len, rows)))


def _shifts(judged: TrainedSurvival, pools: PricedPools, span: tuple[int, int]) -> tuple[float, ...]:
    draw = np.random.default_rng([_SEED_OF_REQUESTS])
    moments = np.sort(draw.integers(span[0], max(span[1] - _LONG_US, span[0] + 1), _REQUESTS)).tolist()
    places = draw.integers(0, len(pools.steps), _REQUESTS).tolist()
    lifetimes_us = (draw.uniform(1.0, 12.0, _REQUESTS) * HOUR_US).astype(np.int64).tolist()
    moved = [[0.0] for _ in LEVELS]
    for now_us, pool, lifetime_us in zip(moments, places, lifetimes_us, strict=True):
        past = pools.past(pool, now_us)
        highest = highest_from(pools.steps[pool], now_us, lifetime_us) if past is not None else float("nan")
        if past is None or np.isnan(highest):
            continue
        bids = candidate_bids(float(past.price[-1]), pools.on_demand[pool])
        chances = judged.model.chances(pools.rows(pool, past, bids.tolist(), lifetime_us))
        for level, shifts in zip(LEVELS, moved, strict=True):
            bid = bids[least_reaching(bids, chances, target_of(level, shifts[-1]))]
            shifts.append(moved_shift(shifts[-1], level, survived=bool(highest <= bid)))
    return tuple(float(np.mean(shifts[len(shifts) // 2 :])) for shifts in moved)


def _logit(share: float) -> float:
    kept = min(max(share, 1e-6), 1.0 - 1e-6)
    return log(kept / (1.0 - kept))


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + exp(-value))


def priced(steps: Sequence[PriceSteps], on_demand: Sequence[float | None], window_us: int) -> PricedPools:
    """Return pools whose on-demand prices are guessed where nobody told them."""
    known = [guessed_on_demand(one) if told is None else told for one, told in zip(steps, on_demand, strict=True)]
    return PricedPools(steps, known, window_us)
