"""The load of a scaled week: what spot and on-demand servers are asked for when, and a past of the same kind.

Both are the log-normal loads of `tenure trace synth`, with other seeds. Their lifetimes have a median of seven minutes:
shrunk as a week is, most would be over before Nova has built the server. So the generator's times are stretched first,
eightfold for a week in forty minutes, such that the lifetimes on the wall are the same however short the week is.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from math import log
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from lab_template import FLAVORS

from app.workbench.logcolumns import COLUMNS
from app.workbench.synthesis import LIFETIMES, synthesize

WEEK_S = 7 * 86_400.0
PROMISES = (0.05, 0.1, 0.2)
"""The probabilities that spot servers ask for, in turns."""
_FASTER = 31.5
"""The wall's clock goes so many times faster than the generator's time, where lives are of the usual length."""
_SHORTEST_S = 8.0
"""Nova takes seconds to build a server. What would live shorter than this, by the clock on the wall, is left out."""
_NODE = (10, 8192, 1028)
_SPOT, _ON_DEMAND = (("tiny", 1.0),), (("small", 0.5), ("medium", 0.35), ("large", 0.15))


@dataclass(frozen=True)
class WeekAsked:
    """A week in so many minutes. `spot` and `on_demand` are how many servers of each are expected.

    `longer`: how many times longer than usual servers live, for a machine on which fewer can be made.
    """

    minutes: float
    computes: int
    spot: int
    on_demand: int
    seed: int
    past_weeks: int = 2
    longer: float = 1.0

    @property
    def factor(self) -> float:
        """The load goes so many times faster than a week."""
        return WEEK_S / (60 * self.minutes)

    @property
    def faster(self) -> float:
        """The wall's clock goes so many times faster than the generator's time."""
        return _FASTER / self.longer

    def scaled_s(self, real_s: float) -> float:
        """Return a length of the week's time as seconds on the wall."""
        return round(real_s / self.factor, 3)


class Wish(NamedTuple):
    """A server that somebody wants. Times are in seconds on the wall; `promise` is None for on-demand."""

    start_s: float
    lifetime_s: float
    flavor: str
    promise: float | None

    @property
    def stop_s(self) -> float:
        return self.start_s + self.lifetime_s


def week_of(asked: WeekAsked) -> list[Wish]:
    """Return the servers of the replayed week in the order of their starts."""
    spot, on_demand = (list(_wishes(asked, is_spot, 1, asked.seed)) for is_spot in (True, False))
    return sorted([*spot, *on_demand])


def write_past(asked: WeekAsked, path: Path) -> int:
    """Write the weeks before as a log for `tenure import`, and return the number of its starts."""
    wishes = [
        *_wishes(asked, True, asked.past_weeks, asked.seed + 1000),
        *_wishes(asked, False, asked.past_weeks, asked.seed + 1000),
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        for seq, row in enumerate(_rows(asked, sorted(wishes)), 1):
            writer.writerow({"seq": seq, **row})
    return len(wishes)


def _wishes(asked: WeekAsked, is_spot: bool, weeks: int, seed: int) -> Iterator[Wish]:
    """Yield the wishes of one market over some weeks."""
    wanted = weeks * (asked.spot if is_spot else asked.on_demand)
    sizes, seed = _SPOT if is_spot else _ON_DEMAND, 2 * seed + is_spot
    days = weeks * asked.minutes * 60 * asked.faster / 86_400
    chooser, utilisation = random.Random(seed), wanted / _long_share(asked) * LIFETIMES.mean_s / (days * 86_400)
    for number, one in enumerate(synthesize(days=days, mean_utilisation=utilisation, cores=1, seed=seed)):
        (flavor,) = chooser.choices([name for name, _ in sizes], [share for _, share in sizes])
        start_s, lifetime_s = one.start_us / 1e6 / asked.faster, one.lifetime_us / 1e6 / asked.faster
        if lifetime_s >= _SHORTEST_S:
            promise = PROMISES[number % len(PROMISES)] if is_spot else None
            yield Wish(round(start_s, 3), round(lifetime_s, 1), flavor, promise)


def _long_share(asked: WeekAsked) -> float:
    """Return the share of the generator's lifetimes that are long enough."""
    logarithm = log(_SHORTEST_S * asked.faster)
    return 1 - NormalDist(LIFETIMES.mu, LIFETIMES.sigma).cdf(logarithm)


def _rows(asked: WeekAsked, wishes: Sequence[Wish]) -> Iterator[dict[str, object]]:
    """Yield the lines of a log: the nodes and flavors, then each start and stop until the past ends."""
    end_s = asked.past_weeks * 60 * asked.minutes
    yield {"at_s": 0, "kind": "cloud_created", "eviction_policy": "yjf"}
    for number in range(1, asked.computes + 1):
        yield {"at_s": 0, "kind": "node_added", "node": f"compute-{number}", **_sizes(_NODE)}
    for name, size in FLAVORS.items():
        yield {"at_s": 0, "kind": "flavor_added", "flavor": name, **_sizes(size)}
    starts = ((wish.start_s, 1, number, wish) for number, wish in enumerate(wishes))
    stops = sorted((wish.stop_s, 0, number, wish) for number, wish in enumerate(wishes) if wish.stop_s <= end_s)
    for at_s, is_start, number, wish in merge(starts, stops):
        yield {
            "at_s": round(at_s, 3),
            "kind": "instance_started" if is_start else "instance_stopped",
            "instance_id": f"past-{number}",
            "market": "on_demand" if wish.promise is None else "spot",
            "lifetime_s": wish.lifetime_s,
            "flavor": wish.flavor,
            **_sizes(FLAVORS[wish.flavor]),
        }


def _sizes(size: tuple[int, int, int]) -> dict[str, object]:
    return dict(zip(("cores", "memory_mib", "disk_gib"), size, strict=True))
