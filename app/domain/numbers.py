"""Numbers for people: the same on every page, in every table and sentence."""

from __future__ import annotations

from math import floor, log10

_DECIMALS_MAX = 4


def number_text(number: float) -> str:
    """Thousands apart; of a fraction three digits that matter, but one decimal at least and four at most: `0.0125`."""
    size = floor(log10(abs(number))) if number else 0
    rounded = round(number, min(max(2 - size, 1), _DECIMALS_MAX)) + 0.0
    return f"{rounded:,.{_DECIMALS_MAX}f}".rstrip("0").rstrip(".")


def share_text(share: float) -> str:
    """A share of 1 as per cent; one that is not 0 never reads as if it were: `0.25 %`."""
    text = number_text(100 * share)
    return f"{text} %" if text != "0" or not share else f"< {10**-_DECIMALS_MAX:.{_DECIMALS_MAX}f} %"
