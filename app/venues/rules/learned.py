"""The learned survival: one logistic model for all pools of a venue, fitted to what past bids met.

Outcomes are those of bids drawn at random at past moments, so none needs to have been made. A small penalty keeps the
weights finite. Newton's method needs some ten rounds; the result depends on the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.venues.rules.history import Dollars

PENALTY = 3.0
_ROUNDS = 30
_ENOUGH = 1e-9
_WIDEST = 30.0


@dataclass(frozen=True, slots=True)
class LearnedSurvival:
    """Weights of the standardised features; the first weight is the constant."""

    mean: Dollars
    scale: Dollars
    weights: Dollars

    def chances(self, rows: Dollars) -> Dollars:
        """Return the probability to survive for each row of features."""
        return _sigmoid(_design(rows, self.mean, self.scale) @ self.weights)


def fit_survival(rows: Dollars, survived: Dollars) -> LearnedSurvival:
    """Return the model of rows of features (n, f) and outcomes (n) of 0 and 1."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale < _ENOUGH] = 1.0
    design = _design(rows, mean, scale)
    penalty = np.full(design.shape[1], PENALTY)
    penalty[0] = 0.0 if 0.0 < survived.mean() < 1.0 else PENALTY
    weights = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        chance = _sigmoid(design @ weights)
        slope = design.T @ (survived - chance) - penalty * weights
        curve = (design * (chance * (1.0 - chance))[:, None]).T @ design + np.diag(penalty + _ENOUGH)
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < _ENOUGH:
            break
    return LearnedSurvival(mean, scale, weights)


def _design(rows: Dollars, mean: Dollars, scale: Dollars) -> Dollars:
    return np.column_stack((np.ones(len(rows)), np.clip((rows - mean) / scale, -5.0, 5.0)))


def _sigmoid(values: Dollars) -> Dollars:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -_WIDEST, _WIDEST))), np.float64)
