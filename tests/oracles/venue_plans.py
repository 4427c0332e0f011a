"""A job's policy stepped through prices in plain Python, and the best choice of options by trying all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import product
from math import ceil, floor, inf

from app.domain.times import HOUR_US
from app.venues.rules.checkpoints import guarded_run, periodic_run
from app.venues.rules.jobsteps import JobPolicy, WayTimes
from app.venues.rules.planned import PlanOption

Steps = list[tuple[int, float]]


def run_on(policy: JobPolicy, way: WayTimes, left_us: float, saved: float):
    """The guarded run of what is left on a way, the time before its first work."""
    begin_us = way.launch_us + (way.read_us if saved else 0.0)
    fixed = policy.on_demand
    rest_us = (1.0 - saved) * fixed.run_us
    run = periodic_run((1.0 - saved) * way.run_us, way.every_us, int(way.pause_us))
    room_us = left_us - begin_us - rest_us - fixed.launch_us - policy.margin_us
    speed = rest_us / ((1.0 - saved) * way.run_us)
    return guarded_run(run, room_us, fixed.read_us, speed, int(way.pause_us), is_saved=saved > 0.0), begin_us


def stepped(policy: JobPolicy, pools: Sequence[tuple[Steps, float]], start_us: int, left_us: float, on_demand: float):
    """Cost and end of a job by minute-free events: every change of any price is a moment to look."""
    now_us, saved, cost, lost = float(start_us), 0.0, 0.0, 0
    end_us, fixed = start_us + left_us, policy.on_demand
    while True:
        chosen = None
        for number, (way, (steps, bid)) in enumerate(zip(policy.ways, pools, strict=True)):
            if price_at(steps, now_us) <= bid:
                run, begin_us = run_on(policy, way, end_us - now_us, saved)
                kept = 1.0 if not run.is_cut else saved + run.saved_after(run.length_us) / way.run_us
                if kept > saved + 1e-9:
                    chosen = number, run, begin_us, kept
                    break
        if chosen is None:
            needs_us = fixed.launch_us + (1.0 - saved) * fixed.run_us + (fixed.read_us if saved else 0.0)
            slack_us = end_us - now_us - needs_us - policy.margin_us
            if policy.ways and slack_us > 1.0:
                now_us = min([now_us + slack_us, *[next_change(steps, now_us) for steps, _ in pools]])
                continue
            return cost + on_demand * ceil(needs_us / HOUR_US - 1e-9), now_us + needs_us - start_us, lost
        number, run, begin_us, kept = chosen
        steps, bid = pools[number]
        until_us = now_us + begin_us + run.length_us
        gone_us = next((at for at, price in steps if now_us < at < until_us and price > bid), inf)
        used_h = (min(gone_us, until_us) - now_us) / HOUR_US
        hours = floor(used_h) if gone_us < until_us else ceil(used_h - 1e-9)
        cost += sum(price_at(steps, now_us + hour * HOUR_US) for hour in range(hours))
        if gone_us < until_us:
            ran_us = gone_us - now_us - begin_us
            regular = run.finished_us[: len(run.finished_us) - run.is_cut]
            done = bisect_right(regular, ran_us)
            kept = saved + (run.saved_us[done - 1] / policy.ways[number].run_us if done else 0.0)
            lost += 1
        now_us, saved = min(gone_us, until_us), kept
        if saved >= 1.0 - 1e-9:
            return cost, now_us - start_us, lost


def price_at(steps: Steps, at_us: float) -> float:
    return steps[bisect_right([at for at, _ in steps], at_us) - 1][1]


def next_change(steps: Steps, at_us: float) -> float:
    return next((at for at, _ in steps if at > at_us), inf)


def best_choice(options: Sequence[Sequence[PlanOption]], fits) -> float:
    """The least loss of all choices that fit."""
    return min(sum(one.loss for one in chosen) for chosen in product(*options) if fits(chosen))
