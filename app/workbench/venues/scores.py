"""Scores of probability forecasts."""

from __future__ import annotations

import numpy as np

from app.venues.rules.history import Dollars

_EDGE = 1e-3
_BINS = 10


def scores_of(chances: Dollars, survived: Dollars) -> dict[str, float | int | None]:
    """Return Brier score, log loss (chances kept 0.001 from 0 and 1), AUC, and expected calibration error (10 bins)."""
    if not len(chances):
        return {"brier": None, "log_loss": None, "auc": None, "ece": None, "count": 0}
    kept = np.clip(chances, _EDGE, 1 - _EDGE)
    loss = -(survived * np.log(kept) + (1 - survived) * np.log(1 - kept))
    return {
        "brier": float(np.mean((chances - survived) ** 2)),
        "log_loss": float(loss.mean()),
        "auc": area_under_curve(chances, survived),
        "ece": calibration_error(chances, survived),
        "count": len(chances),
    }


def area_under_curve(chances: Dollars, survived: Dollars) -> float | None:
    """Return the chance that a survivor was given more than a victim, ties counting half; None without both."""
    _values, at, counts = np.unique(chances, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    alive = int(survived.sum())
    dead = len(survived) - alive
    if not alive or not dead:
        return None
    return float((ranks[at][survived > 0].sum() - alive * (alive + 1) / 2) / (alive * dead))


def calibration_error(chances: Dollars, survived: Dollars) -> float:
    """Return the mean distance of what was said and what happened, over ten bins of equal width."""
    bins = np.minimum((chances * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=chances - survived, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(chances))
