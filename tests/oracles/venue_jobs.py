"""Plain twins of chapter 5 of the thesis: Downey's speed-up as he prints it, and checkpoints tick by tick."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise


def speed_up(n: Fraction, a: Fraction, sigma: Fraction) -> Fraction:
    """Return SU(n; A, sigma) as (number of processors, downtime) sums in exact fractions, branch by branch."""
    half = Fraction(1, 2)
    if sigma <= 1 and n <= a:
        return (a * n) / (a + sigma * half * (n - 1))
    if sigma <= 1 and n <= 2 * a - 1:
        return (a * n) / (sigma * (a - half) + n * (1 - sigma * half))
    if sigma > 1 and n <= a + a * sigma - sigma:
        return (n * a * (sigma + 1)) / (sigma * (n + a - 1) + a)
    return a


def run_by_ticks(work: int, pause: int, every: int | None, rises: set[int], revoked: int | None) -> tuple[int, int]:
    """Return (ticks until it is done or revoked, work saved), moving one tick at a time."""
    done, saved, tick, pausing, holds = 0, 0, 0, 0, 0
    last = None
    while True:
        if pausing == 0 and holds > saved:
            saved = holds
        is_due = (every is not None and done and done % every == 0) or (tick in rises and done < work and tick > 0)
        if pausing == 0 and is_due and last != (tick, done) and holds != done:
            pausing, holds, last = pause, done, (tick, done)
            if pause == 0:
                saved = done
        if (done == work and pausing == 0) or tick == revoked:
            return tick, saved
        if pausing:
            pausing -= 1
        else:
            done += 1
        tick += 1


def stopped_by_ticks(work: int, pause: int, every: int, ends: int) -> tuple[int, int] | None:
    """Return (tick at which it stops, work saved) of a run that leaves at the end of an hour; None if it cannot.

    One tick at a time, with a checkpoint after each `every` of work, and a last one that ends with the hour. One of its
    own that is finished within the time of the last one stands for it.
    """
    if run_by_ticks(work, pause, every, set(), None)[0] <= ends:
        return None
    done = saved = tick = pausing = 0
    while tick < ends:
        if not pausing and tick == ends - pause:
            return (ends, done) if done - saved >= pause else None
        tick += 1
        if not pausing:
            done += 1
            pausing = pause if done % every == 0 else 0
            continue
        pausing -= 1
        if not pausing:
            saved = done
            if tick > ends - pause:
                return tick, saved
    return None


def provision_by_loops(left: float, on_demand: dict, fast: set, leased: list, new: list) -> tuple[tuple, bool]:
    """Return (the way taken, breach), as algorithms 3 and 4 walk through them.

    A way is (kind, pool, bid, takes, cost, survival, wait, number).
    """
    kinds, breach = [kind for kind in on_demand if on_demand[kind] <= left], False
    if not kinds:
        breach, kinds = True, list(fast)
    candidates = []
    for way in leased:
        kind, _, _, takes, _, survival, wait, _ = way
        if kind not in kinds or survival <= 0:
            continue
        if breach and wait > 0:
            continue
        if not breach and wait + takes > left:
            continue
        candidates.append(way)
    best = None
    for way in new:
        kind, _, bid, takes, cost, survival, _, _ = way
        if kind not in kinds:
            continue
        if bid != float("inf") and takes > left and not breach:
            continue
        if best is None or cost < best[4] or (cost == best[4] and survival > best[5]):
            best = way
    chosen = best
    for way in reversed(candidates):
        if way[4] <= chosen[4]:
            chosen = way
    return chosen, breach


def available_bid(steps: list, end: int, share: float) -> float:
    """Return the least price with at least a share of known time at or below it (5.12); nothing is asked at 0."""
    times = [*(begin for begin, _ in steps), end]
    known = [(price, times[at + 1] - times[at]) for at, (_, price) in enumerate(steps) if price == price]
    whole = sum(length for _, length in known)
    if not known:
        return float("nan")
    if share == 0:
        return float("-inf")
    fit = [
        price for price, _ in known if sum(spent for other, spent in known if other <= price) >= share * whole - 1e-9
    ]
    return min(fit)


def revocations_under(steps: list, end: int, bid: float) -> tuple[int, int]:
    """Return how often a price up to the bid was followed by one above it, and the time up to the bid."""
    times = [*(begin for begin, _ in steps), end]
    spent = sum(times[at + 1] - times[at] for at, (_, price) in enumerate(steps) if price <= bid)
    count = sum(1 for (_, price), (_, later) in pairwise(steps) if price <= bid < later)
    return count, spent
