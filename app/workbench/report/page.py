"""The report: one page for screens and paper that needs nothing else, neither scripts nor network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice

from app import __version__
from app.domain.budgets import BudgetUnit
from app.domain.inputs import platform_text
from app.domain.times import HOUR_US
from app.workbench.findings import LogFindings
from app.workbench.matrix import Evaluated
from app.workbench.report.comparisons import (
    ComparedEvaluation,
    draw_by_platform,
    draw_by_sla,
    point_of,
    reading,
    sla_of,
)
from app.workbench.report.drawing import Numbers, Picture, in_style, percent
from app.workbench.report.evidence import draw_buckets, draw_reliability
from app.workbench.report.parts import document, table_html
from app.workbench.report.timelines import draw_budget, draw_load
from app.workbench.report.verdicts import judged_forecasts, judged_groups
from app.workbench.standings import standings
from app.workbench.tally import Scenario, rules_of, settings


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a report: the command that made it, the traces by market, and the delay of the spot trace."""

    command: str
    traces: Mapping[str, str]
    spot_delay: str


def render_page(found: Sequence[Evaluated], origin: Origin) -> str:
    """Return the report of a matrix of evaluations, as HTML.

    1. The settings and the results. 2. Pictures that compare. 3. Each evaluation by itself.
    """
    points = [point_of(one) for one in found]
    with in_style():
        parts = [
            *_opening(origin, found),
            _results(points),
            *_against_baselines(found),
            *_compared(points),
            *(part for number, one in enumerate(found) for part in _single(f"e{number}", one)),
            *_closing(origin, found),
        ]
    title = f"Tenure: {origin.traces['on-demand']} with spot {origin.traces['spot']}"
    return document(title, parts)


def _opening(origin: Origin, found: Sequence[Evaluated]) -> Iterator[str]:
    workload = found[0].outcome.scenario.workload
    yield "<header>"
    yield "<p class=mark>Tenure evaluation</p>"
    on_demand, spot = (escape(origin.traces[market]) for market in ("on-demand", "spot"))
    yield f"<h1>{on_demand} <span>on-demand, with</span> {spot} <span>as spot</span></h1>"
    left_out = f" {workload.left_out} more, from the end of the on-demand trace on, are left out."
    left_out = left_out if workload.left_out else ""
    yield (
        f"<p>{len(workload.on_demand)} on-demand starts and {len(workload.spot)} spot starts, the spot trace "
        f"{escape(origin.spot_delay)} late.{left_out} <em>Admitted</em> is of those requested, <em>evicted</em> is of "
        f"those admitted; the SLA is kept where evicted is at most what was promised.</p>"
    )
    yield "</header>"


def _results(points: Sequence[ComparedEvaluation]) -> str:
    columns = (
        "platform", "rules", "guarantee", "SLA", "on-demand admitted", "spot admitted", "evicted",
        "core-hours completed",
    )  # fmt: skip
    rows = []
    for p in points:
        missed = p.sla is not None and p.evicted > p.sla
        done = percent(p.tally.completed_core_us / p.tally.requested_core_us if p.tally.requested_core_us else None)
        evicted = percent(p.evicted, 2) + (" (missed)" if missed else "")
        words = p.platform, p.victims, reading(p.guarantee), p.promise
        rows.append((*words, percent(p.on_demand), percent(p.spot), evicted, done))
    return f"<section><h2>Results</h2>{table_html(Numbers(columns, rows), words=4)}</section>"


def _against_baselines(found: Sequence[Evaluated]) -> Iterator[str]:
    """Show what each promise gave beside the baselines of its platform, if they were asked for."""
    if found[0].baselines is None:
        return
    columns = (
        "platform", "rules", "promise or baseline", "spot admitted", "evicted", "core-hours completed",
        "lost of admitted", "of the clairvoyant's",
    )  # fmt: skip
    rows = [
        (
            one.platform,
            one.victims,
            one.rule,
            _ratio(one.tally.spot_admitted, one.tally.spot_requested),
            _ratio(one.tally.spot_evicted, one.tally.spot_admitted, 2),
            _ratio(one.tally.completed_core_us, one.tally.requested_core_us),
            _ratio(one.lost_core_us(), one.core_us()),
            _ratio(one.tally.completed_core_us, one.best_core_us),
        )
        for one in standings(found)
    ]
    yield "<section><h2>Against the baselines</h2><p>"
    yield "<em>admit-all</em> promises nothing; with <em>head-room</em> a spot start leaves room for 1.2 times"
    yield "the highest on-demand load of as long a time as its lifetime before it; the <em>clairvoyant</em>"
    yield "knows the whole workload and has nobody evicted.</p>"
    yield f"{table_html(Numbers(columns, rows), words=3)}</section>"


