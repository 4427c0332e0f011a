"""The words in which a risk is told everywhere.

A *risk* is the forecast's estimate of the probability that an instance is evicted before its declared lifetime is over
(docs/glossary.md). It never stands alone: its bound and the windows that it rests on tell how sure it is.
"""

from __future__ import annotations

from math import floor

from app.domain.numbers import share_text, told_apart
from app.domain.times import at_least_text, time_text
from app.domain.values import Basis

_NEARLY = 0.05
"""A number of windows that lacks no more than this to a whole one is told as that."""


def risk_in_words(
    risk: float,
    bound: float | None,
    windows: float | None,
    confidence: float | None = None,
    beside: float | None = None,
    needed: int | None = None,
) -> str:
    """Return a risk with its bound and windows; `confidence` is the bound's, None if it is told elsewhere.

    `beside`: the promise, from which the risk is told apart. `needed`: the windows that there had to be, likewise.
    """
    told = risk_beside(risk, beside)
    sure = "" if confidence is None else f" with {share_text(confidence)} confidence"
    known = [] if bound is None else [f"at most {share_text(bound)}{sure}"]
    known += [] if windows is None else [f"on {windows_in_words(windows, needed)}"]
    return f"{told} ({', '.join(known)})" if known else told


def risk_beside(risk: float, promise: float | None) -> str:
    """Return a risk with as many digits as tell it from the promise; all sentences on a decision tell it so."""
    return share_text(risk) if promise is None else told_apart((risk, promise))[risk]


def risk_of_basis(basis: Basis) -> str | None:
    """Return the risk that a decision rested on, with its bound and windows; None if nothing was known of it."""
    risk = basis.estimated_probability
    if risk is None or risk >= 1:
        return None
    needed = windows_needed(basis)
    return risk_in_words(risk, basis.probability_bound, basis.windows, beside=basis.probability, needed=needed)


def windows_needed(basis: Basis) -> int | None:
    """Return the windows for want of which a decision was a refusal; None if it was not refused for that."""
    return None if basis.floor is None else basis.floor.min_windows


def windows_in_words(windows: float, needed: int | None = None) -> str:
    """Return a number of windows with their name. `needed`: how many there had to be, which fewer never read as."""
    return f"{windows_text(windows, needed)} window{'' if windows_text(windows) == '1' else 's'}"


def windows_text(windows: float, needed: int | None = None) -> str:
    """Return a number of windows: whole ones, or the part of the first. Fewer than are `needed` never read as those."""
    told = f"{whole_windows(windows):,}" if windows >= 1 else f"{windows:.2f}".rstrip("0").rstrip(".")
    is_short = needed is not None and windows < needed and told == f"{needed:,}"
    return f"just under {told}" if is_short else told


def whole_windows(windows: float) -> int:
    """Return how many whole windows there are. A past of 90 days less some seconds has nine of ten days."""
    return floor(windows + _NEARLY)


def longest_in_words(lifetime_us: int, *, of_book: bool) -> str:
    """Return the lifetime that is proposed in place of one that was refused.

    A book proposes no more risk than was promised, and may still admit more.
    """
    within = ", the longest within the promise; what the book has earned may admit a longer one" if of_book else ""
    return f"a lifetime of up to {at_least_text(lifetime_us)}{within}"


def floor_in_words(basis: Basis) -> str:
    """Say how many windows there were and are asked for, and when there will be enough; as a clause."""
    assert basis.floor is not None
    there = windows_in_words(basis.windows or 0.0, basis.floor.min_windows)
    when = basis.floor.enough_us
    later = "" if when is None else f"; at the present pace there will be as many from {time_text(when)} on"
    return f"the estimate rested on {there}, and the policy asks for {basis.floor.min_windows:,}{later}"
