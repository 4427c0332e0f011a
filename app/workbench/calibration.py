"""Compares what a forecast said of followed starts with what happened to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from math import log, log1p
from typing import Any

import numpy as np

from app.domain.strata import STRATA, stratum_of
from app.domain.values import Forecast
from app.forecast.survival import Floats
from app.judging.intervals import exact_interval
from app.judging.truths import SURE
from app.judging.verdicts import judge_estimate, judge_loss
from app.workbench.fates import Case, Said

_DECILES = 10


_NO_CASES: dict[str, Any] = {
    "cases": 0,
    "evicted": 0,
    **dict.fromkeys(("said", "happened", "log_loss", "constant_log_loss", "walk_forward_log_loss", "auc")),
    "deciles": [],
    "strata": {},
    "coverage": {},
}


def calibration_report(cases: Sequence[Case], forecast: Forecast) -> dict[str, Any]:
    """Return the comparison as JSON values. Of no case there are no shares and no losses.

    Losses are means over the cases. `constant_log_loss` is that of the best constant, which is known in hindsight only;
    `walk_forward_log_loss` that of the share evicted among the cases whose end was known at the time. `auc` is the
    probability that an evicted case had a higher estimate than one that was not; None unless there are both.
    """
    known = [(case, case.quoted.said[forecast]) for case in cases if forecast in case.quoted.said]
    if not known:
        return {"forecast": forecast.value, **_NO_CASES}
    said, evicted = _columns(known)
    return {
        "forecast": forecast.value,
        **_losses(said, evicted),
        "walk_forward_log_loss": _rounded(_walk_forward_loss([case for case, _ in known])),
        "auc": _rounded(_auc(said, evicted)),
        "deciles": _deciles(said, evicted),
        "strata": _by_stratum(known, lambda rows: _losses(*_columns(rows))),
        "coverage": _by_stratum(known, _coverage),
    }


def calibration_reports(cases: Sequence[Case], deciding: Forecast) -> dict[str, Any]:
    """Return the comparison of the forecast that decided, and of the other one beside it, as JSON values.

    Without an SLA nothing decides and no replay is made: only the calibrated forecast is told.
    """
    known = {forecast: calibration_report(cases, forecast) for forecast in Forecast}
    first = deciding if known[deciding]["cases"] else Forecast.CALIBRATED
    (other,) = (forecast for forecast in Forecast if forecast is not first)
    return {"calibration": known[first], "calibration_beside": known[other] if known[other]["cases"] else None}


def calibration_words(row: Mapping[str, Any]) -> Sequence[str]:
    """Return the verdicts on the estimates of followed starts, and on their log loss beside a constant's."""
    cases, evicted = row["cases"], row["evicted"]
    estimate = judge_estimate(row["said"], evicted, cases).sentence
    return estimate, judge_loss(row["log_loss"], row["constant_log_loss"], evicted, cases)[1]


Known = tuple[Case, Said]


def _columns(known: Sequence[Known]) -> tuple[Floats, Floats]:
    said = np.array([one.probability for _, one in known])
    return said, np.array([case.evicted_after_us is not None for case, _ in known], float)


def _by_stratum(known: Sequence[Known], tell: Callable[[Sequence[Known]], Mapping[str, Any]]) -> dict[str, Any]:
    rows: dict[str, list[Known]] = defaultdict(list)
    for case, said in known:
        rows[stratum_of(case.quoted.lifetime_us)].append((case, said))
    return {name: tell(rows[name]) for name in STRATA if name in rows}


def _losses(said: Floats, evicted: Floats) -> dict[str, Any]:
    constant = np.full(len(said), evicted.mean())
    return {
        "cases": len(said),
        "evicted": int(evicted.sum()),
        "said": _rounded(float(said.mean())),
        "happened": _rounded(float(evicted.mean())),
        "log_loss": _rounded(log_loss(said, evicted)),
        "constant_log_loss": _rounded(log_loss(constant, evicted, sure=0.0)),
    }


def log_loss(said: Floats, evicted: Floats, sure: float = SURE) -> float:
    """Return the mean logarithmic loss; a certainty that holds costs nothing."""
    bounded = np.clip(said, sure, 1 - sure)
    with np.errstate(divide="ignore"):
        return 0.0 - float(np.log(np.where(evicted > 0, bounded, 1 - bounded)).mean())


def _walk_forward_loss(cases: Sequence[Case]) -> float:
    """Return the loss of (evicted + 1/2) / (known + 1) over the ends that were known at each start."""
    open_: list[tuple[int, bool]] = []
    known = evicted = 0
    loss = 0.0
    for case in cases:
        at_us = case.quoted.at_us
        while open_ and open_[0][0] <= at_us:
            evicted += heappop(open_)[1]
            known += 1
        share = (evicted + 0.5) / (known + 1)
        was_evicted = case.evicted_after_us is not None
        loss -= log(share) if was_evicted else log1p(-share)
        lasted_us = case.quoted.lifetime_us if case.evicted_after_us is None else case.evicted_after_us
        heappush(open_, (at_us + lasted_us, was_evicted))
    return loss / len(cases)


def _auc(said: Floats, evicted: Floats) -> float | None:
    hits, misses = said[evicted > 0], said[evicted == 0]
    if not len(hits) or not len(misses):
        return None
    misses = np.sort(misses)
    below, upto = np.searchsorted(misses, hits), np.searchsorted(misses, hits, side="right")
    return float((below + upto).sum() / 2 / (len(hits) * len(misses)))


def _deciles(said: Floats, evicted: Floats) -> list[dict[str, Any]]:
    """Return tenths of the cases by rising estimate, with the interval of what happened (Clopper-Pearson, 95 %)."""
    found = []
    for part in np.array_split(np.argsort(said, kind="stable"), min(_DECILES, len(said))):
        count, hits = len(part), int(evicted[part].sum())
        low, high = exact_interval(hits, count)
        found.append(
            {
                "said": _rounded(float(said[part].mean())),
                "happened": _rounded(hits / count),
                "low": _rounded(low),
                "high": _rounded(high),
                "cases": count,
            }
        )
    return found


def _coverage(known: Sequence[Known]) -> dict[str, Any]:
    """Count epochs with a bounded case, and those in which no more was evicted than the mean of the bounds."""
    epochs: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    for case, said in known:
        if said.bound is not None:
            epochs[case.quoted.epoch].append((case.evicted_after_us is not None, said.bound))
    means = [np.mean(np.array(rows, float), axis=0) for rows in epochs.values()]
    return {"epochs": len(means), "covered": sum(bool(share <= bound) for share, bound in means)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
