"""The platforms of the yardsticks are as many and as various as they say."""

from __future__ import annotations

from collections import Counter

import pytest

from app.domain.strata import STRATA, stratum_of
from app.domain.times import DAY_US, HOUR_US
from app.workbench.workload import TraceInstance
from benchmarks import shapes
from benchmarks.platforms import ALL, FILES, PARTS, PEAKS, TIGHT, TRACES, Platform, named, synthetic, trace

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the recorded traces are not in {TRACES}")


def load_at(instances: list[TraceInstance], at_us: int) -> int:
    return sum(one.cores for one in instances if one.start_us <= at_us < one.stop_us)


def test_the_yardsticks_have_sixty_platforms_and_half_of_them_are_real() -> None:
    assert len(ALL) >= 60
    assert sum(one.is_real for one in ALL) * 2 >= len(ALL)
    assert len({(one.pair, one.nodes, one.cores) for one in ALL}) == len(ALL)
    assert len({one.platform for one in ALL}) == len(ALL)


def test_every_ordered_pair_has_tight_platforms_below_its_peak() -> None:
    assert len(TIGHT) >= 14
    assert {one.pair for one in TIGHT} == {f"{a}-{b}" for a in FILES for b in FILES if a != b}
    for one in TIGHT:
        assert 0.45 <= one.nodes * one.cores / PEAKS[one.on_demand] <= 0.98


def test_a_platform_is_named_by_traces_and_size() -> None:
    assert named("growth.4-mixed.4:8x16") == Platform("named", "growth.4", "mixed.4", 8, 16)
    assert named("A-B:7x12").platform == PARTS["sixteen"][0].platform == "A-B on 7 x 12"


@needs_traces
@pytest.mark.parametrize("name", FILES)
def test_the_peaks_are_those_of_the_traces(name: str) -> None:
    instances = trace(name)
    assert max(load_at(instances, one.start_us) for one in instances) == PEAKS[name]


@needs_traces
@pytest.mark.parametrize("part", ["log", "made"])
def test_platforms_of_other_traces_have_both_markets(part: str) -> None:
    for one in PARTS[part]:
        workload = one.workload()
        assert len(workload.on_demand) > 1000
        assert len(workload.spot) > 100
        assert min(spot.start_us for spot in workload.spot) >= DAY_US


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_a_shape_is_a_function_of_its_seed(shape: str) -> None:
    first, other = shapes.on_demand(shape, 1), shapes.on_demand(shape, 2)
    assert first == shapes.on_demand(shape, 1) != other
    assert all(0 <= one.start_us < shapes.DAYS * DAY_US for one in first)
    assert first == sorted(first, key=lambda one: one.start_us)


def test_the_load_of_the_other_kind_drifts() -> None:
    """Half of its instances live for more than 8 h, and a spot start of every stratum comes."""
    (platform,) = [one for one in PARTS["drifting"] if one.on_demand == "drifting_stationary.3"]
    workload = platform.workload()
    longer = sum(one.lifetime_us > 8 * HOUR_US for one in workload.on_demand)
    assert longer == pytest.approx(len(workload.on_demand) / 2, rel=0.1)
    found = Counter(stratum_of(spot.lifetime_us) for spot in workload.spot)
    assert all(found[stratum] >= 80 for stratum in STRATA)
    assert not set(PARTS["drifting"]) & set(ALL)
    assert named("drifting_stationary.3-drifting_mixed.3:8x16") == platform._replace(part="named")


def test_the_shapes_are_as_they_are_called() -> None:
    def starts(shape: str, from_day: float, until_day: float) -> int:
        found = shapes.on_demand(shape, 1)
        return sum(from_day * DAY_US <= one.start_us < until_day * DAY_US for one in found)

    assert starts("silence", 21, 28) == 0
    assert starts("doubling", 20, 40) > 1.7 * starts("doubling", 0, 20)
    assert starts("growth", 35, 42) > 1.1 * starts("growth", 0, 7)
    assert starts("daily", 0.3, 0.9) > 1.3 * starts("daily", 0.9, 1.3)
    assert starts("crowds", 7, 10) > starts("stationary", 7, 10)


@pytest.mark.parametrize("one", synthetic(range(1, 6))[:5])
def test_every_stratum_of_a_synthetic_platform_has_spot_starts(one: Platform) -> None:
    found = Counter(stratum_of(spot.lifetime_us) for spot in one.workload().spot)
    assert all(found[stratum] >= 20 for stratum in STRATA)
