"""Verdicts on the promise of a driven workload, by declared lifetime."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.commands.outcomes import print_above, print_outcome
from app.domain.values import Guarantee, Policy, Resources
from app.workbench.kept import kept_by_lifetime
from app.workbench.tally import DrivenScenario, GroupTally, Scenario, WorkloadTally
from app.workbench.workload import Workload


def outcome(guarantee: Guarantee, **groups: GroupTally) -> DrivenScenario:
    policy = replace(Policy(), guarantee=guarantee, eviction_probability=0.01)
    scenario = Scenario((Resources(8),), Workload((), ()), policy)
    tally = WorkloadTally.of(scenario)
    names = dict(zip(("short", "hours", "days"), tally.strata, strict=False))
    tally.strata |= {names[name]: group for name, group in groups.items()}
    return DrivenScenario(scenario, tally, 0.5, 1.0)


SOME = {"short": GroupTally(admitted=1000), "days": GroupTally(admitted=5, evicted=5)}


def test_a_stratum_that_lost_all_is_told_beside_a_promise_that_all_kept() -> None:
    judged = [(one.of, one.sentence, one.is_above) for one in kept_by_lifetime(outcome(Guarantee.STRATIFIED, **SOME))]
    assert judged == [
        ("all", "promised at most 1 %, happened 0.162 to 1.16 %: kept so far, not for certain", False),
        ("<1h", "promised at most 1 %, happened 0 to 0.368 %: kept", False),
        ("8h-2d", "promised at most 1 %, 5 of 5 evicted: above so far, of few", True),
    ]


def test_without_a_promise_there_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    free = outcome(Guarantee.NONE, **SOME)
    assert not list(kept_by_lifetime(free))
    print_above({"7x12-yjf-no-sla": free})
    assert not capsys.readouterr().out


def test_of_several_what_is_above_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_above({"a": outcome(Guarantee.STRATIFIED, **SOME), "b": outcome(Guarantee.POOLED, short=SOME["short"])})
    assert capsys.readouterr().out.splitlines() == [
        "declared lifetimes of which more was evicted than promised:",
        "a, 8h-2d: promised at most 1 %, 5 of 5 evicted: above so far, of few",
    ]
    print_above({"b": outcome(Guarantee.POOLED, short=SOME["short"])})
    assert capsys.readouterr().out == "declared lifetimes of which more was evicted than promised: none\n"


def test_of_one_all_verdicts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcome(outcome(Guarantee.STRATIFIED, **SOME), as_json=False)
    said = capsys.readouterr().out
    assert "all    promised at most 1 %, happened 0.162" in said
    assert "8h-2d  promised at most 1 %, 5 of 5 evicted" in said
