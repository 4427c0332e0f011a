"""The report of a backtest: each question's answer as a table and, by level, as a picture, beside the thesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from app import __version__
from app.domain.times import DAY_US, time_text
from app.workbench.report.drawing import FREE, GRID, INK, PROMISE, Numbers, Picture, in_style, new_figure, picture
from app.workbench.report.parts import document, table_html
from app.workbench.venues.run import rows_of_answer
from app.workbench.venues.setting import BacktestSetting
from app.workbench.venues.stated import STATED

_WIDTH, _HEIGHT = 6.0, 3.0


def render_backtests(answers: Mapping[str, Any], method: str, command: str, setting: BacktestSetting) -> str:
    """Return the page of the answers to several questions."""
    first, last = time_text(setting.from_us), time_text(setting.to_us)
    with in_style():
        parts = [
            "<header><p class=mark>Tenure backtest</p>",
            f"<h1>{escape(', '.join(answers))} <span>by the method</span> {escape(method)}</h1>",
            f"<p>{len(setting.names)} pools, tested from {first} to {last}, each moment with the "
            f"{setting.window_us / DAY_US:g} days before it. Nothing later was known to the method.</p></header>",
            *(part for question, answer in answers.items() for part in _section(question, answer)),
            *_closing(command, setting),
        ]
    return document("Tenure: backtest of a venue", parts)


def _section(question: str, answer: Mapping[str, Any]) -> Iterator[str]:
    columns, rows = rows_of_answer(answer)
    yield f"<section><h2>{escape(question)}</h2>"
    for drawn in _pictures(question, columns, rows):
        yield f'<figure id="{drawn.key}"><h3>{escape(drawn.title)}</h3>{drawn.svg}'
        yield f"<figcaption>{escape(drawn.summary)}</figcaption></figure>"
    yield table_html(Numbers(columns, rows))
    stated = [(one.figure, one.shows, one.stated) for one in STATED.get(question, ())]
    yield "<h3>In the thesis</h3>" + table_html(Numbers(("figure", "shows", "states"), stated), words=3)
    yield "</section>"


def _pictures(question: str, columns: list[str], rows: list[list[str]]) -> Iterator[Picture]:
    """Draw each column against the levels, where the rows are levels."""
    levels = [row for row in rows if _is_number(row[0])]
    for at, column in enumerate(columns[1:], 1):
        points = [(float(row[0]), float(row[at])) for row in levels if _is_number(row[at])]
        if len(points) < 2 or column == "count":
            continue
        figure = new_figure(_WIDTH, _HEIGHT)
        axes = figure.axes[0]
        axes.set_facecolor(FREE)
        axes.grid(color=GRID)
        if column == "success":
            axes.plot([0, 1], [0, 1], color=PROMISE, linewidth=0.8)
        axes.plot(*zip(*points, strict=True), color=INK, marker="o", markersize=3)
        axes.set_xlabel("level")
        axes.set_ylabel(column.replace("_", " "))
        title = f"{question}: {column.replace('_', ' ')}"
        summary = f"{column.replace('_', ' ')} from {points[0][1]:g} at {points[0][0]:g} to {points[-1][1]:g}"
        yield picture(figure, f"{question}-{at}", title, question, summary, Numbers(columns, levels))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _closing(command: str, setting: BacktestSetting) -> Iterator[str]:
    yield f"<footer><h2>How it was made</h2><pre>{escape(command)}</pre>"
    rows = [("tenure", __version__), ("seed", str(setting.seed))]
    yield table_html(Numbers(("setting", "value"), rows), words=2) + "</footer>"
