"""The learning of a cloud's level in plain Python: every past start by itself, each from the whole log anew.

The curves, the outlook and the estimate are the product's, which have oracles of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, log, log1p
from typing import NamedTuple

from app.domain.events import Event, InstanceEvicted, InstanceRejected, InstanceStarted, Recorded
from app.domain.strata import STRATA, stratum_of
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import EvictionReason, Market, Policy, Resources
from app.engine.cloud import Cloud
from app.engine.outlook import Outlook
from app.forecast.bound import upper_bound
from app.forecast.calibrated import eviction_probability
from app.forecast.level import DEVIATION, MEAN, Cases, count_case
from app.forecast.replayed import History
from app.forecast.rise import RiseHistory, Rises
from oracles.replay import NaiveHistory

LONGEST_US = 600_000_000 * 2**13


class Known(NamedTuple):
    """A start with a known end."""

    lifetime_us: int
    said: float
    evicted: bool
    admitted: bool = True
    at_us: int = 0
    known_us: int = 0


class Started(NamedTuple):
    """A followed start. `known`: None if its end is not known; rises: the curves that it was read with."""

    at_us: int
    lifetime_us: int
    outlook: Outlook
    rises: Rises
    known: Known | None
    begin_us: int


def known_starts(log_: Sequence[Recorded], policy: Policy, until_us: int) -> Iterator[Known]:
    """Return the starts that were followed and whose ends are known at `until_us`."""
    return (one.known for one in followed_starts(log_, policy, until_us) if one.known is not None)


def followed_starts(log_: Sequence[Recorded], policy: Policy, until_us: int) -> Iterator[Started]:
    """Return the starts that were followed before `until_us`, without those that a drill ended."""
    before = [item for item in log_ if item.event.at_us < until_us]
    naive = NaiveHistory(list(before), replace(policy, horizon_us=LONGEST_US + 1), until_us)
    next_us: dict[str, int] = {}
    next_rejected_us: dict[str, int] = {}
    curves: dict[int, Rises | None] = {}
    begin_us = log_[0].event.at_us
    for at, item in enumerate(before):
        event = item.event
        if not is_spot_start(event):
            continue
        lifetime_us, day_us = event.lifetime_us or 0, begin_us + (event.at_us - begin_us) // DAY_US * DAY_US
        stratum, is_rejected = stratum_of(lifetime_us), isinstance(event, InstanceRejected)
        if day_us == begin_us or lifetime_us > LONGEST_US or event.at_us < next_us.get(stratum, 0):
            continue
        if is_rejected and event.at_us < next_rejected_us.get(stratum, 0):
            continue
        outlook = outlook_before(others_placed(before[:at], item), event.flavor, event.at_us)
        if not outlook.slots:
            continue
        next_us[stratum] = event.at_us + max(HOUR_US // 12, lifetime_us // 32)
        is_known = True
        if is_rejected:
            next_rejected_us[stratum] = event.at_us + max(HOUR_US // 3, lifetime_us // 8)
            lasted_us, was_evicted = naive.follow(item)
            ended_us = event.at_us + lasted_us if was_evicted else None
        else:
            end = next((i.event for i in before[at:] if _is_eviction(i, event.instance_id)), None)
            ended_us = end.at_us if end else None
            is_known = end is None or end.reason is not EvictionReason.DRILL or end.at_us > event.at_us + lifetime_us
        evicted = ended_us is not None and ended_us <= event.at_us + lifetime_us
        known, rises = None, curves.setdefault(day_us, None) or curves_at(before, day_us)
        curves[day_us] = rises
        if evicted or event.at_us + lifetime_us < until_us:
            said = eviction_probability(rises, outlook, lifetime_us)
            known_us = ended_us if evicted and ended_us is not None else event.at_us + lifetime_us
            known = Known(lifetime_us, said, evicted, not is_rejected, event.at_us, known_us)
        if is_known:
            yield Started(event.at_us, lifetime_us, outlook, rises, known, begin_us)


def is_spot_start(event: Event) -> bool:
    """Return True for a start that may be followed; rejected groups and what goes first are not."""
    if isinstance(event, InstanceRejected) and event.count > 1:
        return False
    if isinstance(event, InstanceStarted) and event.goes_first:
        return False
    return isinstance(event, InstanceStarted | InstanceRejected) and event.market is Market.SPOT


def others_placed(before: Sequence[Recorded], item: Recorded) -> list[Recorded]:
    """Return the log as if all members of the group but the last had just been started: that one is followed."""
    event = item.event
    if isinstance(event, InstanceRejected) or event.count == 1:
        return [*before]
    return [*before, Recorded(item.seq, replace(event, nodes=event.nodes[:-1]))]


def _is_eviction(item: Recorded, name: str) -> bool:
    return isinstance(item.event, InstanceEvicted) and item.event.instance_id == name


def outlook_before(before: Sequence[Recorded], flavor: str, at_us: int) -> Outlook:
    """Return the outlook of a start in the state that the log gives."""
    cloud = Cloud()
    cloud.apply_recorded(before)
    return cloud.outlook(flavor, at_us)


def curves_at(log_: Sequence[Recorded], until_us: int) -> Rises:
    """Return the curves of the log before a moment."""
    history = History()
    history.extend(log_)
    rises = RiseHistory(log_[0].event.at_us, len(Resources._fields))
    rises.extend(history.operations(until_us), history.node_count, history.row_count, until_us)
    return rises.publish()


def effects_of(starts: Sequence[Started], until_us: int) -> list[float]:
    """Return the design effect of each stratum, from spans of six hours that are over and known throughout."""
    spans: dict[tuple[str, int], list[Started]] = defaultdict(list)
    for one in starts:
        spans[stratum_of(one.lifetime_us), one.at_us // (6 * HOUR_US)].append(one)
    closed = [
        (stratum, members)
        for (stratum, number), members in spans.items()
        if (number + 1) * 6 * HOUR_US <= until_us and all(one.known for one in members)
    ]
    said = {id(one): _said_then(one, starts) for _, members in closed for one in members}
    found, highest = [], 1.0
    for stratum, before in zip(STRATA, (1, 2, 4, 4, 4), strict=True):
        own = [members for name, members in closed if name == stratum]
        for effect in (1, 2, 4, 8, 16, 32, 64):
            covered = sum(_is_covered(members, said, effect) for members in own)
            share = (covered + 5 * (1.0 if effect >= before else 0.8)) / (len(own) + 5)
            if share >= 0.95:
                break
        highest = max(highest, effect)
        found.append(highest)
    return found


def _said_then(one: Started, starts: Sequence[Started]) -> float:
    """Return what the forecast said of a start, with the level of the last whole day before it."""
    known = [other.known for other in starts if other.known and other.known.known_us < _day_of(one)]
    level = _level_by_cases(known, one.rises.seen_us)
    return eviction_probability(one.rises._replace(level=level), one.outlook, one.lifetime_us)


def _is_covered(members: Sequence[Started], said: dict[int, float], effect: int) -> bool:
    bounds = 0.0
    for one in members:
        windows = one.rises.seen_us / max(one.lifetime_us, 6 * HOUR_US) / effect
        risk = said[id(one)]
        bounds += 1.0 if windows * (1 - risk) < log(20) else upper_bound(risk, windows, 0.95)
    return sum(one.known.evicted for one in members if one.known) <= bounds


def _day_of(one: Started) -> int:
    """Return the end of the history that the start's curves were made of."""
    return one.at_us - (one.at_us - one.begin_us) % DAY_US


