"""A minute under faults, a federation under some, and the proofs that both would find what they are there for.

Not among the tests that `make test` runs, since it wants the machine for itself: `make faults-short`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nursery import end_nursery

from faults.federation.run import hold_trial as hold_federation
from faults.trial import hold_trial

_SEED = 3


@pytest.fixture(scope="module", autouse=True)
def nursery_that_ends() -> Iterator[None]:
    yield
    end_nursery()


def test_nothing_is_violated_in_a_minute_of_faults() -> None:
    assert hold_trial(60, _SEED) == []


def test_lost_stops_are_found_where_their_mend_is_taken_out() -> None:
    violations = hold_trial(30, _SEED, longest_pause_s=60, defect="stale_batches")
    assert any(violation.rule == "answer" for violation in violations)


def test_a_federation_under_kills_loses_no_job_and_runs_none_twice() -> None:
    found = hold_federation(8, _SEED)
    assert found.broken == []
    assert found.ran_away > 0


def test_jobs_that_run_twice_are_found_where_leases_are_not_kept() -> None:
    found = hold_federation(2, _SEED, defect="early_reclaims")
    assert "twice" in {rule for rule, _ in found.broken}
