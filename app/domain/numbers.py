"""Numbers as text for people, in the same form on every page and in every table and sentence."""

from __future__ import annotations

from math import floor, log10

_DECIMALS_MAX = 4
_SHARE_DECIMALS_MAX = 10


def number_text(number: float) -> str:
    """Return a number with separated thousands. Fractions get three significant digits, as in `0.0125`."""
    size = floor(log10(abs(number))) if number else 0
    rounded = round(number, min(max(2 - size, 1), _DECIMALS_MAX)) + 0.0
    return f"{rounded:,.{_DECIMALS_MAX}f}".rstrip("0").rstrip(".")


def share_text(share: float) -> str:
    """Return a share of 1 in per cent. A share above 0 never reads as 0: `0.25 %`, `0.0000001 %`."""
    text = number_text(100 * share)
    if text != "0" or not share:
        return f"{text} %"
    decimals = min(-floor(log10(abs(100 * share))), _SHARE_DECIMALS_MAX)
    least = 10**-_SHARE_DECIMALS_MAX
    return f"{100 * share:.{decimals}f} %" if 100 * share >= least else f"< {least:.{decimals}f} %"
