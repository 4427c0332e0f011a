"""Pictures of evidence: a table's buckets (paper on spot SLAs, Figures 2 and 3), and the reliability diagram."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from app.domain.times import DAY_US
from app.judging.reliability import Calibration, Reliability
from app.workbench.findings import PROBABILITIES, BucketRow, TableView
from app.workbench.report.comparisons import draw_promises
from app.workbench.report.drawing import (
    ADMITTED,
    EVICTED,
    ON_DEMAND,
    QUANTILES,
    SPOT,
    Numbers,
    Picture,
    count_axis,
    new_figure,
    percent,
    picture,
    rule_lines,
)

_LINES = ("-", "--", "-.", "-")
_FEWEST = 10
"""Bins with fewer settled instances are not drawn: their interval is most of the picture."""


def draw_buckets(key: str, name: str, flavor: str, table: TableView) -> Picture:
    """Draw samples and quantiles of the time to eviction, by available slots of one flavor."""
    buckets = table.flavors[flavor]
    figure = new_figure(8.6, 2.4, 2)
    left, right = figure.axes
    _draw_samples(left, buckets)
    _draw_quantiles(right, buckets)
    samples, evicted = (
        sum(counts) for counts in zip(*((b.sample_count, b.evicted_count) for b in buckets), strict=True)
    )
    summary = (
        f"Epoch {table.epoch}, of day {table.epoch_us / DAY_US:.2f}: {samples} samples in {len(buckets)} buckets, "
        f"{evicted} of them evicted. Lifetimes at eviction probabilities of "
        f"{', '.join(f'{p:g}' for p in PROBABILITIES)}; none is certified beyond the longest time observed."
    )
    columns = ("slots", "samples", "evicted", *(f"lifetime at {p:g}" for p in PROBABILITIES))
    rows = [(f"{b.slots}", f"{b.sample_count}", f"{b.evicted_count}", *map(_duration, b.lifetimes_s)) for b in buckets]
    return picture(
        figure, key, f"Time to eviction by available slots, flavor {flavor}", name, summary, Numbers(columns, rows)
    )


def _draw_samples(axes: Axes, buckets: Sequence[BucketRow]) -> None:
    slots = [bucket.slots for bucket in buckets]
    axes.bar(slots, [bucket.sample_count for bucket in buckets], 0.85, color=ADMITTED, label="samples")
    axes.bar(slots, [bucket.evicted_count for bucket in buckets], 0.85, color=EVICTED, label="evicted")
    axes.set_xlabel("available slots")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    count_axis(axes, "samples")
    _finish(axes)


def _draw_quantiles(axes: Axes, buckets: Sequence[BucketRow]) -> None:
    slots = [bucket.slots for bucket in buckets]
    for number, probability in enumerate(PROBABILITIES):
        hours = [bucket.lifetimes_s[number] / 3600 for bucket in buckets]
        axes.plot(
            slots, hours, _LINES[number], color=QUANTILES[number], linewidth=1.1, label=f"{probability:g}",
            marker="o" if len(slots) == 1 else None, markersize=2.5,
        )  # fmt: skip
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_yticks([0, 0.1, 1, 10, 100, 1000], ["0", "6 min", "1 h", "10 h", "100 h", "1000 h"])
    axes.set_ylim(bottom=0, top=max(1.0, 1.6 * max((b.lifetimes_s[0] for b in buckets), default=0.0) / 3600))
    axes.minorticks_off()
    axes.set_xlabel("available slots")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("time to eviction")
    _finish(axes)


def _finish(axes: Axes) -> None:
    rule_lines(axes)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0, handlelength=1.2)


def draw_reliability(key: str, name: str, reliability: Reliability) -> Picture:
    """Draw promised against observed shares: the classes, the bins of estimates, and the epochs."""
    figure = new_figure(8.6, 3.1, 2, (2, 3))
    left, right = figure.axes
    for lines, marker, color, label in (
        (reliability.estimates, "o", ON_DEMAND, "by the table's estimate"),
        (reliability.classes, "s", EVICTED, "by promise"),
    ):
        settled = [line for line in lines if line.settled >= _FEWEST]
        promised, happened = ([_value(line, field) for line in settled] for field in ("promised", "happened"))
        intervals = [(line.low, line.high) for line in settled]
        draw_promises(left, promised, happened, intervals, label, marker=marker, color=color)
    left.set_xlabel("promised, or estimated")
    left.set_ylabel("happened")
    left.legend(loc="upper left", handlelength=1.2)
    _draw_epochs(right, reliability.epochs)
    return picture(figure, key, "Reliability", name, _told(reliability), _reliability_numbers(reliability))


def _draw_epochs(axes: Axes, epochs: Sequence[Calibration]) -> None:
    """Draw the admissions of every epoch, and how many of these instances were evicted at any time."""
    numbers = [line.epoch or 0 for line in epochs]
    admitted = np.zeros(max(numbers, default=0) + 2)
    np.add.at(admitted, numbers, [line.admitted for line in epochs])
    edges = np.arange(len(admitted)) - 0.5
    axes.fill_between(edges, admitted, step="post", color=SPOT, label="admitted in the epoch", linewidth=0)
    evicted = [line for line in epochs if line.evicted]
    axes.scatter(
        [line.epoch or 0 for line in evicted], [line.evicted for line in evicted], 10, color=EVICTED, linewidths=0,
        label="of them evicted", zorder=3,
    )  # fmt: skip
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    count_axis(axes, "spot instances")
    _finish(axes)


def _told(reliability: Reliability) -> str:
    lines = [
        f"{line.promised:g} was promised to {line.admitted}, of which {line.evicted} were evicted "
        f"({percent(line.happened, 2)}, {_between(line)})"
        for line in reliability.classes
        if line.promised is not None
    ]
    exceeded = sum(line.is_exceeded for line in reliability.epochs)
    return (
        f"{'; '.join(lines)}. Fewer than {_FEWEST} are not drawn. In {exceeded} of {len(reliability.epochs)} epochs "
        f"the whole interval lies above the promise. {_covered(reliability)}"
        f"Intervals hold with {reliability.confidence:.0%} for independent evictions; they come in bursts, "
        f"so the truth is less sure."
    )


def _covered(reliability: Reliability) -> str:
    share = reliability.coverage
    return "" if share is None else f"The quotes' upper bounds cover what happened in {percent(share, 1)} of epochs. "


def _reliability_numbers(reliability: Reliability) -> Numbers:
    """Return the classes, the bins, and the epochs in which something was evicted."""
    named = [(f"promise {_number(line.promised)}", line) for line in reliability.classes]
    for line in reliability.estimates:
        low, high = line.estimates or (0.0, 1.0)
        named.append((f"estimate {low:g} to {high:g}", line))
    named += [(f"epoch {line.epoch}", line) for line in reliability.epochs if line.evicted]
    columns = ("of", "admitted", "running", "evicted", "promised", "happened", "between")
    rows = [
        (
            name,
            f"{line.admitted}",
            f"{line.running}",
            f"{line.evicted}",
            percent(line.promised, 2),
            percent(line.happened, 2),
            _between(line),
        )
        for name, line in named
    ]
    return Numbers(columns, rows)


def _between(line: Calibration) -> str:
    return f"{100 * line.low:.2f} to {100 * line.high:.2f} %"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _value(line: Calibration, name: str) -> float:
    return float(getattr(line, name) or 0.0)


def _duration(seconds: float) -> str:
    return f"{np.round(seconds / 3600, 2):g} h"
