"""Numbers as text for people, in the same form on every page and in every table and sentence."""

from __future__ import annotations

from math import floor, log10

_DECIMALS_MAX = 4


def number_text(number: float) -> str:
    """Return a number with separated thousands. Fractions get three significant digits, as in `0.0125`."""
    size = floor(log10(abs(number))) if number else 0
    rounded = round(number, min(max(2 - size, 1), _DECIMALS_MAX)) + 0.0
    return f"{rounded:,.{_DECIMALS_MAX}f}".rstrip("0").rstrip(".")


def share_text(share: float) -> str:
    """Return a share of 1 in per cent. A share above 0 never reads as 0: `0.25 %`."""
    text = number_text(100 * share)
    return f"{text} %" if text != "0" or not share else f"< {10**-_DECIMALS_MAX:.{_DECIMALS_MAX}f} %"
