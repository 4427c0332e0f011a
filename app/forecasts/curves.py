"""The curves of the forecast in force: what it says of a flavor by available slots and by lifetime, as of now.

With the calibrated forecast they are computed by the formula that decides, from the present state: for another number
of slots the room is so many instances larger or smaller. With replays they are read from the table. Where the evidence
is thin, every point says so: its bound takes all its windows for fewer than `FEW_WINDOWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from app.admission.quote import Quotes
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Forecast
from app.engine.cloud import Cloud
from app.engine.outlook import Outlook
from app.forecast.calibrated import window_count
from app.forecast.level import stratum_index
from app.forecast.rise import Rises
from app.forecast.table import QuantileTable
from app.forecasts.evidence import spread

FEW_WINDOWS = 10
"""An estimate is shown as thin whose windows its bound takes for fewer."""
PROBABILITIES = (0.01, 0.05, 0.1)
_MOST_SLOTS = 60
_POINTS = 80
_SHORTEST_US = HOUR_US // 6
_LONGEST_US = 60 * DAY_US
_MINUTE_US = HOUR_US // 60
TOLD_US = (HOUR_US // 6, HOUR_US, 4 * HOUR_US, 12 * HOUR_US, DAY_US, 2 * DAY_US, 7 * DAY_US, 30 * DAY_US)
"""The lifetimes that tables tell."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The estimate of a lifetime with its bound and the windows that it rests on; None: nothing is known or certified.

    `worth`: for how many windows its bound takes these, where bursts strike many instances at once. `is_thin`: for
    fewer than FEW_WINDOWS.
    """

    lifetime_us: int
    estimate: float | None
    bound: float | None
    window_count: float | None
    worth: float = 0.0

    @property
    def is_thin(self) -> bool:
        """True if the bound takes the windows for few."""
        return self.worth < FEW_WINDOWS


@dataclass(frozen=True, slots=True)
class LifetimeCurve:
    """The estimates by lifetime at a number of available slots."""

    slots: int
    points: Sequence[CurvePoint]


@dataclass(frozen=True, slots=True)
class SlotsPoint:
    """The lifetimes guaranteed at a number of available slots, by the sheet's probabilities."""

    slots: int
    lifetimes_us: Sequence[int]


@dataclass(frozen=True, slots=True)
class CurveSheet:
    """All curves of a flavor.

    `told`: the estimates of `TOLD_US`, at the same numbers of slots as `by_lifetime`; the present one is among them.
    `thin_us`: the lifetime from which on the evidence is thin at the present number of slots; None: nowhere that shows.
    """

    flavor: str
    forecast: Forecast
    slots_now: int
    probabilities: Sequence[float]
    by_slots: Sequence[SlotsPoint]
    by_lifetime: Sequence[LifetimeCurve]
    told: Sequence[LifetimeCurve]
    thin_us: int | None


def curves_now(cloud: Cloud, table: QuantileTable, flavor: str, at_us: int) -> Callable[[], CurveSheet | None]:
    """Return a function that computes the curves as things are now, on any thread; None if nothing is known.

    It takes some hundredths of a second.
    """
    policy, slots_now = cloud.policy, cloud.available_slots(flavor)
    probabilities = sorted({*PROBABILITIES, policy.eviction_probability})
    if policy.forecast is Forecast.REPLAY:
        return lambda: _of_replays(table, flavor, slots_now, probabilities, policy.confidence)
    outlooks_now = cloud.outlooks_now([flavor], at_us)

    def computed() -> CurveSheet | None:
        rises, outlook = table.rises, outlooks_now()[flavor]
        if rises is None:
            return None
        quotes = table.seen_from({flavor: outlook})
        return _Drawing(quotes, flavor, policy.confidence, lambda _, us: _worth(rises, us)).sheet(
            Forecast.CALIBRATED, slots_now, range(1, most_slots(outlook) + 1), probabilities, _LONGEST_US
        )

    return computed


def most_slots(outlook: Outlook) -> int:
    """Return how many instances the open nodes would hold if nothing ran, as if they were one; the present at least."""
    wanted = outlook.demand > 0
    fit = (outlook.capacity[wanted] // outlook.demand[wanted]).min(initial=1 << 20) if wanted.any() else 0
    return max(int(fit), outlook.slots, 1)


def _of_replays(
    table: QuantileTable, flavor: str, slots_now: int, probabilities: Sequence[float], confidence: float
) -> CurveSheet | None:
    buckets = table.curve(flavor).buckets if flavor in table.flavors else ()
    if not buckets:
        return None
    seen = sorted({bucket.slots for bucket in buckets} | ({slots_now} if slots_now else set()))
    longest_us = max(bucket.longest_us for bucket in buckets)
    return _Drawing(table, flavor, confidence, table.curve(flavor).window_count).sheet(
        Forecast.REPLAY, slots_now, seen, probabilities, longest_us
    )


def _worth(rises: Rises, lifetime_us: int) -> float:
    """Return for how many windows a bound takes those that the history holds of a lifetime: the design effect."""
    effect = float(rises.effects[stratum_index(lifetime_us)])
    return window_count(rises.seen_us, lifetime_us) / (effect or 1.0)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Reads quotes of a flavor at many points."""

    quotes: Quotes
    flavor: str
    confidence: float
    worth: Callable[[int, int], float]

    def sheet(
        self,
        forecast: Forecast,
        slots_now: int,
        slots: Sequence[int],
        probabilities: Sequence[float],
        longest_us: int,
    ) -> CurveSheet:
        """Return the curves over these numbers of slots, up to this lifetime."""
        shown = sorted({*spread(slots, _MOST_SLOTS), *([slots_now] if slots_now else [])})
        few = sorted({*spread(slots, 4), *([slots_now] if slots_now else [])})
        shortest_us = min(_SHORTEST_US, max(longest_us // 10, _MINUTE_US))
        times = np.geomspace(shortest_us, max(longest_us, 2 * shortest_us), _POINTS)
        thin_us = next((int(us) for us in times if self.worth(slots_now or shown[0], int(us)) < FEW_WINDOWS), None)
        return CurveSheet(
            self.flavor,
            forecast,
            slots_now,
            probabilities,
            [SlotsPoint(one, [self._lifetime_us(one, p) for p in probabilities]) for one in shown],
            [LifetimeCurve(one, [self._point(one, int(us)) for us in times]) for one in few],
            [LifetimeCurve(one, [self._point(one, us) for us in TOLD_US]) for one in few],
            thin_us,
        )

    def _lifetime_us(self, slots: int, probability: float) -> int:
        return self.quotes.lifetime_us(self.flavor, slots, probability) or 0

    def _point(self, slots: int, lifetime_us: int) -> CurvePoint:
        estimate = self.quotes.probability(self.flavor, slots, lifetime_us)
        if estimate is None or estimate >= 1:  # nothing observed ran that long
            return CurvePoint(lifetime_us, None, None, None)
        bound = self.quotes.bound(self.flavor, slots, lifetime_us, self.confidence)
        windows = self.quotes.windows(self.flavor, slots, lifetime_us)
        return CurvePoint(lifetime_us, estimate, bound, windows, self.worth(slots, lifetime_us))
