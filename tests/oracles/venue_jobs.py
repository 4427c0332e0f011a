"""Plain twins of chapter 5 of the thesis: Downey's speed-up as he prints it, and checkpoints tick by tick."""

from __future__ import annotations

from fractions import Fraction


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
