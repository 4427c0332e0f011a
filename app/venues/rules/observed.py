"""Survival of machines that a provider takes back for lack of capacity, from what was observed of them.

Own instances and probes give *runs*: the ages at which a machine was first and last known to live, and if it was taken
back then. Kaplan-Meier by age counts a run only from the age at which it was first seen (delayed entry). A pool's
estimate is pooled with those of its family in the zone, of the zone and of the region, by how many revocations each
has seen. What a provider tells is the prior of all, worth one revocation.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import exp, log
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US, SECOND_US
from app.engine.cluster import Bools, Ints
from app.venues.rules.bounds import least_survival
from app.venues.rules.history import PoolName
from app.venues.rules.rates import ProviderRate, RateKind

POOLED = 20.0
"""A pool's estimate and that of what it belongs to weigh the same at so many revocations."""
_PRIOR = 1.0
"""The revocations that a provider's rate is worth."""
_MONTH_US = 30 * DAY_US
_MOST_SEEN = 50_000
_UP_TO_SIZE = re.compile(r"[^0-9]*")
_NOTICE_US = 600 * SECOND_US
"""An instance that ends within this time of a notice was revoked."""


class SightingKind(StrEnum):
    """The kind of something that was seen of an instance, or by a probe, a look whether a machine can be had."""

    STARTED = "started"
    REVOKED = "revoked"
    ENDED = "ended"
    PROBE_UP = "probe_up"
    PROBE_DOWN = "probe_down"
    NOTICE = "notice"


_PROBES = {SightingKind.PROBE_UP, SightingKind.PROBE_DOWN}


class Sighting(NamedTuple):
    """Something that was seen of a pool. `instance` names what was looked at: an instance, or a series of probes."""

    pool: PoolName
    instance: str
    at_us: int
    kind: SightingKind


class SeenOne(NamedTuple):
    """Something that was seen of a known pool."""

    instance: str
    at_us: int
    kind: SightingKind


class ObservedRun(NamedTuple):
    """A machine's ages when it was first and last known to live, and if it was taken back then."""

    from_us: int
    to_us: int
    revoked: bool


class QuoteSource(StrEnum):
    """The origin of an estimate of survival."""

    PRICE_CROSSING = "price_crossing"
    LEARNED = "learned"
    OBSERVED = "observed"
    PROVIDER_RATE = "provider_rate"


@dataclass(frozen=True, slots=True)
class ObservedSurvival:
    """An estimate for a pool: the share that lives, what it is at least, and the evidence for that."""

    share: float
    at_least: float
    windows: int
    revocations: int
    source: QuoteSource


class PoolRuns(NamedTuple):
    """The runs of one pool as arrays, and the times at which those machines began of which no end was told."""

    from_us: Ints
    to_us: Ints
    revoked: Bools
    begun_us: Ints

    def until(self, until_us: int) -> PoolRuns:
        """Return them as of a time, by which all of it was seen: of whose end nothing was told lived until then."""
        lived_us = until_us - self.begun_us[self.begun_us < until_us]
        return PoolRuns(
            np.concatenate([self.from_us, np.zeros(len(lived_us), np.int64)]),
            np.concatenate([self.to_us, lived_us]),
            np.concatenate([self.revoked, np.zeros(len(lived_us), np.bool_)]),
            self.begun_us[:0],
        )


def as_arrays(runs: Sequence[ObservedRun], begun_us: Sequence[int] = ()) -> PoolRuns:
    """Return runs as arrays, in the same order, with the times at which those began that still live."""
    return PoolRuns(
        np.array([run.from_us for run in runs], np.int64),
        np.array([run.to_us for run in runs], np.int64),
        np.array([run.revoked for run in runs], np.bool_),
        np.array(begun_us, np.int64),
    )


def runs_of(seen: Iterable[Sighting], until_us: int) -> dict[PoolName, PoolRuns]:
    """Return the runs of each pool from what was seen by a time, in any order."""
    of_pool = defaultdict[PoolName, list[SeenOne]](list)
    for one in seen:
        if one.at_us <= until_us:
            of_pool[one.pool].append(SeenOne(*one[1:]))
    found = {pool: runs_of_pool(some).until(until_us) for pool, some in sorted(of_pool.items())}
    return {pool: runs for pool, runs in found.items() if len(runs.to_us)}


