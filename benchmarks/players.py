"""The callers of the games: honest ones, and players who would have what others paid for.

Every tenth spot start of a workload is the player's, who also asks for a core for 49 hours twice a day: *risky* starts.
All others are `others`'. A game adds calls or changes what is declared; a call keeps its true lifetime, so what
completes can be compared between games.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from app.domain.names import flavor_name
from app.domain.requests import ExtendRequest, StartRequest, StopRequest
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.domain.values import Market
from app.domain.wanted import Wanted
from app.workbench.workload import Workload

Step = StartRequest | StopRequest | ExtendRequest

OTHERS, PLAYER, HOGS, SURFER = "others", "player", "hogs", "surfer"
ONE_IN = 10
"""Of so many spot starts of a workload, one is the player's."""
FIRST_US = 2 * DAY_US
"""No game begins before this: a cloud promises nothing on its first day."""
FARMED_A_DAY, HOG_COUNT, SURFED = 100, 52, 60
RISKY_US, RISKY_A_DAY = 49 * HOUR_US, 2
LIE_US, LOOP_US, SURF_US, TEN_YEARS_US = 60 * SECOND_US, HOUR_US, 4 * HOUR_US, 3650 * DAY_US
MEMBERS = 8
"""The number of members of a hog that is a group."""


class Call(NamedTuple):
    """A start, and the stop that follows after its true lifetime.

    With `members` it starts a group; with `wants_longest` as long as possible, whatever is declared. `extended` are the
    times at which longer lifetimes are asked for, and these lifetimes.
    """

    caller: str
    name: str
    market: Market
    cores: int
    at_us: int
    declared_us: int
    lifetime_us: int
    members: int = 1
    wants_longest: bool = False
    extended: tuple[tuple[int, int], ...] = ()

    @property
    def core_us(self) -> int:
        """Its core-microseconds if it completes."""
        return self.members * self.cores * self.lifetime_us


