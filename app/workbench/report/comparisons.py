"""Pictures that compare evaluations: by SLA (paper on spot SLAs, Figure 1), by platform (Figures 6 and 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes

from app.domain.inputs import platform_text
from app.domain.values import Guarantee, Policy
from app.judging.intervals import exact_interval
from app.workbench.matrix import Evaluated
from app.workbench.report.drawing import (
    ADMITTED,
    EVICTED,
    ON_DEMAND,
    PROMISE,
    Numbers,
    Picture,
    new_figure,
    percent,
    picture,
    rule_lines,
)
from app.workbench.tally import WorkloadTally, rules_of

_LEAST = 1e-3
"""Below this a share is drawn on a line and not on a logarithmic scale, so that none evicted has its place."""


@dataclass(frozen=True, slots=True)
class ComparedEvaluation:
    """One evaluation as the comparisons show it."""

    platform: str
    node_count: int
    victims: str
    guarantee: Guarantee
    sla: float | None
    tally: WorkloadTally

    @property
    def on_demand(self) -> float:
        """Share of requested on-demand instances that were admitted."""
        return _share(self.tally.on_demand_admitted, self.tally.on_demand_requested)

    @property
    def spot(self) -> float:
        """Share of requested spot instances that were admitted."""
        return _share(self.tally.spot_admitted, self.tally.spot_requested)

    @property
    def evicted(self) -> float:
        """Share of admitted spot instances that were evicted."""
        return _share(self.tally.spot_evicted, self.tally.spot_admitted)

    @property
    def promise(self) -> str:
        """The SLA as a label."""
        return "no SLA" if self.sla is None else f"{self.sla:g}"


def point_of(one: Evaluated) -> ComparedEvaluation:
    """Return what the comparisons need of an evaluation."""
    scenario = one.outcome.scenario
    policy = scenario.policy
    victims, sla = rules_of(policy), sla_of(policy)
    return ComparedEvaluation(
        platform_text(scenario.nodes), len(scenario.nodes), victims, policy.guarantee, sla, one.outcome.tally
    )


def sla_of(policy: Policy) -> float | None:
    """Return the probability in force; None without an SLA."""
    return None if policy.guarantee is Guarantee.NONE else policy.eviction_probability


def reading(guarantee: Guarantee) -> str:
    """Return a guarantee as the page names it."""
    return guarantee.replace("_", " ")


def draw_by_sla(points: Sequence[ComparedEvaluation]) -> list[Picture]:
    """Draw one picture for each platform, eviction policy and guarantee, with the baseline at the left."""
    pictures: list[Picture] = []
    for platform, victims in dict.fromkeys(map(_place, points)):
        there = [point for point in points if _place(point) == (platform, victims)]
        base = [point for point in there if point.sla is None]
        for guarantee in dict.fromkeys(point.guarantee for point in there if point.sla is not None):
            own = sorted((point for point in there if point.guarantee is guarantee), key=_loosest_first)
            key = f"sla-{len(pictures)}"
            pictures.append(_draw_sla(key, f"{platform}, {reading(guarantee)}, {victims}", [*base, *own]))
    return pictures


def _draw_sla(key: str, name: str, points: Sequence[ComparedEvaluation]) -> Picture:
    figure = new_figure(8.6, 2.9, 2, (3, 2))
    left, right = figure.axes
    _draw_bars(left, points, [("admitted of requested", ADMITTED), ("evicted of admitted", EVICTED)])
    _draw_kept(right, [point for point in points if point.sla is not None])
    told = "; ".join(f"{p.promise}: {percent(p.spot)} admitted, {percent(p.evicted, 2)} evicted" for p in points)
    columns = ("SLA", "spot requested", "admitted", "ratio", "evicted", "ratio", "core-hours completed")
    rows = [
        (
            point.promise,
            f"{point.tally.spot_requested}",
            f"{point.tally.spot_admitted}",
            percent(point.spot),
            f"{point.tally.spot_evicted}",
            percent(point.evicted, 2),
            percent(_share(point.tally.completed_core_us, point.tally.requested_core_us)),
        )
        for point in points
    ]
    return picture(
        figure, key, f"Spot admitted and evicted: {name}", "by SLA", f"Spot starts: {told}.", Numbers(columns, rows)
    )


def _draw_bars(axes: Axes, points: Sequence[ComparedEvaluation], series: Sequence[tuple[str, str]]) -> None:
    at, width = np.arange(len(points)), 0.38
    for offset, values, (label, color), digits in (
        (-width / 2, [point.spot for point in points], series[0], 1),
        (width / 2, [point.evicted for point in points], series[1], 2),
    ):
        bars = axes.bar(at + offset, values, width, label=label, color=color)
        axes.bar_label(bars, [percent(value, digits) for value in values], padding=2, fontsize=7)
    for place, point in enumerate(points):
        if point.sla is not None:
            promise = "promised" if place == len(points) - 1 else None
            axes.plot([place, place + width], [point.sla] * 2, color=PROMISE, linewidth=1.4, label=promise)
    _finish_ratios(axes, [point.promise for point in points], "SLA: eviction probability promised")


def _finish_ratios(axes: Axes, labels: Sequence[str], name: str) -> None:
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(name)
    axes.set_ylim(0, 1.12)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    rule_lines(axes)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0, handlelength=1.2)


def _draw_kept(axes: Axes, points: Sequence[ComparedEvaluation]) -> None:
    """Draw evicted against promised shares, with the range that chance allows."""
    promised = [point.sla or 0.0 for point in points]
    intervals = [exact_interval(p.tally.spot_evicted, p.tally.spot_admitted) for p in points]
    draw_promises(axes, promised, [point.evicted for point in points], intervals, "evicted of admitted")
    axes.set_xlabel("promised")
    axes.set_title("evicted against promised, 95 % interval", fontsize=8)


def draw_promises(
    axes: Axes,
    promised: Sequence[float],
    happened: Sequence[float],
    intervals: Sequence[tuple[float, float]],
    label: str,
    *,
    marker: str = "o",
    color: str = EVICTED,
) -> None:
    """Draw points with their intervals around a diagonal; a point above it was worse than promised."""
    reach = np.array(
        [[max(0.0, y - low), max(0.0, high - y)] for y, (low, high) in zip(happened, intervals, strict=True)]
    ).reshape(-1, 2)
    axes.errorbar(
        promised, happened, reach.T, fmt=marker, color=color, ecolor=color, elinewidth=0.8, capsize=2, markersize=4.5,
        label=label, clip_on=False, zorder=3,
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=PROMISE, linewidth=1, zorder=2)
    ticks = [0, 0.001, 0.01, 0.1, 1]
    names = ["0", "0.1 %", "1 %", "10 %", "100 %"]
    axes.set_xscale("symlog", linthresh=_LEAST, linscale=0.5)
    axes.set_yscale("symlog", linthresh=_LEAST, linscale=0.5)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.minorticks_off()
    rule_lines(axes, "both")


def draw_by_platform(points: Sequence[ComparedEvaluation]) -> list[Picture]:
    """Draw one picture for each promise and eviction policy; none if there is one platform only."""
    pictures: list[Picture] = []
    for (victims, guarantee, sla), group in groupby(sorted(points, key=_promise), key=_promise):
        there = sorted(group, key=lambda point: -point.node_count)
        if len(there) < 2 or sla == 0:
            continue
        base = [p for p in points if p.sla is None and p.victims == victims and p.platform == there[0].platform]
        name = f"SLA {sla:g}, {reading(Guarantee(guarantee))}, {victims}"
        pictures.append(_draw_platforms(f"platform-{len(pictures)}", name, [*base, *there]))
    return pictures


def _draw_platforms(key: str, name: str, points: Sequence[ComparedEvaluation]) -> Picture:
    figure = new_figure(8.6, 2.9)
    axes = figure.axes[0]
    at, width = np.arange(len(points)), 0.27
    series = (
        ("on-demand admitted", ON_DEMAND, [point.on_demand for point in points], 1),
        ("spot admitted", ADMITTED, [point.spot for point in points], 1),
        ("spot evicted", EVICTED, [point.evicted for point in points], 2),
    )
    for number, (label, color, values, digits) in enumerate(series):
        bars = axes.bar(at + (number - 1) * width, values, width * 0.94, label=label, color=color)
        axes.bar_label(bars, [percent(value, digits) for value in values], padding=2, fontsize=7)
    labels = [point.platform + ("\nno SLA" if point.sla is None else "") for point in points]
    _finish_ratios(axes, labels, "platform")
    told = "; ".join(
        f"{p.platform}{', no SLA' if p.sla is None else ''}: {percent(p.on_demand)} of on-demand and {percent(p.spot)} "
        f"of spot admitted, {percent(p.evicted, 2)} evicted"
        for p in points
    )
    columns = ("platform", "SLA", "on-demand admitted", "spot admitted", "evicted of admitted")
    rows = [(p.platform, p.promise, percent(p.on_demand), percent(p.spot), percent(p.evicted, 2)) for p in points]
    return picture(figure, key, f"Smaller platforms: {name}", "by platform", f"{told}.", Numbers(columns, rows))


def _place(point: ComparedEvaluation) -> tuple[str, str]:
    return point.platform, point.victims


def _promise(point: ComparedEvaluation) -> tuple[str, str, float]:
    return point.victims, point.guarantee, point.sla or 0.0


def _loosest_first(point: ComparedEvaluation) -> float:
    return -(point.sla or 1.0)


def _share(count: float, of: float) -> float:
    return count / of if of else 0.0
