"""Provisioning of a job with a deadline (thesis, chapter 5, algorithms 3 and 4): the cheapest machine that is in time.

All times are microseconds from now, all costs dollars. The thesis uses D for a duration and for a time; here a job has
`left_us` until its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.venues.rules.choose import ON_DEMAND


class MachineWay(NamedTuple):
    """A machine that could run a job: a leased one by its number, or a new one of a pool at a bid."""

    kind: str
    pool: int
    bid: float
    takes_us: float
    """The job's run time there, with what resuming and checkpoints take; infinite if it cannot run there."""
    cost: float
    survival: float
    """The availability or reliability of the bid; a leased machine with 0 is not considered."""
    wait_us: float = 0.0
    """The time until a leased machine is idle (ETUI)."""
    number: int = -1


class DeadlineNeeds(NamedTuple):
    """A job's needs: the time left, each type's time on demand (resuming included), and the types fast enough."""

    left_us: float
    on_demand_us: Mapping[str, float]
    fast_enough: frozenset[str]


class Provisioned(NamedTuple):
    """The machine to take, and if the deadline is given up."""

    way: MachineWay
    is_breach: bool


def provision(needs: DeadlineNeeds, leased: Sequence[MachineWay], new: Sequence[MachineWay]) -> Provisioned:
    """Return the cheapest of the leased machines that are in time and the best new one (algorithm 3).

    If no type is in time even on demand, the deadline is given up: then only idle leased machines that are fast enough
    count. A leased machine is taken before a new one at the same cost. `new` must hold a machine on demand.
    """
    kinds = {kind for kind, takes_us in needs.on_demand_us.items() if takes_us <= needs.left_us}
    is_breach = not kinds
    if is_breach:
        kinds = set(needs.fast_enough)
        fit = [way for way in leased if way.kind in kinds and way.wait_us == 0.0]
    else:
        fit = [way for way in leased if way.kind in kinds and way.wait_us + way.takes_us <= needs.left_us]
    best = least_new(needs.left_us, [way for way in new if way.kind in kinds], is_breach=is_breach)
    return Provisioned(min((*(way for way in fit if way.survival > 0.0), best), key=lambda way: way.cost), is_breach)


def least_new(left_us: float, new: Sequence[MachineWay], *, is_breach: bool) -> MachineWay:
    """Return the cheapest new machine that is in time, unless the deadline is given up (algorithm 4).

    Of equal costs the one with the higher survival counts. A machine on demand is in time as its type is.
    """
    fit = [way for way in new if is_breach or way.bid == ON_DEMAND or way.takes_us <= left_us]
    return min(fit, key=lambda way: (way.cost, -way.survival))