def _ratio(count: int, of: int, digits: int = 1) -> str:
    return percent(count / of if of else None, digits)


def _compared(points: Sequence[ComparedEvaluation]) -> Iterator[str]:
    for heading, pictures in (("By SLA", draw_by_sla(points)), ("By platform", draw_by_platform(points))):
        if pictures:
            yield f"<section><h2>{heading}</h2>"
            yield from (_figure(picture, caption=False) for picture in pictures)
            yield "</section>"


def _single(key: str, one: Evaluated) -> Iterator[str]:
    findings, scenario = one.findings, one.outcome.scenario
    assert findings is not None
    name = _name(scenario)
    yield f'<section class="single"><h2>{escape(name)}</h2>'
    yield _figure(draw_load(f"{key}-load", name, findings.load))
    if sla_of(scenario.policy) is not None and findings.budget:
        yield _figure(draw_budget(f"{key}-budget", name, findings.budget, round(findings.load.edges_us[-1])))
        yield _figure(draw_reliability(f"{key}-reliability", name, findings.reliability))
    yield from _flavors(key, name, findings)
    yield from _verdicts(one)
    yield "</section>"


def _verdicts(one: Evaluated) -> Iterator[str]:
    """Judge the promise for each who may buy it, and what both forecasts said of every quoted start."""
    yield "<h3>By lifetime, flavor and week</h3>"
    yield f"{table_html(judged_groups(one))}"
    said = judged_forecasts(one)
    if said is None:
        return
    by_stratum, tenths = said
    yield "<h3>Both forecasts, of every quoted start followed to its end</h3>"
    yield table_html(by_stratum, words=2)
    yield f"<details><summary>By tenths of the starts, by rising estimate</summary>{table_html(tenths)}</details>"


def _flavors(key: str, name: str, findings: LogFindings) -> Iterator[str]:
    """Show the last table: the flavor with most samples in full view, the others folded."""
    table = findings.table
    seen = [] if table is None else [flavor for flavor, buckets in table.flavors.items() if buckets]
    if table is None or not seen:
        return
    pictures = (draw_buckets(f"{key}-f{number}", name, flavor, table) for number, flavor in enumerate(seen))
    yield from map(_figure, islice(pictures, 1))
    if len(seen) > 1:
        yield f"<details><summary>The other flavors: {escape(', '.join(seen[1:]))}</summary>"
        yield from map(_figure, pictures)
        yield "</details>"


def _closing(origin: Origin, found: Sequence[Evaluated]) -> Iterator[str]:
    scenario = found[0].outcome.scenario
    varied = {"nodes", "guarantee", "eviction_probability", "eviction_policy", "placement", "budget"}
    common = {name: value for name, value in settings(scenario).items() if name not in varied}
    common["epoch_h"] = scenario.policy.recompute_every_us / HOUR_US
    yield "<footer><h2>How it was made</h2>"
    yield f"<pre>{escape(origin.command)}</pre>"
    rows = [("tenure", __version__), *((name, f"{value}") for name, value in common.items())]
    rows.append(("seconds", ", ".join(f"{one.outcome.wall_s:.1f}" for one in found)))
    yield table_html(Numbers(("setting", "value"), rows), words=2)
    yield "</footer>"


def _name(scenario: Scenario) -> str:
    policy = scenario.policy
    sla = sla_of(policy)
    promise = "no SLA" if sla is None else f"SLA {sla:g} {reading(policy.guarantee)}"
    counted = " by core-hours" if sla is not None and policy.budget is BudgetUnit.CORE_HOURS else ""
    return f"{platform_text(scenario.nodes)}, {promise}{counted}, {rules_of(policy)}"


def _figure(picture: Picture, *, caption: bool = True) -> str:
    told = f"<figcaption>{escape(picture.summary)}</figcaption>" if caption else ""
    return (
        f'<figure id="{picture.key}"><h3>{escape(picture.title)}</h3>{picture.svg}{told}'
        f"<details><summary>The numbers</summary>{table_html(picture.numbers)}</details></figure>"
    )
