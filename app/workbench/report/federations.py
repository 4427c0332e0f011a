"""The report of a federation: what became of the jobs, by origin and by host, in tables, and over time, in pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from app import __version__
from app.domain.inputs import platform_text
from app.domain.times import DAY_US, HOUR_US
from app.federation.rules.hosting import HostRule
from app.forecast.survival import Floats
from app.judging.intervals import exact_interval
from app.workbench.federation.run import FederationScenario, JobCounts, JobFate, JobOutcome
from app.workbench.report.drawing import (
    FREE,
    INK,
    MUTED,
    ON_DEMAND,
    PROMISE,
    SPOT,
    Numbers,
    Picture,
    in_style,
    new_figure,
    percent,
    picture,
    rule_lines,
)
from app.workbench.report.parts import document, table_html

_PERIODS = 200
"""Parts of the time in which the picture of a cloud's cores takes means."""
_ROWS = 12
"""Rows of the tables beside the pictures over time."""
_MOST_DRAWN = 1_500
"""The most jobs that a time line shows."""
_RISKS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
"""The bounds between which foreign jobs are grouped by the risk at which they were admitted."""


class FederationFindings(NamedTuple):
    """A scenario, the counts of each cloud, and the fate of each job."""

    scenario: FederationScenario
    counts: Mapping[str, JobCounts]
    fates: Sequence[JobFate]


def render_federation(found: FederationFindings, command: str) -> str:
    """Return the page of one evaluation.

    1. The results by origin and by host. 2. Where the work was done. 3. Each cloud over time. 4. How it was made.
    """
    with in_style():
        parts = [
            *_opening(found),
            *_by_origin(found),
            *_by_host(found),
            *_by_risk(found),
            "<section><h2>Work</h2>",
            _figure(_draw_work(found)),
            "</section>",
            *(part for name in found.scenario.nodes for part in _cloud(found, name)),
            *_closing(found.scenario, command),
        ]
    return document(f"Tenure: federation of {', '.join(found.scenario.nodes)}", parts)


def _opening(found: FederationFindings) -> Iterator[str]:
    scenario = found.scenario
    clouds = ", ".join(f"{name} ({platform_text(nodes)})" for name, nodes in scenario.nodes.items())
    promise = "without an SLA" if scenario.rule is HostRule.NONE else f"SLA {scenario.sla:g}"
    yield "<header><p class=mark>Tenure federation</p>"
    yield f"<h1>{escape(clouds)} <span>by the rule</span> {scenario.rule}<span>, {promise}</span></h1>"
    yield (
        "<p>A job is tried at home first; there it is <em>native</em> and is never preempted. One that does not fit "
        "is offered to the linked clouds, and is <em>foreign</em> where it runs. <em>Preempted</em> is of the foreign "
        "jobs that were admitted; <em>federation</em> is the share of completed work that was done away from home. "
        f"Jobs that start before day {scenario.counted_from_us / DAY_US:.1f} run but "
        "are not counted in the tables.</p></header>"
    )


def _by_origin(found: FederationFindings) -> Iterator[str]:
    columns = ("jobs of", "requests", "native", "foreign", "preempted", "between", "rejected", "federation")
    all_of_them = JobCounts()
    for one in found.counts.values():
        all_of_them = all_of_them.plus(one)
    named = [*found.counts.items(), ("all", all_of_them)]
    rows = [
        (
            name,
            f"{one.requests}",
            f"{one.native}",
            f"{one.remote}",
            *_preempted(one.preempted, one.remote, found.scenario),
            f"{one.rejected} ({_of(one.rejected, one.requests)})",
            percent(one.federation, 2),
        )
        for name, one in named
    ]
    yield f"<section><h2>By origin</h2>{table_html(Numbers(columns, rows))}"
    yield "<p>The interval holds with 95 % for independent jobs; preemptions come in bursts, so the truth is less sure."
    yield "</p></section>"


