"""The interval that everything is judged by, the verdicts, and their sentences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from app.engine.cloud import OutcomeCounts, Section, SectionKind
from app.judging.intervals import exact_interval
from app.judging.outcomes import standing
from app.judging.verdicts import FEWEST, Judged, judge_coverage, judge_estimate, judge_loss, judge_promise


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(1, 300_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_interval_is_clopper_and_pearsons(pair: tuple[int, int], confidence: float) -> None:
    hits, count = pair
    rare = (1 - confidence) / 2
    low = 0.0 if not hits else float(beta.ppf(rare, hits, count - hits + 1))
    high = 1.0 if hits == count else float(beta.ppf(1 - rare, hits + 1, count - hits))
    assert exact_interval(hits, count, confidence) == pytest.approx((low, high), rel=1e-7, abs=1e-10)
    assert exact_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("promised", "evicted", "admitted", "verdict", "sentence"),
    [
        (0.01, 0, 0, Judged.TOO_FEW, "promised at most 1 %, 0 of 0 evicted: too few instances to judge"),
        (0.01, 1, 1, Judged.TOO_FEW, "promised at most 1 %, 1 of 1 evicted: too few instances to judge"),
        (0.05, 2, 19, Judged.TOO_FEW, "promised at most 5 %, 2 of 19 evicted: too few instances to judge"),
        (0.01, 2, 19, Judged.ABOVE, "promised at most 1 %, 2 of 19 evicted: above so far, of few"),
        (0.01, 19, 19, Judged.ABOVE, "promised at most 1 %, 19 of 19 evicted: above so far, of few"),
        (0.01, 2, 1000, Judged.KEPT, "promised at most 1 %, happened 0.0242 to 0.721 %: kept"),
        (
            0.01,
            9,
            1000,
            Judged.KEPT_SO_FAR,
            "promised at most 1 %, happened 0.412 to 1.7 %: kept so far, not for certain",
        ),
        (
            0.01,
            11,
            1000,
            Judged.ABOVE,
            "promised at most 1 %, happened 0.55 to 1.96 %: above so far, perhaps by chance",
        ),
        (0.01, 30, 1000, Judged.BROKEN, "promised at most 1 %, happened 2.03 to 4.26 %: broken"),
        (0.01, 0, 1000, Judged.KEPT, "promised at most 1 %, happened 0 to 0.368 %: kept"),
    ],
)
def test_a_promise(promised: float, evicted: int, admitted: int, verdict: Judged, sentence: str) -> None:
    found = judge_promise(promised, evicted, admitted)
    assert (found.verdict, found.sentence) == (verdict, sentence)
    assert (found.low, found.high) == exact_interval(evicted, admitted)


@pytest.mark.parametrize(
    ("said", "evicted", "cases", "verdict", "sentence"),
    [
        (0.01, 100, 10_000, Judged.TRUE, "said 1 %, happened 0.814 to 1.21 %: true"),
        (0.01, 200, 10_000, Judged.TOO_LOW, "said 1 %, happened 1.73 to 2.29 %: too low"),
        (0.05, 100, 10_000, Judged.TOO_HIGH, "said 5 %, happened 0.814 to 1.21 %: too high"),
        (
            0.01,
            0,
            50,
            Judged.TOO_FEW,
            "said 1 %, 0 of 50 evicted: too few evictions to judge, more than twice what was said is possible",
        ),
        (0.9, 0, 10, Judged.TOO_FEW, "said 90 %, 0 of 10 evicted: too few starts to judge"),
        (0.0001, 12, 20, Judged.TOO_LOW, "said 0.01 %, happened 36.1 to 80.9 %: too low"),
    ],
)
def test_an_estimate(said: float, evicted: int, cases: int, verdict: Judged, sentence: str) -> None:
    found = judge_estimate(said, evicted, cases)
    assert (found.verdict, found.sentence) == (verdict, sentence)


def test_a_forecast_beside_a_constant() -> None:
    assert judge_loss(0.2, 0.4, 10, 100) == (Judged.BETTER, "log loss 0.5 of the best constant's: better")
    assert judge_loss(0.5, 0.4, 10, 100) == (Judged.NO_BETTER, "log loss 1.25 of the best constant's: no better")
    for evicted, cases, what in ((0, 100, "evictions"), (100, 100, "survivors"), (5, FEWEST - 1, "starts")):
        said = f"{evicted} of {cases} evicted: too few {what} to judge"
        assert judge_loss(0.1, 0.2, evicted, cases) == (Judged.TOO_FEW, said)


def test_bounds() -> None:
    assert judge_coverage(95, 100) == (Judged.HELD, "the bound held in 95 of 100 epochs: as it should")
    assert judge_coverage(80, 100) == (Judged.TOO_LOW, "the bound held in 80 of 100 epochs: too low")
    assert judge_coverage(0, FEWEST - 1)[0] is Judged.TOO_FEW


@pytest.mark.parametrize(
    ("overran", "said"),
    [(0, ""), (50, ""), (51, "; 51 of 100 ran on after their declared lifetime"), (100, "; 100 of 100 ran on after")],
)
def test_a_verdict_says_so_if_most_ran_on_after_their_lifetime(overran: int, said: str) -> None:
    counts = OutcomeCounts(admitted=100, evicted=0, promised=1.0, overran=overran)
    found = standing(Section(SectionKind.STRATUM, "<1h", 0, 0.01), counts).judgement
    kept = judge_promise(0.01, 0, 100)
    assert found.verdict is kept.verdict
    assert found.sentence.startswith(kept.sentence + said)
    assert ("declared lifetime" in found.sentence) == bool(said)
