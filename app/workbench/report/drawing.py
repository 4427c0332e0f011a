"""The common look of all pictures, and the way in which a figure becomes part of the page.

Figures are made without pyplot. Text stays text in the SVG: it is small, sharp in print, and can be read aloud.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, GRID = "#1f2933", "#6b7785", "#e3e7ec"
ON_DEMAND, SPOT, FREE = "#41566e", "#e2b36b", "#f3f5f7"
ADMITTED, EVICTED, PROMISE = "#c3ccd6", "#1f2933", "#b3261e"
QUANTILES = ("#8fb3d9", "#5b8ec4", "#33659a", "#16365c")
"""From light to dark: the palette keeps its order of lightness without colour."""

_STYLE: Any = {
    "font.family": ["sans-serif"],
    "font.size": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.2,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "tenure",
    "path.simplify": True,
}


_SHORTER = (
    (re.compile(r"<metadata>.*?</metadata>", re.DOTALL), ""),
    (re.compile(r"<style.*?</style>", re.DOTALL), ""),
    (re.compile(r' id="(?:axes|figure|line2d|patch|text|[xy]tick|legend|matplotlib|\w*Collection)[\w.]*"'), ""),
    (re.compile(r"font-family: [^;]*; "), ""),
    (re.compile(r' transform="rotate\(-0 [^"]*"'), ""),
    (re.compile(r"(\.\d\d)\d+"), r"\1"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"> <"), "><"),
)
"""Parts of the library's output that the page does not need: half of its length."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table: the names of its columns, and its cells as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing for the page. `summary` says in words what it shows; `numbers` are its data."""

    key: str
    title: str
    summary: str
    svg: str
    numbers: Numbers


def in_style() -> AbstractContextManager[None]:
    """Apply the style within the block; it holds for the whole process meanwhile."""
    return mpl.rc_context(_STYLE)


def new_figure(width: float, height: float, panels: int = 1, ratios: Sequence[float] | None = None) -> Figure:
    """Return a figure of this size in inches, with panels side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots(1, panels, width_ratios=ratios)
    return figure


def picture(figure: Figure, key: str, title: str, name: str, summary: str, numbers: Numbers) -> Picture:
    """Return the figure as inline SVG with ids unique on the page; `name` tells figures of equal title apart."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 :]
    for pattern, replacement in _SHORTER:
        body = pattern.sub(replacement, body)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{key}-", body)
    width, height = (size * 72 for size in figure.get_size_inches())
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}: {escape(name)}</title><desc id="{key}-d">{escape(summary)}</desc>'
    )
    return Picture(key, title, summary, opening + body, numbers)


def rule_lines(axes: Axes, axis: str = "y") -> None:
    """Draw light lines to read values by."""
    axes.grid(visible=True, axis=axis)  # type: ignore[arg-type]
    axes.tick_params(length=0 if axis == "y" else 3, axis="y")


def count_axis(axes: Axes, name: str) -> None:
    """Make the vertical scale one for counts: logarithmic from 1 on, with a place for 0."""
    axes.set_yscale("symlog", linthresh=1, linscale=0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(name)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.minorticks_off()


def percent(value: float | None, digits: int = 1) -> str:
    """Return a ratio as text; None is a dash."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"
