"""Widths of the buckets in which utilisation is kept, and how many of each width are kept."""

from __future__ import annotations

WIDTHS_S = (60, 600, 3600, 21_600, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000)
"""A minute, ten, an hour, six, a day, 1, 4, 52 and 520 weeks: any time is a bounded number of some of them."""
NODE_WIDTHS_S = WIDTHS_S[1:]
KEPT = 10_000
"""Number of buckets kept for each width and cloud: a week of minutes, a year of hours, and so on."""
NODE_KEPT = 1_000
