"""A minute under faults, and the proof that it would find what it is there for.

Not among the tests that `make test` runs, since it wants the machine for itself: `make faults-short`.
"""

from __future__ import annotations

from faults.trial import hold_trial

_SEED = 3


def test_nothing_is_violated_in_a_minute_of_faults() -> None:
    assert hold_trial(60, _SEED) == []


def test_lost_stops_are_found_where_their_mend_is_taken_out() -> None:
    violations = hold_trial(30, _SEED, longest_pause_s=60, defect="stale_batches")
    assert any(violation.rule == "answer" for violation in violations)
