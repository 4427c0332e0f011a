"""Numbers as text for people, in the same form on every page and in every table and sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from math import floor, log10

_DECIMALS_MAX = 4
_SHARE_DECIMALS_MAX = 10
_SHARE_DIGITS = 3
_ALL_DIGITS = 17
"""So many digits tell any two numbers apart."""


def number_text(number: float) -> str:
    """Return a number with separated thousands. Fractions get three significant digits, as in `0.0125`."""
    size = floor(log10(abs(number))) if number else 0
    rounded = round(number, min(max(2 - size, 1), _DECIMALS_MAX)) + 0.0
    return f"{rounded:,.{_DECIMALS_MAX}f}".rstrip("0").rstrip(".")


def figure_text(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count; one with more before its point is told whole: `52,990`."""
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else text


def share_text(share: float) -> str:
    """Return a share of 1 in per cent: `0.25 %`. A share above 0 never reads as 0, and one below 1 never as 100."""
    text = number_text(100 * share)
    if text == "0" and share > 0:
        return _near(100 * share, 0)
    if text == "100" and share < 1:
        return _near(100 * share, 100)
    return f"{text} %"


def is_told_whole(share: float) -> bool:
    """Return True if the text of a share leaves none of its digits out."""
    return Decimal(number_text(100 * share).replace(",", "")) == 100 * Decimal(repr(share))


def told_apart(shares: Iterable[float]) -> dict[float, str]:
    """Return each share in per cent, with as few digits as tell it from the others.

    Promises that differ in the last of their digits are two classes, and read alike as shares.
    """
    texts = {share: share_text(share) for share in shares}
    for digits in range(_SHARE_DIGITS + 1, _ALL_DIGITS + 1):
        seen = Counter(texts.values())
        texts = {share: text if seen[text] == 1 else _exact(share, digits) for share, text in texts.items()}
    return texts


def _exact(share: float, digits: int) -> str:
    exact = Decimal(f"{100 * Decimal(repr(float(share))):.{digits}g}").normalize()
    return f"{exact:f} %" if exact.adjusted() >= -_SHARE_DECIMALS_MAX else f"{exact} %"


def _near(percent: float, whole: int) -> str:
    """Return per cent that lie so near to a whole number with as many decimals as tell the two apart."""
    apart = abs(percent - whole)
    least = 10**-_SHARE_DECIMALS_MAX
    if apart < least:
        return f"{'<' if whole == 0 else '>'} {abs(whole - least):.{_SHARE_DECIMALS_MAX}f} %"
    decimals = min(-floor(log10(apart)), _SHARE_DECIMALS_MAX)
    return f"{percent:.{decimals}f} %"
