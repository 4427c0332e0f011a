"""Sentences on what an estimate was, how sure it was, and what it rested on."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.risks import risk_in_words, windows_needed
from app.domain.values import Basis, Forecast
from app.explaining.rules.explanations import Explanation, Ground


def estimate_in_words(explanation: Explanation, basis: Basis) -> Iterator[str]:
    """Say what the table estimated for the declared lifetime, how sure that is, and how much was observed for it."""
    estimate, ground = basis.estimated_probability, explanation.ground
    if estimate is not None and estimate < 1:
        there = None if ground is None else ground.window_count or None
        windows = there if basis.windows is None else basis.windows
        confidence = explanation.policy.confidence
        needed = windows_needed(basis)
        risk = risk_in_words(estimate, basis.probability_bound, windows, confidence, basis.probability, needed)
        yield f"The risk, the probability of an eviction within the declared lifetime, was estimated at {risk}."
    elif estimate is not None:
        yield "The table knew no probability for the declared lifetime: nothing observed had run that long."
    if explanation.policy.forecast is Forecast.CALIBRATED:
        yield from _windows(ground)
    yield from _evidence(ground)


def _windows(ground: Ground | None) -> Iterator[str]:
    if ground is not None:
        yield "That rested on how the on-demand load had risen in the history, in windows as long as it or six hours."
        if ground.start_count:
            yield f"Its level came from what became of {_count(ground.start_count, 'past start')}, admitted or not."
        if ground.design_effect > 1:
            yield f"In its bound {ground.design_effect} windows count as one: bursts strike many instances at once."


def _evidence(ground: Ground | None) -> Iterator[str]:
    if ground is None or not ground.evidence:
        return
    seen = [
        f"{_count(one.sample_count, 'sample')} at {_count(one.slots, 'slot')} "
        f"({one.evicted_count} evicted sooner or later)"
        for one in ground.evidence
    ]
    are_all = ground.window_count == sum(one.sample_count for one in ground.evidence)
    apart = "" if are_all else f", {ground.window_count} of them independent of each other for so long a lifetime"
    yield f"That rested on {' and '.join(seen)}{apart}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
