"""The choice of a machine for a request, by expected profit (thesis, chapter 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ON_DEMAND = float("inf")
"""The bid of an on-demand machine: it is never revoked."""


class MachineOption(NamedTuple):
    """A machine to take: a pool (or a type on demand), a bid, its survival, and the costs if it completes or fails."""

    pool: int
    bid: float
    survival: float
    cost: float
    failed_cost: float
    idle: int = -1
    """The number of a machine that is leased already; -1 for a new one."""


def expected_profit(option: MachineOption, revenue: float, penalty: float) -> float:
    """Return (4.12): revenue less cost, or on failure the cost so far and a share of the revenue as a penalty."""
    failure = -option.failed_cost - penalty * revenue
    return option.survival * (revenue - option.cost) + (1.0 - option.survival) * failure


def most_profitable(options: Iterable[MachineOption], revenue: float, penalty: float) -> MachineOption:
    """Return the option with the highest expected profit (algorithm 1); the first of equal ones."""
    return max(options, key=lambda option: expected_profit(option, revenue, penalty))


def can_serve(units: float, memory_gib: float, asked_units: float, asked_memory_gib: float) -> bool:
    """Tell if a machine type is at least as fast and as large as another."""
    return units >= asked_units and memory_gib >= asked_memory_gib
