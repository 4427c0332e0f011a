"""Reasons of jobs are told with what they mean: each that the documentation names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.domain.jobs import DataFault
from app.federation.rules.reasons import MEANINGS, OUTPUT_MEANINGS, ToldAttempt, explained

PAGE = Path(__file__).parents[2] / "docs/federation.md"


def documented() -> set[str]:
    """Return the reasons of the tables of docs/federation.md that begin with one."""
    tables = re.findall(r"\| reason \| meaning \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"))
    firsts = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return {reason for first in firsts for reason in re.findall("`([a-z_]+)`", first)}


def test_each_documented_reason_has_a_meaning() -> None:
    assert documented() == (MEANINGS | OUTPUT_MEANINGS).keys() - {"no_peers"}
    assert {*map(str, DataFault)} <= (MEANINGS | OUTPUT_MEANINGS).keys()


def attempt(outcome: str | None, why: str | None = None, fault: str | None = None) -> ToldAttempt:
    return ToldAttempt(1, "b", is_awarded=False, outcome=outcome, why=why, input_fault=fault, output_fault=None)


def ended(number: int, outcome: str) -> ToldAttempt:
    return attempt(outcome)._replace(number=number, is_awarded=True)


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        ([attempt("paused_here"), attempt("breaker_open")], "no peer was asked at all"),
        ([attempt("paused_here"), attempt("refused", "quota_exceeded")], "no peer that may run it took it: "),
        ([attempt("refused", "data_too_late", "data_unreachable")], "no peer that may run it took it: "),
        ([], "no peer that may run it took it: "),
        (None, "no peer that may run it took it, or took it again after it was preempted: its attempts tell why (ten"),
        (
            [ended(1, "preempted"), ended(2, "preempted"), attempt("refused", "no_capacity")],
            "no peer took it again after its attempt 2 at b was preempted",
        ),
        ([ended(1, "reclaimed"), attempt("paused_here")], "no peer took it again after its attempt 1 at b was taken"),
    ],
)
def test_refused_by_all_says_who_was_asked_and_who_took_it(tried: list[ToldAttempt] | None, told: str) -> None:
    first, *others = explained("refused_by_all", None, tried)
    assert first.startswith(f"refused by all: {told}")
    reasons = {name for one in tried or () for name in (one.why or one.outcome, one.input_fault)}
    assert len(others) == len(reasons & MEANINGS.keys())


def test_lost_outputs_are_of_a_job_that_completed() -> None:
    for reason in ("data_missing", "data_gone"):
        (told,) = explained(None, reason)
        assert told.startswith(f"{reason.replace('_', ' ')}: the job has completed, but its outputs are lost: ")
    (told,) = explained(None, "data_missing", [ended(1, "completed")._replace(output_fault="data_missing")])
    assert "nothing of it ran there" not in told
    (told,) = explained(None, None, [ended(1, "failed")._replace(why="data_missing")])
    assert told == "data missing: an object is not there: the job has failed, and nothing of it ran there"
    (told,) = explained(None, None, [ended(1, "completed")._replace(output_fault="data_unreachable")])
    assert told.endswith("it is tried again within half a minute")
