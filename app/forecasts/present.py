"""The starts that are possible now, and how long they would survive, by the newest table and the cloud's room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.admission.quote import Quotes, quotes_of_now
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Forecast
from app.engine.cloud import Cloud
from app.engine.cluster import Ints
from app.forecast.survival import Floats
from app.scheduling.slots import outlooks_beside, slots_of

_FIRST_US, _LONGEST_US, _POINTS = 60 * SECOND_US, 90 * DAY_US, 64


@dataclass(frozen=True, slots=True)
class PresentStart:
    """The slots at which a start of a flavor is quoted, and the quotes that it reads.

    `displaced`: so many overrunning instances would be evicted for it; `slots` are then those without them.
    """

    slots: int
    quotes: Quotes
    displaced: int = 0


async def present_starts(
    table: Quotes, cloud: Cloud, flavors: Sequence[str], now_us: int, slots: int | None = None
) -> dict[str, PresentStart]:
    """Return what starts of these flavors would find now, or at so many slots."""
    of_now = quotes_of_now(table, cloud, flavors, now_us)
    counts = await slots_of(cloud, flavors) if slots is None else dict.fromkeys(flavors, slots)
    quotes = await outlooks_beside(cloud, flavors, of_now)
    found = {flavor: PresentStart(count, quotes) for flavor, count in counts.items()}
    full = [flavor for flavor, count in counts.items() if not count and flavor in cloud.flavors]
    if slots is not None or not full or not cloud.policy.displaces_overrunning:
        return found
    seen = await outlooks_beside(cloud, full, cloud.displacing_now(full, now_us))
    by_table = cloud.policy.forecast is Forecast.REPLAY
    in_force = table if by_table else table.seen_from({flavor: outlook for flavor, (_, outlook) in seen.items()})
    displacing = {flavor: PresentStart(outlook.slots, in_force, gone) for flavor, (gone, outlook) in seen.items()}
    return found | displacing


@dataclass(frozen=True, slots=True)
class PresentSurvival:
    """The share alive (n, never rising) after each of times_us (n, rising); what is not certified counts as evicted.

    `slots`: so many instances fit now. `windows` and `at_least` are the evidence and the lower bound in the middle of
    what is certified.
    """

    slots: int
    times_us: Ints
    alive: Floats
    windows: float
    at_least: float | None


async def present_survival(
    quotes: Quotes, cloud: Cloud, flavor: str, now_us: int, confidence: float
) -> PresentSurvival:
    """Return the survival of a flavor that the cloud has."""
    slots = (await slots_of(cloud, [flavor]))[flavor]
    seen = await outlooks_beside(cloud, [flavor], quotes_of_now(quotes, cloud, [flavor], now_us))
    return _survival(seen, flavor, slots, confidence)


def _survival(quotes: Quotes, flavor: str, slots: int, confidence: float) -> PresentSurvival:
    times_us = np.geomspace(_FIRST_US, _LONGEST_US, _POINTS).astype(np.int64)
    told = [quotes.probability(flavor, slots, int(us)) for us in times_us]
    alive = np.minimum.accumulate(np.array([0.0 if one is None else 1.0 - one for one in told]))
    known = int((alive > 0.0).sum())
    middle_us = int(times_us[max(known - 1, 0) // 2])
    bound, windows = quotes.bound(flavor, slots, middle_us, confidence), quotes.windows(flavor, slots, middle_us)
    return PresentSurvival(slots, times_us, alive, windows or 0.0, None if bound is None else 1.0 - bound)
