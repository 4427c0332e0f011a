"""Plays games against a running service, over HTTP, and shows for each what it gained beside what it may.

    python -m benchmarks.games
    python -m benchmarks.games --platforms C-D:31x32 growth.4-mixed.4:8x16 --sla 0.01 --days 14 --games lie

Method: `tenure run` with a private database, and for each game a cloud with an external clock and otherwise the policy
of a new one. Every caller has a token of its own, so it is an owner (`benchmarks.players`). The workload is played once
as it is, *honest*, and once with each game. What became of everybody is read from the log.

    farm      100 starts a day of 0 s (refused), of 1 s and of 60 s: they cost nobody anything, and earn nothing
    hogs      52 starts of ten years (refused), and of the longest lifetime that a new cloud takes
    surf      60 starts of 4 h at each week's ebb: their stratum is kept, and they are evicted at most 3 p
    lie       the player declares one minute, and completes no more core-hours than when it is honest
    all-lie   everybody does, and /sla, its verdict, the metrics and the list of owners say so
    loop      the player declares an hour and asks for one more each half hour: it is evicted no more than promised, and
              costs nobody anything
    longest   52 starts that take all that can be promised, and are extended while they can be
    groups    the same, each a group of 8
    flicker   the player starts 100 a day that declare 49 h and stops them after a second: they earn nothing

A line shows a figure beside its bar, and `!` where it is missed; then exit code 1. `evicted` is the lower end of the
exact interval at 95 %; its bar is the promise p, or what the honest workload has if that is more. Decisions rest on
earlier ones, so any start moves later figures a little: of what others asked for .03 less may be admitted, and of the
few risky starts .10 better.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from app.domain.strata import stratum_of
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.judging.intervals import exact_interval
from benchmarks.platforms import TRACES, Platform, named
from benchmarks.played import Played, Served, Side, owner_of, play, serving
from benchmarks.players import (
    HOG_COUNT,
    HOGS,
    LOOP_US,
    MEMBERS,
    OTHERS,
    PLAYER,
    RISKY_US,
    SURF_US,
    SURFER,
    TEN_YEARS_US,
    Call,
    calls_of,
    farming,
    flickering,
    hogging,
    looping,
    lying,
    surfing,
    taking,
)
from tenure_client import TenureClient

PLATFORMS = ("daily.1-mixed.1:8x16", "crowds.2-mixed.2:8x16", "A-B:7x12")
POLICY: dict[str, Any] = {"clock": "external", "clock_step_s": None, "sample_count": 100}
"""The difference from the policy of a new cloud. Replays decide nothing here, so few do."""
CHANCE, RISKY_CHANCE = 0.03, 0.10
KEPT_BY_OTHERS, MOST_P = 0.8, 3.0
OUT_OF_BOUNDS = "preemptible.lifetime.out_of_bounds"
LONG_US = 8 * HOUR_US
_LONGEST_US = 365 * DAY_US
_WORKLOAD = (OTHERS, PLAYER)


class Figure(NamedTuple):
    """The figure that a game came to, and the bar: the most that it may be, or the least."""

    name: str
    found: float
    bar: float
    is_least: bool = False

    @property
    def holds(self) -> bool:
        """True if the bar is kept."""
        return self.found >= self.bar if self.is_least else self.found <= self.bar

    def text(self) -> str:
        """Return a line."""
        sign = "least" if self.is_least else "most"
        return f"{' ' if self.holds else '!'} {self.name:52} {self.found:10.4f}  at {sign} {self.bar:.4f}"


@dataclass
class Table:
    """The games that are played on one platform under one promise. The honest workload is played once."""

    served: Served
    name: str
    platform: Platform
    calls: Sequence[Call]
    sla: float
    policy: dict[str, Any] = field(default_factory=dict)
    _honest: Played | None = None

    @property
    def honest(self) -> Played:
        """The workload as it is."""
        if self._honest is None:
            self._honest = self.play("honest", self.calls)
        return self._honest

    def play(self, game: str, calls: Sequence[Call]) -> Played:
        """Play calls in a cloud of their own."""
        policy = POLICY | {"eviction_probability": self.sla} | self.policy
        return play(self.served, f"{self.name}-{game}", self.platform.capacities, calls, policy)

    def evicted(self, name: str, played: Side, honest: Side) -> Figure:
        """Return the lower end of the interval of what was evicted, beside p."""
        low, _ = exact_interval(played.evicted, played.admitted)
        usual, _ = exact_interval(honest.evicted, honest.admitted)
        return Figure(f"{name}, evicted (lower end)", low, max(self.sla, usual))

    def others(self, played: Played) -> Iterator[Figure]:
        """Yield what became of those who do not play."""
        now, usual = played.side(OTHERS), self.honest.side(OTHERS)
        yield self.evicted("others", now, usual)
        yield Figure("others, admitted of those asked for", _share(now), _share(usual) - CHANCE, is_least=True)


def farm(table: Table, lifetimes_us: Sequence[int] = (SECOND_US, 60 * SECOND_US)) -> Iterator[Figure]:
    """Yield what starts of no length, and of short ones, cost and earn."""
    for lifetime_us in lifetimes_us:
        played = table.play(f"farm-{lifetime_us // SECOND_US}", farming(farming(table.calls, 0), lifetime_us))
        empty = sum(one.name.startswith("farm-0-") for one in played.calls)
        refused = played.refused[PLAYER, OUT_OF_BOUNDS]
        yield Figure("starts of 0 s, refused of those asked for", refused / empty, 1.0, is_least=True)
        yield from table.others(played)
        now, usual = (_share(one.side(PLAYER, of=_is_risky)) for one in (played, table.honest))
        what = f"risky starts of who farms with {lifetime_us // SECOND_US} s, admitted"
        yield Figure(what, now, usual + RISKY_CHANCE)


def flicker(table: Table) -> Iterator[Figure]:
    """Yield what long starts that are stopped at once cost and earn."""
    played = table.play("flicker", flickering(table.calls))
    yield from table.others(played)
    now, usual = (_share(one.side(PLAYER, of=_is_risky_to_its_end)) for one in (played, table.honest))
    yield Figure("risky starts of who flickers, admitted", now, usual + RISKY_CHANCE)
    risky, before = (one.side(PLAYER, of=_is_risky_to_its_end) for one in (played, table.honest))
    yield table.evicted("risky starts of who flickers", risky, before)


def hogs(table: Table) -> Iterator[Figure]:
    """Yield what those leave to others who want all for ever."""
    played = table.play("hogs", hogging(hogging(table.calls, TEN_YEARS_US), _LONGEST_US))
    refused = played.refused[HOGS, OUT_OF_BOUNDS]
    yield Figure("hogs of ten years, refused", refused, HOG_COUNT, is_least=True)
    now, usual = (one.side(*_WORKLOAD).completed_core_us for one in (played, table.honest))
    yield Figure("others, core-hours of those without hogs", now / usual, KEPT_BY_OTHERS, is_least=True)
    yield table.evicted("others", played.side(*_WORKLOAD), table.honest.side(*_WORKLOAD))


def longest(table: Table) -> Iterator[Figure]:
    """Yield what those leave to others who take all that can be promised."""
    return _taken(table, "longest", 1)


def groups(table: Table) -> Iterator[Figure]:
    """Yield what those leave to others who do so in groups."""
    return _taken(table, "groups", MEMBERS)


def _taken(table: Table, game: str, members: int) -> Iterator[Figure]:
    played = table.play(game, taking(table.calls, members))
    now, usual = (one.side(*_WORKLOAD).completed_core_us for one in (played, table.honest))
    yield Figure("others, core-hours of those without them", now / usual, KEPT_BY_OTHERS, is_least=True)
    yield table.evicted("others", played.side(*_WORKLOAD), table.honest.side(*_WORKLOAD))
    hogs_now = played.side(HOGS)
    yield Figure("hogs, admitted", hogs_now.admitted, 1.0, is_least=True)
    yield Figure("hogs, evicted (lower end)", exact_interval(hogs_now.evicted, hogs_now.admitted)[0], table.sla)


def loop(table: Table) -> Iterator[Figure]:
    """Yield what becomes of one who declares little and asks for more again and again, and of the others."""
    played = table.play("loop", looping(table.calls))
    now, usual = (one.side(PLAYER, of=_is_looped) for one in (played, table.honest))
    yield table.evicted("who asks again and again", now, usual)
    yield from table.others(played)
    ours, theirs = (one.side(OTHERS).completed_core_us for one in (played, table.honest))
    yield Figure("others, core-hours of those without it", ours / theirs, 1 - CHANCE, is_least=True)


def surf(table: Table) -> Iterator[Figure]:
    """Yield what becomes of a burst at the ebb, and of its stratum."""
    played = table.play("surf", surfing(table.calls))
    now, usual = (one.side(*_WORKLOAD, SURFER, of=_has_surfed_length) for one in (played, table.honest))
    yield table.evicted("stratum of the burst", now, usual)
    burst = played.side(SURFER)
    yield Figure("burst, evicted of admitted, in p", burst.evicted / max(burst.admitted, 1) / table.sla, MOST_P)
    yield Figure("burst, admitted of those asked for", _share(burst), 0.5, is_least=True)
    yield from table.others(played)


def lie(table: Table) -> Iterator[Figure]:
    """Yield what one who declares a minute completes, of all its work and of what lasts for more than 8 h."""
    played = table.play("lie", lying(table.calls, [PLAYER]))
    now, usual = (one.side(PLAYER).completed_core_us for one in (played, table.honest))
    yield Figure("liar, core-hours of those when honest", now / usual, 1.0)
    share, honest = (_completed_share(one.side(PLAYER, of=_is_long)) for one in (played, table.honest))
    yield Figure("liar, long work completed, as when honest", share, honest)
    share, others = (_completed_share(played.side(caller, of=_is_like_others)) for caller in (PLAYER, OTHERS))
    yield Figure("liar, long work like others', as others do", share, others)
    yield from table.others(played)


def all_lie(table: Table) -> Iterator[Figure]:
    """Yield how much the service says of it if nobody declares what is true."""
    played = table.play("all-lie", lying(table.calls, _WORKLOAD))
    side = played.side(*_WORKLOAD)
    overran = sum(one.lifetime_us > one.declared_us for one in played.calls if one.name in played.fates)
    least = 0.9 * overran / side.admitted
    with TenureClient(table.served.url, table.served.token) as client:
        for name, share in _told_shares(client, played.cloud):
            yield Figure(f"overran of those admitted, {name}", share, least, is_least=True)
        strata = [one for found in client.sla(played.cloud).classes for one in found.strata if one.admitted]
        said = sum("declared lifetime" in one.sentence for one in strata)
        yield Figure("verdicts that say so", said / len(strata), 1.0, is_least=True)


def _told_shares(client: TenureClient, cloud: str) -> Iterator[tuple[str, float]]:
    """Yield the share that overran, as each place tells it."""
    sections = [one for found in client.sla(cloud).classes for one in found.strata]
    yield "by /sla", sum(one.overran for one in sections) / sum(one.admitted for one in sections)
    metrics = client.cloud_metrics()
    overran, admitted = (_metric(metrics, cloud, name) for name in ("overran", "admitted"))
    yield "by the metrics (its alert is at .5)", overran / admitted
    for owner in client.owners(cloud):
        if owner.name in {owner_of(cloud, caller) for caller in _WORKLOAD}:
            yield f"by the owner {owner.name.rpartition('-')[2]}", owner.overran_share or 0.0


def _metric(text: str, cloud: str, name: str) -> float:
    """Return the sum of a metric over the flavors of a cloud."""
    pattern = rf'^tenure_cloud_flavor_{name}_instances{{.*cloud="{re.escape(cloud)}".*}} (\S+)$'
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))


def _share(side: Side) -> float:
    return side.admitted / side.asked


def _completed_share(side: Side) -> float:
    """Return the completed core-hours of those asked for."""
    return side.completed_core_us / max(side.asked_core_us, 1)


def _is_long(one: Call) -> bool:
    """Return True if it truly lasts for more than 8 h, whatever it declares."""
    return one.lifetime_us > LONG_US


def _is_like_others(one: Call) -> bool:
    """Return True for long work of the workload, in which all callers have the same chances."""
    return _is_long(one) and one.lifetime_us != RISKY_US


def _is_looped(one: Call) -> bool:
    """Return True if the player would ask for it in steps."""
    return one.lifetime_us > LOOP_US


def _is_risky_to_its_end(one: Call) -> bool:
    return _is_risky(one) and one.lifetime_us == RISKY_US


def _is_risky(one: Call) -> bool:
    return one.declared_us == RISKY_US


def _has_surfed_length(one: Call) -> bool:
    return stratum_of(one.declared_us) == stratum_of(SURF_US)


GAMES: dict[str, Callable[[Table], Iterator[Figure]]] = {
    "farm": farm,
    "hogs": hogs,
    "surf": surf,
    "lie": lie,
    "all-lie": all_lie,
    "loop": loop,
    "longest": longest,
    "groups": groups,
    "flicker": flicker,
}


def main() -> None:
    """Print a line for each figure; exit with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=named, nargs="*", default=[*map(named, PLATFORMS)], metavar="PAIR:NxC")
    parser.add_argument("--sla", type=float, nargs="*", default=(0.01, 0.05))
    parser.add_argument("--games", nargs="*", default=[*GAMES], choices=[*GAMES])
    parser.add_argument("--days", type=int, default=42, help="how much of each workload is played")
    parser.add_argument("--traces", type=Path, default=TRACES)
    arguments = parser.parse_args()
    with serving() as served:
        sys.exit(0 if all([*_held(arguments, served)]) else 1)


def _held(arguments: argparse.Namespace, served: Served) -> Iterator[bool]:
    """Play all, print, and yield which bars were kept."""
    for number, platform in enumerate(arguments.platforms):
        calls = calls_of(platform.workload(arguments.traces), arguments.days * DAY_US)
        for sla in arguments.sla:
            print(f"{platform.platform}, {arguments.days} days, p = {sla}", flush=True)
            table = Table(served, f"g{number}-{round(1000 * sla)}", platform, calls, sla)
            for game in arguments.games:
                for figure in GAMES[game](table):
                    print(f"  {game:8}{figure.text()}", flush=True)
                    yield figure.holds


if __name__ == "__main__":
    main()