def runs_of_pool(seen: Iterable[SeenOne]) -> PoolRuns:
    """Return the runs of one pool from what was seen of it, in any order."""
    of_one = defaultdict[str, list[tuple[int, SightingKind]]](list)
    for instance, at_us, kind in seen:
        of_one[instance].append((at_us, kind))
    found, living = list[ObservedRun](), list[int]()
    for told in of_one.values():
        told.sort(key=lambda one: (one[0], one[1] is not SightingKind.NOTICE, one[1]))
        ended, begun_us = _runs_of_instance(told)
        found += ended + _runs_of_probes(told)
        living += [] if begun_us is None else [begun_us]
    return as_arrays(found, living)


def _runs_of_instance(told: Sequence[tuple[int, SightingKind]]) -> tuple[list[ObservedRun], int | None]:
    """Return the runs between a start and what ended it, and the start of one of which no end is told."""
    found, begun_us, noticed_us = [], None, None
    for at_us, kind in told:
        if kind is SightingKind.STARTED and begun_us is None:
            begun_us, noticed_us = at_us, None
        elif kind is SightingKind.NOTICE:
            noticed_us = at_us
        elif kind in {SightingKind.REVOKED, SightingKind.ENDED} and begun_us is not None:
            was_told = noticed_us is not None and at_us - noticed_us <= _NOTICE_US
            found.append(ObservedRun(0, at_us - begun_us, kind is SightingKind.REVOKED or was_told))
            begun_us = None
    return [run for run in found if run.to_us > 0 or run.revoked], begun_us


def _runs_of_probes(told: Sequence[tuple[int, SightingKind]]) -> list[ObservedRun]:
    """Return the runs that probes saw. What changed between two of them is taken to have changed in the middle.

    A run that was up at the first probe has an unknown age, and does not count.
    """
    probes = [(at_us, kind is SightingKind.PROBE_UP) for at_us, kind in told if kind in _PROBES]
    found, begun_us, seen_us = [], None, 0
    for (before_us, was_up), (at_us, is_up) in itertools.pairwise(probes):
        middle_us = (before_us + at_us) // 2
        if is_up and not was_up:
            begun_us, seen_us = middle_us, at_us
        elif was_up and not is_up and begun_us is not None:
            found.append(ObservedRun(seen_us - begun_us, max(middle_us, seen_us) - begun_us, revoked=True))
            begun_us = None
    if begun_us is not None and probes[-1][0] > seen_us:
        found.append(ObservedRun(seen_us - begun_us, probes[-1][0] - begun_us, revoked=False))
    return found


