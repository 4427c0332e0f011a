"""Pictures over time: utilisation with evictions marked (paper on spot SLAs, Figures 4, 5), and the budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from app.domain.times import DAY_US
from app.workbench.findings import BudgetPoint, Load
from app.workbench.report.drawing import (
    FREE,
    INK,
    MUTED,
    ON_DEMAND,
    PROMISE,
    SPOT,
    Numbers,
    Picture,
    new_figure,
    percent,
    picture,
    rule_lines,
)

_PERIODS = 12
"""Rows of the tables beside the pictures."""


def draw_load(key: str, name: str, load: Load) -> Picture:
    """Draw cores in use by market, free cores, and the times of evictions."""
    figure = new_figure(8.6, 2.7)
    axes = figure.axes[0]
    days = load.edges_us / DAY_US
    used = load.on_demand + load.spot
    for low, high, label, color in (
        (np.zeros_like(used), load.on_demand, "on-demand", ON_DEMAND),
        (load.on_demand, used, "spot", SPOT),
        (used, load.capacity, "free", FREE),
    ):
        axes.fill_between(days, _held(low), _held(high), step="post", label=label, color=color, linewidth=0)
    axes.step(days, _held(load.peak), where="post", color=INK, linewidth=0.4, label="peak")
    top = float(load.capacity.max(initial=1.0))
    _mark_evictions(axes, load, top)
    axes.set_ylim(0, 1.1 * top)
    _finish_days(axes, float(days[-1]), "cores")
    total = load.capacity.sum() or 1.0
    shares = [percent(float(part.sum() / total)) for part in (load.on_demand, load.spot, load.capacity - used)]
    summary = (
        f"Of the capacity {shares[0]} ran on-demand, {shares[1]} spot, and {shares[2]} stayed free; "
        f"{load.evicted.sum():.0f} spot instances were evicted. "
        f"Areas are means over {days[1] * 24:.1f} h, the line peaks."
    )
    return picture(figure, key, "Utilisation over time", name, summary, _load_numbers(load))


def _mark_evictions(axes: Axes, load: Load, top: float) -> None:
    """Draw a mark above the capacity for every period with evictions, larger for more."""
    when = np.flatnonzero(load.evicted)
    if not len(when):
        return
    middles = (load.edges_us[when] + load.edges_us[when + 1]) / 2 / DAY_US
    sizes = np.minimum(80, 10 + 6 * load.evicted[when])
    axes.scatter(
        middles, np.full(len(when), 1.045 * top), sizes, color=PROMISE, marker="v", linewidths=0, alpha=0.85,
        label="evictions",
    )  # fmt: skip


def _held(values: np.ndarray) -> np.ndarray:
    """Repeat the last value of a step function at its end."""
    return np.append(values, values[-1])


def _finish_days(axes: Axes, end: float, name: str) -> None:
    axes.set_xlim(0, end)
    axes.set_xlabel("days")
    axes.set_ylabel(name)
    rule_lines(axes)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0, handlelength=1.2)


def _load_numbers(load: Load) -> Numbers:
    columns = ("days", "on-demand cores", "spot cores", "free cores", "peak", "evicted")
    rows = []
    for part in np.array_split(np.arange(len(load.peak)), _PERIODS):
        first, last = load.edges_us[part[0]] / DAY_US, load.edges_us[part[-1] + 1] / DAY_US
        on_demand, spot, capacity = (float(x[part].mean()) for x in (load.on_demand, load.spot, load.capacity))
        free = f"{capacity - on_demand - spot:.1f}"
        peak, evicted = f"{load.peak[part].max():.0f}", f"{load.evicted[part].sum():.0f}"
        rows.append((f"{first:.1f} to {last:.1f}", f"{on_demand:.1f}", f"{spot:.1f}", free, peak, evicted))
    return Numbers(columns, rows)


def draw_budget(key: str, name: str, budget: Sequence[BudgetPoint], end_us: int) -> Picture:
    """Draw the eviction budget: admitted instances times the promise, less those evicted so far."""
    figure = new_figure(8.6, 2.1)
    axes = figure.axes[0]
    days = np.array([0.0, *(point.at_us / DAY_US for point in budget), end_us / DAY_US])
    earned = np.array([0.0, *(point.earned for point in budget), budget[-1].earned])
    left = np.array([0.0, *(point.left for point in budget), budget[-1].left])
    axes.step(days, earned, where="post", color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)), label="earned")
    axes.step(days, left, where="post", color=INK, label="left")
    axes.fill_between(days, 0, left, where=(left < 0).tolist(), step="post", color=PROMISE, alpha=0.5, linewidth=0)
    axes.axhline(0, color=PROMISE, linewidth=0.8)
    _finish_days(axes, end_us / DAY_US, "instances")
    least, last = min(budget, key=lambda point: point.left), budget[-1]
    summary = (
        f"In the end {last.earned:.2f} evictions were earned and {last.evicted} spent; "
        f"the least that was left was {least.left:.2f}, on day {least.at_us / DAY_US:.1f}."
    )
    return picture(figure, key, "Eviction budget over time", name, summary, _budget_numbers(budget, end_us))


def _budget_numbers(budget: Sequence[BudgetPoint], end_us: int) -> Numbers:
    rows = []
    for edge_us in np.linspace(0, end_us, _PERIODS + 1)[1:]:
        before = [point for point in budget if point.at_us <= edge_us]
        point = before[-1] if before else BudgetPoint(0, 0.0, 0)
        rows.append((f"{edge_us / DAY_US:.1f}", f"{point.earned:.2f}", f"{point.evicted}", f"{point.left:.2f}"))
    return Numbers(("by day", "earned", "evicted", "left"), rows)
