"""Work with a deadline on machines that come and go: the safety net keeps every deadline, whatever happens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.inputs import InputError
from app.venues.rules.policy import FIXED, NOWHERE, DeadlinePace, DeadlineState, next_place, step_to
from app.workbench.venues import deadlines
from app.workbench.venues.availability import Availability, read_availability
from app.workbench.venues.deadlines import backtest_deadlines, mean_rest, run_job, survival_ranking
from app.workbench.venues.ratedeadlines import RatedTerms, bands_of, rated_policy, rated_run

RECORDS = Path(__file__).parents[3] / "shared/traces/spot-availability"
STEP = (0.05, 0.1)


def records(had: list[list[bool]], tick_s: float = 180.0) -> Availability:
    return Availability(tuple(f"zone-{at}" for at in range(len(had))), tick_s, np.array(had, np.bool_))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from(DeadlinePace),
    st.sampled_from([1.25, 1.5, 3.0]),
)
def test_every_deadline_is_kept(runs: list[list[int]], pace: DeadlinePace, slack: float) -> None:
    """Zones are there and gone in turn, for random numbers of ticks; a job of two hours has .5 h of slack or more."""
    longest = max(sum(one) for one in runs)
    rows = [[at % 2 == 0 for at, length in enumerate(one) for _ in range(length)] for one in runs]
    made = records([row + [False] * (longest - len(row)) for row in rows])
    end = run_job(made, 0, (2.0, slack), lambda _, had: had, pace, range(len(rows)))
    assert end.left_h >= -1e-9
    assert end.work_h == pytest.approx(0.0, abs=1e-9)
    assert end.spot_h + end.fixed_h == pytest.approx(2.0 + 0.1 * end.launches, abs=0.1 * end.launches + 1e-9)


def test_a_machine_is_kept_while_it_is_there_and_the_best_zone_is_taken_next() -> None:
    state = DeadlineState(10.0, 20.0, place=2)
    assert next_place(state, [0, 2], (10.0, 20.0), DeadlinePace.SAFETY_NET, STEP) == 2
    assert next_place(state, [1, 0], (10.0, 20.0), DeadlinePace.SAFETY_NET, STEP) == 1
    assert next_place(state, [], (10.0, 20.0), DeadlinePace.SAFETY_NET, STEP) == NOWHERE


def test_the_net_is_the_latest_moment_and_uniform_progress_is_earlier() -> None:
    at_net = DeadlineState(10.0, 10.14)
    assert next_place(at_net, [0], (10.0, 12.0), DeadlinePace.SAFETY_NET, STEP) == FIXED
    assert next_place(DeadlineState(10.0, 10.2), [], (10.0, 12.0), DeadlinePace.SAFETY_NET, STEP) == NOWHERE
    assert next_place(DeadlineState(10.0, 10.2), [0], (10.0, 12.0), DeadlinePace.SAFETY_NET, STEP) == NOWHERE
    assert next_place(DeadlineState(10.0, 11.0), [], (10.0, 12.0), DeadlinePace.UNIFORM_PROGRESS, STEP) == FIXED
    assert next_place(DeadlineState(10.0, 11.0), [], (10.0, 12.0), DeadlinePace.SAFETY_NET, STEP) == NOWHERE


def test_a_step_pays_for_its_changeover_and_ends_with_the_work() -> None:
    first = step_to(DeadlineState(0.06, 5.0), 1, STEP)
    assert (first.work_h, first.launching_h, first.launches) == (0.06, 0.05, 1)
    second = step_to(first, 1, STEP)
    third = step_to(step_to(second, 1, STEP), 1, STEP)
    assert third.is_done
    assert third.spot_h == pytest.approx(0.16)
    assert third.launches == 1


def test_zones_are_ranked_by_how_long_machines_lasted_before() -> None:
    assert mean_rest([True, True, False, True]) == pytest.approx(4 / 3)
    assert mean_rest([False]) == 0.0
    steady, broken = [True] * 100, [at % 3 != 0 for at in range(100)]
    ranking = survival_ranking(records([broken, steady], 3600.0))
    assert ranking(80, [0, 1]) == [1, 0]
    changed = survival_ranking(records([broken[:72] + [True] * 28, steady[:72] + [False] * 28], 3600.0))
    assert changed(80, [0, 1]) == [1, 0]


def test_records_are_read_or_refused(tmp_path: Path) -> None:
    good = {"metadata": {"gap_seconds": 60}, "data": [0, 1, 4]}
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("a", "b"):
        (inner / f"{name}.json").write_text(json.dumps(good))
    found = read_availability(tmp_path)
    assert (found.zones, found.tick_s, found.had.tolist()) == (("a", "b"), 60.0, [[False, True, True]] * 2)
    for bad in (
        "{",
        "[]",
        '{"metadata": {"gap_seconds": 0}, "data": [1]}',
        '{"metadata": {"gap_seconds": 60}, "data": []}',
    ):
        (inner / "b.json").write_text(bad)
        with pytest.raises(InputError, match=r"b\.json"):
            read_availability(tmp_path)


def test_a_plan_by_bands_alone_goes_on_in_another_zone_and_keeps_its_deadline() -> None:
    """Two zones in turn for an hour each, the third never: a job of 3 h loses its machine three times or goes over."""
    rows = [[at // 20 % 2 == zone for at in range(400)] for zone in (0, 1)]
    made = replace(records([*rows, [False] * 400]), zones=("us-east-1a_x", "us-east-1b_x", "us-west-2a_x"))
    assert dict(bands_of(made)) == {"us-east-1": 4, "us-west-2": 0}
    terms = RatedTerms((3.0, 1.5), 3.06, 0.1)
    policy, zones = rated_policy(made, terms)
    assert zones == [2, 0, 1], "the region whose band is the best comes first"
    end = rated_run(made, 200, terms, policy, zones)
    assert (end.launches, end.fixed_h) == (4, 0.0)
    assert end.spot_h == pytest.approx(3.4)
    late = rated_run(records([[False] * 400] * 3), 200, terms, policy, zones)
    assert (late.launches, late.spot_h, late.left_h) == (1, 0.0, pytest.approx(0.0, abs=1e-6))
    assert late.fixed_h == pytest.approx(3.1)


@pytest.mark.skipif(not RECORDS.is_dir(), reason=f"the records of availability are not in {RECORDS}")
def test_the_bars_are_kept_on_recorded_availability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "CASES", ((12.0, 1.25), (12.0, 1.5)))
    answer = backtest_deadlines(read_availability(RECORDS), 0, 90, lambda *_: None)
    assert answer["met"] == 1.0
    assert answer["cost_over_on_demand"] <= 0.345
    for name, cell in answer["cells"].items():
        assert cell["met"] == 1.0, name
    for case in ("12 h, D = 1.25 C", "12 h, D = 1.5 C"):
        assert answer["cells"][f"{case}, bands alone"]["cost_over_on_demand"] <= 0.40
        own = answer["cells"][f"{case}, survival"]
        assert own["launches"] <= 0.9 * answer["cells"][f"{case}, random"]["launches"]
        assert own["launches"] <= 0.5 * answer["cells"][f"{case}, fixed order"]["launches"]