class RunEvidence:
    """Runs as they are asked for many lifetimes: those revoked by age, each age with the share that lived through it.

    At each age at which one was revoked, those count that entered before it and were not gone before it.
    """

    def __init__(self, parts: Sequence[PoolRuns]) -> None:
        runs = as_arrays([]) if not parts else PoolRuns(*(np.concatenate(some) for some in zip(*parts, strict=True)))
        self._lived_us = runs.to_us - runs.from_us
        self.count, self.revoked = len(self._lived_us), int(runs.revoked.sum())
        self.lived_us = float(self._lived_us.sum(dtype=np.float64))
        from_us, to_us = np.sort(np.where(runs.from_us == 0, -1, runs.from_us)), np.sort(runs.to_us)
        self._ages, lost = np.unique(runs.to_us[runs.revoked], return_counts=True)
        at_risk = from_us.searchsorted(self._ages, side="left") - to_us.searchsorted(self._ages, side="left")
        self._lived_on = 1.0 - lost / np.maximum(at_risk, lost)

    def share_living(self, lifetime_us: int) -> float:
        """Return the Kaplan-Meier estimate of P(T >= lifetime) with delayed entry; 1 without a revocation."""
        return float(np.prod(self._lived_on[: self._ages.searchsorted(lifetime_us, side="left")]))

    def windows(self, lifetime_us: int) -> int:
        """Return how many lifetimes lie in the runs, one after another in each."""
        return int((self._lived_us // lifetime_us).sum(dtype=np.float64))


class _Shown(NamedTuple):
    """The evidence of runs for a lifetime: how many they are and were revoked, who lives, lifetimes, the time lived."""

    runs: int
    revoked: int
    share: float
    windows: int
    lived_us: float


class ObservedPools:
    """The runs of all pools of a venue, and what providers told of them.

    What several pools belong to is looked at once for a lifetime.
    """

    def __init__(self, runs: Mapping[PoolName, PoolRuns], rates: Mapping[PoolName, ProviderRate]) -> None:
        self._rates = rates
        self._runs = defaultdict[tuple[str, ...], list[PoolRuns]](list)
        for pool, of_pool in runs.items():
            for words in _belongs(pool):
                self._runs[words].append(of_pool)
        self._evidence: dict[tuple[str, ...], RunEvidence] = {}
        self._seen: dict[tuple[tuple[str, ...], int], _Shown] = {}

    def survival(self, pool: PoolName, lifetime_us: int, effect: int, confidence: float) -> ObservedSurvival | None:
        """Return the estimate for a pool; None if nothing was observed in its region, nor told by its provider."""
        levels = [self._shown(words, lifetime_us) for words in _belongs(pool)]
        share, source = self._prior(pool, levels[0], lifetime_us)
        if not levels[0].runs and source is None:
            return None
        for number, level in enumerate(levels):
            weight = _weight(level, is_root=number == 0, has_prior=source is not None)
            share = weight * level.share + (1.0 - weight) * share if level.runs else share
        named, own = QuoteSource.OBSERVED if levels[0].runs else QuoteSource.PROVIDER_RATE, levels[-1]
        at_least = min(least_survival(share, own.windows, effect, confidence), share)
        return ObservedSurvival(share, at_least, own.windows, own.revoked, named)

    def _shown(self, words: tuple[str, ...], lifetime_us: int) -> _Shown:
        found = self._seen.get((words, lifetime_us))
        if found is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            if (evidence := self._evidence.get(words)) is None:
                evidence = self._evidence[words] = RunEvidence(self._runs.get(words, ()))
            found = self._seen[words, lifetime_us] = _shown(evidence, lifetime_us)
        return found

    def _prior(self, pool: PoolName, of_region: _Shown, lifetime_us: int) -> tuple[float, QuoteSource | None]:
        """Return what the provider's rate says, and if it says anything."""
        rate = self._rates.get(pool) or self._rates.get(pool._replace(zone=pool.region))
        if rate is None:
            return 1.0, None
        per_us = _hazard(rate, of_region)
        return (1.0, None) if per_us is None else (exp(-per_us * lifetime_us), QuoteSource.PROVIDER_RATE)


def _shown(found: RunEvidence, lifetime_us: int) -> _Shown:
    share, windows = found.share_living(lifetime_us), found.windows(lifetime_us)
    return _Shown(found.count, found.revoked, share, windows, found.lived_us)


def _weight(level: _Shown, *, is_root: bool, has_prior: bool) -> float:
    """Return the weight of a level's own estimate beside what was said before it."""
    if is_root:
        return level.revoked / (level.revoked + _PRIOR) if has_prior else 1.0
    return level.revoked / (level.revoked + POOLED) if level.runs else 0.0


def _hazard(rate: ProviderRate, of_region: _Shown) -> float | None:
    """Return the revocations of a machine in a microsecond; of a share of stops, by how often own machines stop."""
    if rate.kind is RateKind.OF_A_MONTH:
        return -log(1.0 - min(rate.share, 0.999)) / _MONTH_US
    return rate.share * of_region.runs / of_region.lived_us if of_region.lived_us else None


@lru_cache(maxsize=_MOST_SEEN)
def _belongs(pool: PoolName) -> tuple[tuple[str, ...], ...]:
    """Return what a pool belongs to, from the largest: its region, its zone, its family of types, its type."""
    words = (
        f"{pool.provider} {pool.region} {pool.product}",
        pool.zone,
        family_of(pool.instance_type),
        pool.instance_type,
    )
    return tuple(words[:level] for level in range(1, len(words) + 1))


def family_of(instance_type: str) -> str:
    """Return the family of a machine type: c3 of c3.xlarge, n2-standard of n2-standard-4, Standard_D of Standard_D2_v3.

    Amazon's and Google's types end with the size, Azure's have it after the family's letters.
    """
    if "." in instance_type:
        return instance_type.split(".", 1)[0]
    if "-" in instance_type:
        return instance_type.rsplit("-", 1)[0]
    return _UP_TO_SIZE.match(instance_type)[0]  # type: ignore[index] # it matches every text
