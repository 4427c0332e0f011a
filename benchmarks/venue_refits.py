"""Times refits of a venue's model, and judges the bids that it then quotes by the ten days after each refit.

    python -m benchmarks.venue_refits ../shared/traces/market/us-east-1-2015.csv.gz 2015-07-01 2015-07-11 2015-07-21

For each date a model is fitted to what was known then, as a worker does it. Then random requests for 1 to 12 h of the
nine days after it are quoted, and the prices that followed judge the bids.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US, HOUR_US, from_rfc3339
from app.venues.rules.drawing import PricedPools, highest_from
from app.venues.rules.history import VenuePrices
from app.venues.rules.training import TrainedSurvival, priced, train
from app.venues.rules.types import LISTED
from app.workbench.venues.opening import read_prices

WINDOW_US = 60 * DAY_US
LEVELS = (0.9, 0.95, 0.97)
REQUESTS = 300


class Judged(NamedTuple):
    """A quoted bid: its level, if it survived, and the bid over the price."""

    level: float
    survived: bool
    ratio: float


def pools_of(venue: VenuePrices, until_us: int) -> PricedPools:
    """Return the pools as they were known at a time."""
    steps = [one.between(0, until_us) for one in venue.pools.values()]
    return priced(steps, [LISTED[name.instance_type].on_demand for name in venue.pools], WINDOW_US)


def judged(whole: PricedPools, trained: TrainedSurvival) -> list[Judged]:
    """Return bids of random requests after a model was fitted."""
    draw = np.random.default_rng([7, trained.until_us // DAY_US])
    found = []
    for _ in range(REQUESTS):
        now_us = int(trained.until_us + draw.integers(0, 9 * DAY_US))
        pool, lifetime_us = int(draw.integers(len(whole.steps))), int(draw.uniform(1, 12) * HOUR_US)
        past = whole.past(pool, now_us)
        highest = highest_from(whole.steps[pool], now_us, lifetime_us) if past is not None else float("nan")
        if past is None or np.isnan(highest):
            continue
        for level in LEVELS:
            bid, _ = trained.least_bid(whole, pool, past, lifetime_us, level)
            found.append(Judged(level, highest <= bid, bid / float(past.price[-1])))
    return found


def main() -> None:
    """Print the time of each refit, and how often bids of each level survived."""
    venue = read_prices(Path(sys.argv[1]), from_rfc3339("2026-01-01T00:00:00Z")).venue()
    whole, every = pools_of(venue, venue.to_us + 1), list[Judged]()
    for date in sys.argv[2:]:
        until_us = from_rfc3339(f"{date}T00:00:00Z")
        pools, began_s = pools_of(venue, until_us), process_time()
        trained = train(pools, until_us)
        assert trained is not None
        print(f"{date}: fitted to {trained.outcomes:,} outcomes in {process_time() - began_s:.1f} s of a processor")
        every += judged(whole, trained)
    for level in LEVELS:
        of = [one for one in every if one.level == level]
        survived, ratio = np.mean([one.survived for one in of]), np.median([one.ratio for one in of])
        print(f"{level}: {survived:.4f} of {len(of)} bids survived, median bid over price {ratio:.2f}")


if __name__ == "__main__":
    main()