def _by_host(found: FederationFindings) -> Iterator[str]:
    columns = ("host", "foreign jobs", "preempted", "between", "core-hours done", "core-hours lost")
    rows = []
    for name in found.scenario.nodes:
        hosted = [one for one in _foreign(found.fates, name) if one.is_counted]
        lost = [one for one in hosted if one.outcome is JobOutcome.PREEMPTED]
        done = [one for one in hosted if one.outcome is JobOutcome.COMPLETED]
        share = _preempted(len(lost), len(hosted), found.scenario)
        rows.append((name, f"{len(hosted)}", *share, f"{_core_hours(done):.0f}", f"{_core_hours(lost):.0f}"))
    yield f"<section><h2>By host</h2>{table_html(Numbers(columns, rows))}</section>"


def _by_risk(found: FederationFindings) -> Iterator[str]:
    """Compare the risk at which foreign jobs were admitted with what happened; the rule `none` estimates none."""
    if found.scenario.rule is HostRule.NONE:
        return
    hosted = [one for one in found.fates if one.is_counted and _is_foreign(one)]
    rows = []
    for low, high in pairwise(_RISKS):
        within = [one for one in hosted if low <= one.risk < high or one.risk == high == 1.0]
        lost = sum(one.outcome is JobOutcome.PREEMPTED for one in within)
        if within:
            said = sum(one.risk for one in within) / len(within)
            share, between = _preempted(lost, len(within), None)
            rows.append((f"{low:g} to {high:g}", f"{len(within)}", percent(said, 2), share, between))
    columns = ("estimated risk", "foreign jobs", "mean estimate", "preempted", "between")
    yield f"<section><h2>By estimated risk</h2>{table_html(Numbers(columns, rows))}</section>"


def _draw_work(found: FederationFindings) -> Picture:
    """Draw, for each origin, the core-hours of its jobs: done at home, done away, lost to preemption, rejected."""
    names = list(found.scenario.nodes)
    wanted = {(job_origin, job.name): job for job_origin in names for job in found.scenario.jobs.get(job_origin, ())}
    kinds = ("done at home", "done away", "lost", "rejected")
    hours = np.zeros((len(names), len(kinds)))
    order = (JobOutcome.NATIVE, JobOutcome.COMPLETED, JobOutcome.PREEMPTED, JobOutcome.REJECTED)
    for one in found.fates:
        if one.is_counted:
            of = wanted[one.origin, one.name].lifetime_us if one.outcome is JobOutcome.REJECTED else _length_us(one)
            hours[names.index(one.origin), order.index(one.outcome)] += one.cores * of / HOUR_US
    figure = new_figure(8.6, 0.9 + 0.35 * len(names))
    axes, left = figure.axes[0], np.zeros(len(names))
    for at, (kind, color) in enumerate(zip(kinds, (ON_DEMAND, SPOT, PROMISE, FREE), strict=True)):
        axes.barh(names, hours[:, at], 0.6, left, color=color, label=kind, edgecolor=MUTED, linewidth=0.3)
        left += hours[:, at]
    axes.invert_yaxis()
    axes.set_xlabel("core-hours")
    rule_lines(axes, "x")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0, handlelength=1.2)
    total = hours.sum(axis=0)
    summary = (
        f"Of the work of all counted jobs, {total[0]:.0f} core-hours were done at home and {total[1]:.0f} away; "
        f"{total[2]:.0f} were lost when foreign jobs were preempted, and {total[3]:.0f} were asked for in vain. "
        "What was done away holds the time of transfers."
    )
    rows = [(name, *(f"{value:.0f}" for value in line)) for name, line in zip(names, hours.tolist(), strict=True)]
    return picture(figure, "work", "Work by origin", "all clouds", summary, Numbers(("origin", *kinds), rows))


def _cloud(found: FederationFindings, name: str) -> Iterator[str]:
    yield f'<section class="single"><h2>Cloud {escape(name)}</h2>'
    yield _figure(_draw_cores(found, name))
    hosted = _foreign(found.fates, name)
    if hosted:
        yield _figure(_draw_jobs(name, hosted))
    yield "</section>"