def _level_by_cases(known: Sequence[Known], seen_us: int) -> float:
    """Return the level as the product rounds it to bins; `level_of` is its oracle."""
    cases = Cases()
    for one in known:
        count_case(cases.counts, one.said, one.lifetime_us, int(one.evicted))
    return cases.level(seen_us)


def evidence_of(known: Sequence[Known], seen_us: int) -> list[list[float]]:
    """Return starts, evicted ones and windows of each stratum."""
    found = []
    for stratum in STRATA:
        rows = [one for one in known if stratum_of(one.lifetime_us) == stratum]
        windows = sum(seen_us / max(one.lifetime_us, 6 * HOUR_US) for one in rows) / max(len(rows), 1)
        found.append([len(rows), sum(one.evicted for one in rows), windows])
    return found


def level_of(known: Sequence[Known], seen_us: int) -> float:
    """Return the most likely level: the peak of the posterior, found by thirds."""
    windows = dict(zip(STRATA, evidence_of(known, seen_us), strict=True))
    weights = {stratum: min(1.0, row[2] / max(row[0], 1)) for stratum, row in windows.items()}

    def likelihood(level: float) -> float:
        found = -((level - MEAN) ** 2) / (2 * DEVIATION**2)
        for one in known:
            score = log(one.said / (1 - one.said)) + level
            found -= weights[stratum_of(one.lifetime_us)] * _softplus(-score if one.evicted else score)
        return found

    low, high = -20.0, 20.0
    for _ in range(200):
        third = (high - low) / 3
        if likelihood(low + third) < likelihood(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def _softplus(x: float) -> float:
    return max(x, 0.0) + log1p(exp(-abs(x)))
