"""The lifetimes at which risks are read: doubling intervals, from ten minutes to eight weeks."""

from __future__ import annotations

INTERVAL_COUNT = 14
BIN_US = 600_000_000
"""The length of the first interval: ten minutes. Interval k ends after BIN_US * 2^k."""
EDGES_US = tuple(BIN_US << k for k in range(INTERVAL_COUNT))
"""The ends of the intervals. Interval k begins at the end of interval k - 1, the first one at 0."""
