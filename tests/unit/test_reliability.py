"""Promises against what happened: who counts, and how sure one may be."""

from __future__ import annotations

import pytest

from app.domain.events import InstanceEvicted, InstanceStarted, InstanceStopped
from app.domain.values import Basis, EvictionReason, Market
from app.judging.reliability import EDGES, Fate, PromiseEnd, fate_of, measure_reliability

START = InstanceStarted(
    at_us=1000,
    instance_id="i",
    market=Market.SPOT,
    flavor="c1",
    node="n",
    lifetime_us=500,
    probability=None,
    basis=Basis(3, epoch=7, probability=0.05, estimated_probability=0.02),
)


STRATUM = "<1h"


def evicted(at_us: int) -> InstanceEvicted:
    return InstanceEvicted(at_us=at_us, instance_id="i", reason=EvictionReason.ON_DEMAND_START, cause_seq=9)


@pytest.mark.parametrize(
    ("end", "now_us", "expected"),
    [
        (evicted(1500), 9000, PromiseEnd.EVICTED),
        (evicted(1501), 9000, PromiseEnd.KEPT),
        (InstanceStopped(at_us=1200, instance_id="i"), 9000, PromiseEnd.KEPT),
        (InstanceStopped(at_us=1800, instance_id="i"), 9000, PromiseEnd.KEPT),
        (None, 1499, PromiseEnd.OPEN),
        (None, 1500, PromiseEnd.KEPT),
    ],
    ids=["in time", "while overrunning", "stopped", "stopped late", "still running", "overrunning"],
)
def test_the_end_of_a_promise(end: InstanceStopped | InstanceEvicted | None, now_us: int, expected: PromiseEnd) -> None:
    assert fate_of(START, end, now_us) == Fate(7, 0.05, 0.02, expected, None, expected, STRATUM, START.flavor)


def test_without_an_sla_nothing_is_promised() -> None:
    start = InstanceStarted(at_us=0, instance_id="i", market=Market.SPOT, flavor="c1", node="n", lifetime_us=5)
    assert fate_of(start, evicted(2), 9) == Fate(
        None, None, None, PromiseEnd.EVICTED, stratum=STRATUM, flavor=START.flavor
    )
    (line,) = measure_reliability([fate_of(start, evicted(2), 9)]).classes
    assert (line.promised, line.happened, line.is_exceeded) == (None, 1.0, False)


def test_classes_bins_and_epochs() -> None:
    fates = [
        *[Fate(1, 0.01, 0.004, PromiseEnd.KEPT)] * 3,
        Fate(1, 0.01, 0.008, PromiseEnd.EVICTED),
        Fate(2, 0.01, 0.0, PromiseEnd.OPEN),
        *[Fate(2, 0.25, 0.2, PromiseEnd.EVICTED)] * 9,
        Fate(2, 0.25, 1.0, PromiseEnd.KEPT),
    ]
    found = measure_reliability(fates, 0.9)
    assert [(c.promised, c.admitted, c.running, c.settled, c.evicted, c.happened) for c in found.classes] == [
        (0.01, 5, 1, 4, 1, 0.25),
        (0.25, 10, 0, 10, 9, 0.9),
    ]
    assert [c.is_exceeded for c in found.classes] == [True, True]
    assert [(c.epoch, c.promised, c.admitted) for c in found.epochs] == [(1, 0.01, 4), (2, 0.01, 1), (2, 0.25, 10)]
    assert [(c.estimates, c.admitted, c.evicted) for c in found.estimates] == [
        ((0.0, 0.001), 1, 0),
        ((0.0025, 0.005), 3, 0),
        ((0.005, 0.01), 1, 1),
        ((0.1, 0.25), 9, 9),
        ((0.5, 1.0), 1, 0),
    ]
    assert found.estimates[1].promised == pytest.approx(0.004)
    assert found.estimates[0].happened is None
    assert (found.estimates[0].low, found.estimates[0].high) == (0.0, 1.0)


def test_bounds_are_set_against_what_happened() -> None:
    fates = [
        Fate(1, 0.1, 0.0, PromiseEnd.KEPT, 0.2),
        Fate(1, 0.1, 0.1, PromiseEnd.EVICTED, 0.4),
        Fate(2, 0.1, 0.05, PromiseEnd.KEPT, 0.1),
        Fate(3, 0.1, 0.05, PromiseEnd.OPEN, 0.1),
        Fate(4, 0.1, 0.05, PromiseEnd.EVICTED),
    ]
    found = measure_reliability(fates)
    assert [line.bound for line in found.epochs] == [pytest.approx(0.3), 0.1, 0.1, None]
    assert [line.is_covered for line in found.epochs] == [False, True, True, True]
    assert found.coverage == 0.5, "of two epochs with a bound and an outcome"
    assert measure_reliability(fates[-1:]).coverage is None


def test_what_was_said_is_judged_by_stratum_and_flavor() -> None:
    def fates(stratum: str, flavor: str, said: float, count: int, evicted: int) -> list[Fate]:
        ends = [PromiseEnd.EVICTED] * evicted + [PromiseEnd.KEPT] * (count - evicted)
        return [Fate(number % 25, 0.1, said, end, 0.2, end, stratum, flavor) for number, end in enumerate(ends)]

    still = Fate(1, 0.1, 0.9, PromiseEnd.OPEN, 0.95, PromiseEnd.OPEN, "<1h", "c1")
    known = [*fates("<1h", "c1", 0.05, 1000, 50), *fates("2d-7d", "c8", 0.02, 100, 40), still]
    whole, short, long, small, large = measure_reliability(known).truths
    assert [(one.by, one.name, one.cases, one.evicted) for one in (whole, short, long, small, large)] == [
        ("all", "all", 1100, 90),
        ("stratum", "<1h", 1000, 50),
        ("stratum", "2d-7d", 100, 40),
        ("flavor", "c1", 1000, 50),
        ("flavor", "c8", 100, 40),
    ]
    assert short.sentence == "said 5 %, happened 3.73 to 6.54 %: true"
    assert long.verdict == "too_low"
    assert whole.loss_verdict == "no_better"
    assert short.log_loss == pytest.approx(short.constant_log_loss) == pytest.approx(0.1985, abs=1e-4)
    assert (short.epochs, short.covered, short.coverage_verdict) == (25, 25, "held")
    assert (long.epochs, long.coverage_verdict) == (25, "too_low")
    assert measure_reliability([still]).truths == ()


def test_nothing_was_admitted() -> None:
    found = measure_reliability([])
    assert (found.classes, found.estimates, found.epochs) == ((), (), ())


def test_bins_hold_every_probability() -> None:
    for estimate in (*EDGES, 1.0, 0.3, 1e-9):
        (line,) = measure_reliability([Fate(1, 0.01, estimate, PromiseEnd.KEPT)]).estimates
        assert line.estimates is not None
        assert line.estimates[0] <= estimate <= line.estimates[1]
