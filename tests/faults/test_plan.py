"""The plan, and what is made of the pauses."""

from __future__ import annotations

from itertools import pairwise

from faults.pauses import longest_pauses, too_long
from faults.plan import KINDS, Fault, Inflicted, draw
from faults.record import Attempt


def test_the_same_seed_draws_the_same_plan_and_another_seed_another() -> None:
    assert draw(1, 600) == draw(1, 600)
    assert draw(1, 600) != draw(2, 600)


def test_ten_minutes_have_each_kind_of_fault_several_times_one_after_the_other() -> None:
    plan = draw(7, 600)
    for kind in KINDS:
        assert sum(fault.kind == kind.name for fault in plan) >= 3
    assert all(one.at_s + one.lasts_s < next_one.at_s for one, next_one in pairwise(plan))
    assert plan[-1].at_s + plan[-1].lasts_s <= 600


def write(cloud: str, answered: float, what: str = "start", status: int = 201) -> Attempt:
    return Attempt(1, what, cloud, "serve-1", {}, answered - 0.1, answered, status, {})


def inflicted(kind: str, begun: float, ended: float) -> Inflicted:
    return Inflicted(Fault(begun, kind, "serve-1", ended - begun, 0.5), begun, ended)


def test_the_longest_pause_is_that_of_the_cloud_that_paused_longest() -> None:
    busy = [write("plain", second / 2) for second in range(60)]
    slow = [write("graceful", second) for second in (1, 9, 11, 18, 29)]
    reads = [write("graceful", second, "show_cloud", 200) for second in range(30)]
    refused = [write("graceful", second, "start", 503) for second in range(30)]
    (pause,) = longest_pauses([inflicted("stop", 10, 16)], [*busy, *slow, *reads, *refused], 30)
    assert (pause.cloud, pause.seconds) == ("graceful", 7)
    assert [violation.rule for violation in too_long([pause], 5)] == ["pause"]
    assert too_long([pause], 8) == []


def test_a_pause_counts_for_the_fault_in_which_it_lies() -> None:
    writes = [write("plain", second) for second in (0, 1, 2, 9, 10, 11, 12, 13, 20)]
    pauses = longest_pauses([inflicted("cut", 1, 1.5), inflicted("stop", 10, 12)], writes, 20)
    assert [pause.seconds for pause in pauses] == [2.5, 2.0]
    assert too_long(pauses, 1.9) != []
    assert too_long(pauses[:1], 1.9) == []
