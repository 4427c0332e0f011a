"""The parts of a report that judge: the promise by stratum, flavor and week, and both forecasts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.domain.numbers import number_text
from app.domain.times import HOUR_US
from app.judging.verdicts import judge_coverage, judge_estimate, judge_promise
from app.workbench.calibration import calibration_reports, calibration_words
from app.workbench.matrix import Evaluated
from app.workbench.report.comparisons import sla_of
from app.workbench.report.drawing import Numbers, percent
from app.workbench.tally import GroupTally

_JUDGED = ("", "admitted", "evicted", "evicted overrunning", "core-hours lost of admitted", "verdict")
_SAID = ("forecast", "lifetimes", "starts", "evicted", "AUC", "said and happened", "beside a constant", "95 % bound")
_DECILES = ("forecast", "tenth", "starts", "said and happened")


def judged_groups(one: Evaluated) -> Numbers:
    """Return the verdicts on the promise by stratum, flavor and week of the workload; without an SLA the counts."""
    tally, sla = one.outcome.tally, sla_of(one.outcome.scenario.policy)
    groups = {**tally.strata, **{f"flavor {name}": group for name, group in tally.flavors.items()}}
    groups |= {f"week {number + 1}": group for number, group in sorted(tally.weeks.items())}
    return Numbers(_JUDGED, [_judged(name, group, sla) for name, group in groups.items()])


def _judged(name: str, group: GroupTally, sla: float | None) -> tuple[str, ...]:
    hours = f"{number_text(group.lost_core_us / HOUR_US)} of {number_text(group.core_us / HOUR_US)}"
    lost = f"{group.evicted} ({percent(group.evicted / group.admitted if group.admitted else None, 2)})"
    verdict = "-" if sla is None else judge_promise(sla, group.evicted, group.admitted).sentence
    return name, f"{group.admitted}", lost, f"{group.overrun_evicted}", hours, verdict


def judged_forecasts(one: Evaluated) -> tuple[Numbers, Numbers] | None:
    """Return both forecasts side by side, by stratum and by tenth of the starts; None if none was followed."""
    found = calibration_reports(one.cases or [], one.outcome.scenario.policy.forecast)
    told = [block for block in found.values() if block is not None and block["cases"]]
    if not told:
        return None
    by_stratum = [row for block in told for row in _said(block)]
    return Numbers(_SAID, by_stratum), Numbers(_DECILES, [row for block in told for row in _tenths(block)])


def _said(block: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    coverage = block["coverage"]
    whole = {name: sum(row[name] for row in coverage.values()) for name in ("epochs", "covered")}
    rows = {"all": (block, whole), **{name: (row, coverage[name]) for name, row in block["strata"].items()}}
    for name, (row, covered) in rows.items():
        auc = row.get("auc")
        yield (
            block["forecast"],
            name,
            f"{row['cases']}",
            f"{row['evicted']}",
            "-" if auc is None else f"{auc:.3f}",
            *calibration_words(row),
            judge_coverage(covered["covered"], covered["epochs"])[1],
        )


def _tenths(block: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(block["deciles"], 1):
        evicted = round(row["happened"] * row["cases"])
        words = judge_estimate(row["said"], evicted, row["cases"]).sentence
        yield block["forecast"], f"{number}", f"{row['cases']}", words