def _draw_cores(found: FederationFindings, name: str) -> Picture:
    """Draw the cores in use by native and by foreign jobs, means over equal parts of the time."""
    end_us = max(one.end_us for one in found.fates)
    capacity = float(sum(node.cores for node in found.scenario.nodes[name]))
    own = [one for one in found.fates if one.outcome is JobOutcome.NATIVE and one.origin == name]
    hosted = _foreign(found.fates, name)
    native, foreign = _mean_cores(own, end_us), _mean_cores(hosted, end_us)
    lost = np.array([one.end_us for one in hosted if one.outcome is JobOutcome.PREEMPTED]) / DAY_US
    days = np.linspace(0.0, end_us / DAY_US, _PERIODS + 1)
    figure = new_figure(8.6, 2.4)
    axes, both = figure.axes[0], native + foreign
    for low, high, label, color in (
        (np.zeros_like(native), native, "native", ON_DEMAND),
        (native, both, "foreign", SPOT),
        (both, np.full_like(both, capacity), "free", FREE),
    ):
        axes.fill_between(days, _held(low), _held(high), step="post", label=label, color=color, linewidth=0)
    if len(lost):
        axes.scatter(lost, np.full(len(lost), 1.04 * capacity), 12, color=PROMISE, marker="v", lw=0, label="preempted")
    axes.set_ylim(0, 1.1 * capacity)
    _finish_days(axes, float(days[-1]), "cores")
    shares = [percent(float(part.mean() / capacity)) for part in (native, foreign)]
    summary = (
        f"Of {capacity:.0f} cores {shares[0]} ran native jobs and {shares[1]} foreign ones; {len(lost)} foreign jobs "
        f"were preempted. Areas are means over {24 * days[1]:.1f} h, and all jobs are in them, also those that are "
        "not counted."
    )
    rows = [
        (f"{part[0]:.1f} to {part[-1]:.1f}", f"{one.mean():.1f}", f"{two.mean():.1f}")
        for part, one, two in zip(*(np.array_split(x, _ROWS) for x in (days[:-1], native, foreign)), strict=True)
    ]
    numbers = Numbers(("days", "native cores", "foreign cores"), rows)
    return picture(figure, f"{name}-cores", "Cores in use over time", f"cloud {name}", summary, numbers)


def _held(values: Floats) -> Floats:
    """Repeat the last value of a step function at its end."""
    return np.append(values, values[-1])


def _draw_jobs(name: str, hosted: Sequence[JobFate]) -> Picture:
    """Draw each foreign job as a bar from its begin to its end, in the lowest free line; the last ones if many."""
    shown = sorted(hosted, key=lambda one: one.begin_us)[-_MOST_DRAWN:]
    lines = _lines_of(shown)
    figure = new_figure(8.6, min(1.2 + 0.09 * (max(lines) + 1), 6.0))
    axes = figure.axes[0]
    for outcome, color in ((JobOutcome.COMPLETED, SPOT), (JobOutcome.PREEMPTED, PROMISE)):
        bars = [(line, one) for line, one in zip(lines, shown, strict=True) if one.outcome is outcome]
        axes.barh(
            [line for line, _ in bars],
            [_length_us(one) / DAY_US for _, one in bars],
            0.8,
            [one.begin_us / DAY_US for _, one in bars],
            color=color,
            label=str(outcome),
        )
    axes.set_yticks([])
    first, last = shown[0].begin_us / DAY_US, max(one.end_us for one in shown) / DAY_US
    _finish_days(axes, last, "foreign jobs", first)
    lost = sum(one.outcome is JobOutcome.PREEMPTED for one in shown)
    hours = sorted(_length_us(one) / HOUR_US for one in shown)
    left_out = f" {len(hosted) - len(shown)} earlier ones are not drawn." if len(hosted) > len(shown) else ""
    summary = (
        f"{len(shown)} foreign jobs, up to {max(lines) + 1} at a time, {lost} of them preempted. Half of them held "
        f"their cores for less than {hours[len(hours) // 2]:.1f} h, the longest for {hours[-1]:.1f} h.{left_out}"
    )
    origins = sorted({one.origin for one in hosted})
    counted = [(origin, [one for one in hosted if one.origin == origin]) for origin in origins]
    rows = [
        (
            origin,
            f"{len(jobs)}",
            f"{sum(one.outcome is JobOutcome.PREEMPTED for one in jobs)}",
            f"{_core_hours(jobs):.0f}",
        )
        for origin, jobs in counted
    ]
    numbers = Numbers(("from", "foreign jobs", "preempted", "core-hours held"), rows)
    return picture(figure, f"{name}-jobs", "Foreign jobs over time", f"cloud {name}", summary, numbers)


