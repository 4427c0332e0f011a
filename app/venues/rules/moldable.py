"""Run times of a job on machines of other speeds: rigid jobs, and moldable ones by Downey's speed-up (chapter 5).

A speed is a machine type's compute units. A job's run time is that on the type it was asked for.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple


class Parallelism(NamedTuple):
    """A moldable job's declaration: its mean parallelism A (at least 1) and how much it varies, sigma (at least 0)."""

    mean: float
    sigma: float


def speed_up(units: float, job: Parallelism) -> float:
    """Return Downey's SU(n; A, sigma): how many times faster than with one unit a job runs with n (at least 1)."""
    mean, sigma = job
    if sigma <= 1.0:
        if units <= mean:
            return mean * units / (mean + sigma * (units - 1.0) / 2.0)
        if units <= 2.0 * mean - 1.0:
            return mean * units / (sigma * (mean - 0.5) + units * (1.0 - sigma / 2.0))
        return mean
    if units <= mean + mean * sigma - sigma:
        return units * mean * (sigma + 1.0) / (sigma * (units + mean - 1.0) + mean)
    return mean


def run_time_us(own_us: float, own_units: float, units: float, job: Parallelism | None) -> float:
    """Return a job's run time on a machine of so many units; infinite if it is rigid and the machine is too slow.

    The thesis prints the ratio of the speed-ups upside down; larger machines are faster here.
    """
    if job is None:
        return own_us if units >= own_units else inf
    return own_us * speed_up(own_units, job) / speed_up(units, job)
