"""A simpler rule for spot starts, as a mark beside the product's: `python -m benchmarks.strata --rule rise`.

The core-hours that `benchmarks.strata` asks for were first reached by this rule, in another simulator and on other
platforms. It counts in how many past windows the on-demand load rose by more than the cores left free:

    risk     1. of up to 300 windows, spread over the whole past and as long as the lifetime (half of the past at most),
                the share in which the load would have exceeded the room at some time. The room grows as running spot
                instances end. Near times compare the *rise* of the load since the window's beginning, far times its
                *height*, with weights exp(-h / 1 day).
             2. but at least .6 L / (t + L) exp(-m / (1.5 s)): L the lifetime, t the past's length, m the room above the
                highest load so far, s the spread of the daily highest loads.
    books    one for each stratum of lifetimes: a start earns min(p, 4 risk), an eviction costs 1
    lines    risk up to p / 2; up to p beside few risky instances (p / 2 in debt); up to 5 p and a tenth of what is left

The load is that asked for, in cells of five minutes, and it is summed over nodes: nothing is known of fragmentation.
Everything else (placement, evictions, counting) is the engine's, so its figures compare with the product's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor

import numpy as np
from numpy.typing import NDArray

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped, Recorded
from app.domain.requests import StartRequest
from app.domain.strata import STRATA, stratum_of
from app.domain.values import Market
from app.engine.cloud import Cloud
from app.workbench.tally import Scenario

_HOUR_S, _DAY_S = 3600.0, 86400.0
_HORIZONS_S = np.array(
    [0, 600, 1800, *(_HOUR_S * h for h in (1, 2, 4, 8, 16)), *(_DAY_S * d for d in (1, 2, 4, 7, 14, 28, 56))]
)
_CELL_S = 300.0
_WINDOWS, _PEAK_DAYS = 300, 60
_RECORD, _SPREADS, _LEAST_SPREAD = 0.6, 1.5, 0.02
_LEAST_RISK = 1e-5

Floats = NDArray[np.float64]


class AskedLoad:
    """The on-demand cores asked for, as a function of time in seconds. Only what is before `now_s` is looked at."""

    def __init__(self, scenario: Scenario) -> None:
        steps = sorted(
            step
            for one in scenario.workload.on_demand
            for step in ((one.start_us, one.cores), (one.stop_us, -one.cores))
        )
        self._times_s = np.array([at_us for at_us, _ in steps]) / 1e6
        self._levels = np.cumsum([cores for _, cores in steps]).astype(float)
        count = int(self._times_s[-1] / _CELL_S) + 2
        cells = self.level(np.arange(count, dtype=np.float64) * _CELL_S)
        np.maximum.at(cells, (self._times_s / _CELL_S).astype(int), self._levels)
        self._maxima = [cells]
        while 2 ** len(self._maxima) <= count:
            last, width = self._maxima[-1], 2 ** (len(self._maxima) - 1)
            self._maxima.append(np.maximum(last[:-width], last[width:]))
        per_day = int(_DAY_S / _CELL_S)
        days = count // per_day
        self._daily = cells[: days * per_day].reshape(days, per_day).max(axis=1)
        self._highest = np.maximum.accumulate(cells)

    def level(self, at_s: Floats) -> Floats:
        """Return the load at these times."""
        places = np.searchsorted(self._times_s, at_s, side="right") - 1
        return np.where(places >= 0, self._levels[np.maximum(places, 0)], 0.0)

    def highest(self, from_s: Floats, to_s: Floats, now_s: float) -> Floats:
        """Return the highest load of each stretch, before the cell of `now_s`."""
        last = np.minimum((to_s / _CELL_S).astype(int), max(int(now_s / _CELL_S) - 1, 0))
        first = np.minimum((from_s / _CELL_S).astype(int), last)
        level = int(np.log2(int(last[0] - first[0]) + 1))
        maxima, second = self._maxima[level], np.maximum(last - 2**level + 1, 0)
        return np.asarray(np.maximum(maxima[np.minimum(first, second)], maxima[second]))

    def peak_and_spread(self, now_s: float) -> tuple[float, float]:
        """Return the highest load so far, and the spread of the highest loads of the last days."""
        now = float(self.level(np.array([now_s]))[0])
        peak = max(float(self._highest[max(int(now_s / _CELL_S) - 1, 0)]), now)
        days = int(now_s / _DAY_S)
        daily = self._daily[max(0, days - _PEAK_DAYS) : days]
        return peak, max(float(daily.std()) if len(daily) > 1 else 0.0, _LEAST_SPREAD * peak, 1e-9)


@dataclass(frozen=True)
class _Running:
    end_s: float
    lifetime_s: float
    cores: int
    stratum: str
    risk: float

    def left(self, now_s: float) -> float:
        """Return the risk that it still bears."""
        return self.risk * max(0.0, self.end_s - now_s) / max(self.lifetime_s, 1e-9)


class RiseRule:
    """Admits spot starts by the rule under one promise; it has to be told of every event."""

    def __init__(self, scenario: Scenario, promise: float) -> None:
        self._promise, self._load = promise, AskedLoad(scenario)
        self._cores = sum(node.cores for node in scenario.nodes)
        self._running: dict[str, _Running] = {}
        self.left = dict.fromkeys(STRATA, 0.0)
        self._risk = 0.0

    def write(self, recorded: Recorded) -> None:
        """Take the log's next event."""
        event = recorded.event
        if isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            lifetime_us = event.lifetime_us or 0
            end_s, stratum = (event.at_us + lifetime_us) / 1e6, stratum_of(lifetime_us)
            one = _Running(end_s, lifetime_us / 1e6, int(event.flavor[1:]), stratum, self._risk)
            self._running[event.instance_id] = one
            self.left[stratum] += min(self._promise, 4 * self._risk)
        elif isinstance(event, InstanceEvicted):
            gone = self._running.pop(event.instance_id)
            self.left[gone.stratum] -= event.at_us / 1e6 <= gone.end_s
        elif isinstance(event, InstanceStopped):
            self._running.pop(event.instance_id, None)

    def admits(self, cloud: Cloud, request: StartRequest, _node: str) -> bool:
        """Return True if one of the lines admits the start."""
        now_s, lifetime_us = (request.at_us or 0) / 1e6, request.lifetime_us or 0
        risk = self._risk = self.risk(now_s, lifetime_us / 1e6, cloud.flavors[request.flavor].resources.cores)
        promise, left = self._promise, self.left[stratum_of(lifetime_us)]
        borne = [one.left(now_s) for one in self._running.values() if one.stratum == stratum_of(lifetime_us)]
        risky = sum(some > promise / 2 for some in borne)
        within = promise / 2 if left < 0 else promise
        return (
            risk <= promise / 2
            or (risk <= within and risky < max(5, floor(left)))
            or (risk <= min(5 * promise, (left - sum(borne)) / 10) and risky < max(2, floor(left)))
        )

    def risk(self, now_s: float, lifetime_s: float, cores: int) -> float:
        """Return the chance that a start of so many cores is evicted within its lifetime, by the rise of the load."""
        window_s = max(min(lifetime_s, now_s / 2), 1.0)
        begins = _HORIZONS_S[window_s > _HORIZONS_S]
        ends = np.append(begins[1:], window_s)
        held = [sum(one.cores for one in self._running.values() if one.end_s - now_s > begin) for begin in begins]
        room = self._cores - cores - np.array(held, float)
        starts_s = np.linspace(0, now_s - window_s, _WINDOWS)
        rise = self._load.level(np.array([now_s])) - self._load.level(starts_s)
        exceeds = np.zeros(_WINDOWS, bool)
        for begin, end, own_room in zip(begins, ends, room, strict=True):
            highest = self._load.highest(starts_s + begin, starts_s + end, now_s)
            exceeds |= highest + exp(-begin / _DAY_S) * rise > own_room
        share = 1 - (1 - float(exceeds.mean())) ** max(lifetime_s / window_s, 1.0)
        peak, spread = self._load.peak_and_spread(now_s)
        margin = max(0.0, float(room.min()) - peak)
        record = _RECORD * lifetime_s / (now_s + lifetime_s) * exp(-margin / (_SPREADS * spread))
        return float(max(share, record) + _LEAST_RISK)