def _lines_of(jobs: Sequence[JobFate]) -> list[int]:
    """Return a line for each job, the lowest that is free when it begins. Jobs come by their begins."""
    ends: list[int] = []
    lines = []
    for one in jobs:
        free = next((at for at, end_us in enumerate(ends) if end_us <= one.begin_us), len(ends))
        ends[free : free + 1] = [one.end_us]
        lines.append(free)
    return lines


def _mean_cores(jobs: Sequence[JobFate], end_us: int) -> Floats:
    """Return the mean cores that jobs held in each of _PERIODS equal parts of the time from 0 to the end."""
    edges = np.linspace(0.0, end_us, _PERIODS + 1)
    begins, ends, cores = (np.array(x, np.float64) for x in _columns(jobs))
    held = np.zeros(_PERIODS + 1)
    for moments, sign in ((begins, 1.0), (ends, -1.0)):
        order = np.argsort(moments)
        times, many = moments[order], np.cumsum(cores[order])
        weighted = np.cumsum(cores[order] * times)
        at = np.searchsorted(times, edges, side="right")
        many, weighted = (np.concatenate([np.zeros(1), x])[at] for x in (many, weighted))
        held += sign * (many * edges - weighted)
    means: Floats = np.diff(held) / (edges[1] - edges[0])
    return np.maximum(means, 0.0)


def _columns(jobs: Sequence[JobFate]) -> tuple[list[int], list[int], list[int]]:
    return [one.begin_us for one in jobs], [one.end_us for one in jobs], [one.cores for one in jobs]


def _finish_days(axes: Axes, end: float, name: str, begin: float = 0.0) -> None:
    axes.set_xlim(begin, end)
    axes.set_xlabel("days")
    axes.set_ylabel(name, color=INK)
    rule_lines(axes, "x")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0, handlelength=1.2)


def _closing(scenario: FederationScenario, command: str) -> Iterator[str]:
    yield f"<footer><h2>How it was made</h2><pre>{escape(command)}</pre>"
    links = "; ".join(f"{name} to {', '.join(hosts) or 'none'}" for name, hosts in scenario.links.items())
    rows = [
        ("tenure", __version__),
        ("links", links),
        ("bandwidth", f"{scenario.bytes_per_s} bytes a second"),
        ("declared", f"{scenario.bound:g} times the lifetime"),
        ("not counted", f"the first {percent(scenario.train)} of the time"),
    ]
    yield table_html(Numbers(("setting", "value"), rows), words=2) + "</footer>"


def _figure(drawn: Picture) -> str:
    return (
        f'<figure id="{drawn.key}"><h3>{escape(drawn.title)}</h3>{drawn.svg}'
        f"<figcaption>{escape(drawn.summary)}</figcaption>"
        f"<details><summary>The numbers</summary>{table_html(drawn.numbers)}</details></figure>"
    )


def _preempted(lost: int, of: int, scenario: FederationScenario | None) -> tuple[str, str]:
    """Return a share as text, with a word if it is above the SLA, and its exact interval of 95 %."""
    if not of:
        return "-", "-"
    low, high = exact_interval(lost, of)
    has_sla = scenario is not None and scenario.rule is not HostRule.NONE
    missed = " (missed)" if has_sla and scenario is not None and lost > scenario.sla * of else ""
    return f"{lost} ({percent(lost / of, 2)}){missed}", f"{percent(low, 2)} to {percent(high, 2)}"


def _of(part: int, whole: int) -> str:
    return percent(part / whole if whole else None, 2)


def _is_foreign(one: JobFate) -> bool:
    return one.outcome in {JobOutcome.COMPLETED, JobOutcome.PREEMPTED}


def _foreign(fates: Sequence[JobFate], host: str) -> list[JobFate]:
    return [one for one in fates if one.host == host and _is_foreign(one)]


def _length_us(one: JobFate) -> int:
    return one.end_us - one.begin_us


def _core_hours(jobs: Sequence[JobFate]) -> float:
    return sum(one.cores * _length_us(one) for one in jobs) / HOUR_US