def calls_of(workload: Workload, end_us: int) -> list[Call]:
    """Return the calls of a workload before a time, all of them honest."""
    on_demand = [
        Call(OTHERS, f"od-{one.name}", Market.ON_DEMAND, one.cores, one.start_us, 0, one.lifetime_us)
        for one in workload.on_demand
    ]
    spot = [
        Call(
            PLAYER if place % ONE_IN == 0 else OTHERS,
            f"spot-{one.name}",
            Market.SPOT,
            one.cores,
            one.start_us,
            max(one.lifetime_us, SECOND_US),
            one.lifetime_us,
        )
        for place, one in enumerate(workload.spot)
    ]
    calls = [one for one in (*on_demand, *spot) if one.at_us < end_us]
    times_us = range(FIRST_US, end_of(calls), DAY_US // RISKY_A_DAY)
    return [*calls, *(_spot(PLAYER, "risky", at_us, RISKY_US) for at_us in times_us)]


def farming(calls: Sequence[Call], lifetime_us: int) -> list[Call]:
    """Return the calls, with a hundred starts a day of the player's that are over at once, one after the other."""
    return [
        *calls,
        *(_spot(PLAYER, f"farm-{lifetime_us}", at_us, lifetime_us) for at_us in _farmed(calls, lifetime_us)),
    ]


def flickering(calls: Sequence[Call]) -> list[Call]:
    """Return the calls, with a hundred starts a day of the player's that declare 49 h and end after a second."""
    times_us = _farmed(calls, SECOND_US)
    return [*calls, *(_spot(PLAYER, "flick", at_us, RISKY_US)._replace(lifetime_us=SECOND_US) for at_us in times_us)]


def hogging(calls: Sequence[Call], declared_us: int) -> list[Call]:
    """Return the calls, with 52 spread starts that declare so much and run to the end."""
    end_us = end_of(calls)
    step_us = (end_us - FIRST_US) // HOG_COUNT
    hogs = (_spot(HOGS, f"hog-{declared_us}", FIRST_US + place * step_us, declared_us) for place in range(HOG_COUNT))
    return [*calls, *(hog._replace(lifetime_us=end_us - hog.at_us) for hog in hogs)]


def taking(calls: Sequence[Call], members: int) -> list[Call]:
    """Return the calls, with 52 spread starts, of groups of so many members, that take all that can be promised."""
    hogs = hogging(calls, 0)[len(calls) :]
    kind = f"group-{members}"
    return [*calls, *(hog._replace(name=f"{kind}-{hog.at_us}", members=members, wants_longest=True) for hog in hogs)]


def looping(calls: Sequence[Call]) -> list[Call]:
    """Return the calls, in which the player declares an hour and asks for one more each half hour while it runs."""
    return [_looped(one) if one.caller == PLAYER and one.lifetime_us > LOOP_US else one for one in calls]


def _looped(one: Call) -> Call:
    asks = range(1, -(-one.lifetime_us // LOOP_US))
    extended = tuple((one.at_us + place * LOOP_US - LOOP_US // 2, (place + 1) * LOOP_US) for place in asks)
    return one._replace(declared_us=LOOP_US, extended=extended)


def surfing(calls: Sequence[Call]) -> list[Call]:
    """Return the calls, with a burst of 60 starts of 4 h in the hour of each week in which the load is lowest."""
    ebbs_us = [at_us + HOUR_US // 2 for at_us in _ebbs(calls)]
    return [*calls, *(_spot(SURFER, "surf", at_us + place, SURF_US) for at_us in ebbs_us for place in range(SURFED))]


def lying(calls: Sequence[Call], liars: Iterable[str]) -> list[Call]:
    """Return the calls, in which these callers declare one minute."""
    known = {*liars}
    return [
        one._replace(declared_us=LIE_US) if one.caller in known and one.market is Market.SPOT else one for one in calls
    ]


def end_of(calls: Iterable[Call]) -> int:
    """Return the time of the last on-demand start, after which nobody can be evicted."""
    return max(one.at_us for one in calls if one.market is Market.ON_DEMAND)


def turns(calls: Sequence[Call], most: int) -> Iterator[tuple[str, list[Step]]]:
    """Yield callers with the steps that they may send in one request, in the order of time.

    At equal times stops come first, then on-demand starts, then spot starts. Who is stopped after the last start is
    left running.
    """
    end_us = end_of(calls)
    keyed: list[tuple[tuple[int, int, int, int], str, Step]] = []
    for order, one in enumerate(sorted(calls, key=lambda one: (one.at_us, one.market is Market.SPOT))):
        keyed.append(((one.at_us, 1, order, 0), one.caller, _start(one)))
        if (stop_us := one.at_us + one.lifetime_us) < end_us:
            keyed.append(((stop_us, bool(not one.lifetime_us), order, 1), one.caller, StopRequest(one.name, stop_us)))
        asks = ((at_us, ExtendRequest(one.name, lifetime_us, at_us)) for at_us, lifetime_us in one.extended)
        keyed += [((at_us, 2, order, 0), one.caller, ask) for at_us, ask in asks if at_us < end_us]
    keyed.sort(key=lambda item: item[0])
    for caller, items in groupby(keyed, key=lambda item: item[1]):
        steps = [step for _, _, step in items]
        yield from ((caller, steps[at : at + most]) for at in range(0, len(steps), most))


def _start(one: Call) -> StartRequest:
    declared_us = one.declared_us if one.market is Market.SPOT and not one.wants_longest else None
    wanted = Wanted() if one.wants_longest else None
    flavor = flavor_name(one.cores)
    return StartRequest(one.name, one.market, flavor, declared_us, at_us=one.at_us, wanted=wanted, count=one.members)


def _spot(caller: str, kind: str, at_us: int, lifetime_us: int) -> Call:
    return Call(caller, f"{kind}-{at_us}", Market.SPOT, 1, at_us, lifetime_us, lifetime_us)


def _farmed(calls: Sequence[Call], lifetime_us: int) -> Iterator[int]:
    """Yield the times of the farmer's starts: each day at noon, as close as they may be without two at once."""
    for day_us in range(FIRST_US + DAY_US // 2, end_of(calls), DAY_US):
        yield from (day_us + place * (lifetime_us + SECOND_US) for place in range(FARMED_A_DAY))


def _ebbs(calls: Sequence[Call]) -> Iterator[int]:
    """Yield the beginning of the hour of each week in which the on-demand load is lowest."""
    hours = end_of(calls) // HOUR_US
    load = [0] * (hours + 2)
    for one in calls:
        if one.market is Market.ON_DEMAND:
            for at_us, cores in ((one.at_us, one.cores), (one.at_us + one.lifetime_us, -one.cores)):
                load[min(at_us // HOUR_US + 1, hours + 1)] += cores
    for hour in range(1, hours + 2):
        load[hour] += load[hour - 1]
    for first in range(0, hours, 168):
        week = range(max(first, FIRST_US // HOUR_US), min(first + 168, hours))
        yield from [min(week, key=lambda hour: load[hour]) * HOUR_US] if week else []
