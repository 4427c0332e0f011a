"""The telling of managers: its fold, the manager's own comparisons of two looks, and costs in whole numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clusters.rules.costs import OTHER_POOL, PoolPrice, cost_of, price_micro
from app.clusters.rules.deciding import NodeState
from app.clusters.rules.steps import node_steps
from app.clusters.rules.told import (
    MOST_GONE,
    MOST_JOBS,
    MOST_NODES_THERE,
    ClusterPast,
    JobStage,
    NodeStage,
    ToldEvent,
)
from app.clusters.rules.wanted import cluster_of_toml
from app.domain.inputs import InputError
from app.domain.times import HOUR_US
from app.managing import joining
from app.managing.events import Events
from app.managing.reporting import _next_lines
from app.managing.slurm import QueuedJob
from app.managing.telling import Telling


def past_of(*events: tuple[float, str, dict[str, Any]]) -> ClusterPast:
    past = ClusterPast()
    past.add(ToldEvent(seq, int(at * 1e6), kind, facts) for seq, (at, kind, facts) in enumerate(events, 1))
    return past


def test_a_job_that_loses_its_node_twice_loses_the_work_since_its_checkpoints() -> None:
    past = past_of(
        (0, "node_bought", {"node": "lab-spot-a"}),
        (1, "job_started", {"job": "1", "node": "lab-spot-a"}),
        (11, "job_requeued", {"job": "1"}),
        (20, "job_started", {"job": "1", "node": "lab-spot-b"}),
        (50, "job_asked_to_save", {"job": "1", "why": "hazard"}),
        (57, "job_started", {"job": "1", "node": "lab-spot-c"}),
        (60, "job_ended", {"job": "1", "state": "completed"}),
    )
    job = past.jobs["1"]
    assert (job.stage, job.requeues, job.lost_s, past.lost_s) == (JobStage.ENDED, 2, 17.0, 17.0)
    assert past.nodes["lab-spot-a"].stage is NodeStage.BOOTING, "it never joined Slurm"


def test_however_much_is_told_so_much_is_remembered() -> None:
    jobs = range(2 * MOST_JOBS)
    ends = [(1.0, "job_ended", {"job": f"e{number}"}) for number in range(2 * MOST_GONE)]
    past = past_of(
        (0, "job_started", {"job": "first", "node": "lab-spot-0"}),
        *ends,
        *((2.0, "job_seen", {"job": str(number)}) for number in jobs),
        *((3.0, "node_bought", {"node": f"lab-spot-{number}", "instance": f"i{number}"}) for number in jobs),
    )
    assert MOST_JOBS < len(past.jobs) <= MOST_JOBS + MOST_GONE
    assert MOST_NODES_THERE < len(past.nodes) <= MOST_NODES_THERE + MOST_GONE
    assert "first" not in past.jobs, "the oldest"
    assert {str(number) for number in jobs[-MOST_JOBS // 2 :]} <= past.jobs.keys()
    assert [job.stage for job in past.in_order()[-MOST_GONE:]] == [JobStage.ENDED] * MOST_GONE
    assert past.in_order() is past.in_order()


def test_what_was_over_and_is_forgotten_otherwise_breaks_nothing() -> None:
    facts = {"node": "lab-spot-a"}
    over = [(9.0, "node_lost", {"node": f"lab-spot-{number}"}) for number in range(MOST_GONE + 1)]
    bought = [(8.0, "node_bought", {"node": f"lab-spot-{number}"}) for number in range(MOST_GONE + 1)]
    back = ("node_bought", "node_lost", "node_made", "node_refused")
    past = past_of(*((float(at), kind, facts) for at, kind in enumerate(back)), *bought, *over)
    assert "lab-spot-a" not in past.nodes
    assert len(past.nodes) == MOST_GONE


def test_unknown_kinds_and_odd_facts_change_nothing() -> None:
    past = past_of(
        (0, "cluster_sang", {"node": 7}), (1, "node_ready", {}), (2, "job_checkpointed", {"pause_s": "long"})
    )
    assert (past.seq, past.nodes, past.checkpoint_s.total_s) == (3, {}, 0.0)


def test_a_node_that_is_made_again_is_there_again() -> None:
    facts = {"node": "lab-spot-a", "why": "its machine is gone"}
    past = past_of(
        (0, "node_bought", facts), (1, "node_ready", facts), (2, "node_lost", facts), (3, "node_made", facts)
    )
    assert [node.stage for node in past.there()] == [NodeStage.BOOTING]


def test_what_is_over_is_forgotten_at_last() -> None:
    events = [
        (number, kind, {"node": f"lab-spot-{number}"})
        for number in range(MOST_GONE + 50)
        for kind in ("node_bought", "node_released")
    ]
    assert len(past_of(*events).nodes) == MOST_GONE


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900) | st.none()), max_size=20),
    st.integers(0, 400),
    st.integers(1, 500),
    st.integers(1, 60),
)
def test_the_picture_counts_the_nodes_of_each_moment(
    lives: list[tuple[int, int | None]], begin: int, length: int, points: int
) -> None:
    past = ClusterPast()
    for number, (bought, lived) in enumerate(lives):
        node = {"node": f"lab-spot-{number}"}
        past.add([ToldEvent(1, bought, "node_bought", node)])
        if lived is not None:
            past.add([ToldEvent(2, bought + lived, "node_released", node)])
    moments, counts = node_steps(past.nodes.values(), ["spot"], begin, begin + length, points)
    expected = [
        sum(bought <= at and (lived is None or at <= bought + lived) for bought, lived in lives) for at in moments
    ]
    assert counts == {"spot": expected}
    assert moments[-1] == begin + length


@given(
    st.lists(st.tuples(st.integers(0, 10**13), st.integers(0, 10**8), st.integers(0, 10**8) | st.none()), max_size=5)
)
def test_costs_are_rounded_once_and_add_up(pools: list[tuple[int, int, int | None]]) -> None:
    prices = [PoolPrice(f"p{number}", micro, other) for number, (_, micro, other) in enumerate(pools)]
    cost = cost_of(prices, {f"p{number}": (1, used) for number, (used, _, _) in enumerate(pools)})
    for row, (used, micro, _) in zip(cost.pools, pools, strict=True):
        assert abs(Fraction(used * micro, HOUR_US) - row.cost_micro) <= Fraction(1, 2)
    assert cost.cost_micro == sum(row.cost_micro for row in cost.pools)
    is_known = all(other is not None for used, _, other in pools if used)
    assert (cost.on_demand_micro is not None) == is_known


def test_pools_that_are_gone_stand_together_and_have_no_price() -> None:
    cost = cost_of([PoolPrice("a", price_micro(0.0081), None)], {"x": (2, HOUR_US), "y": (1, HOUR_US)})
    assert [(row.pool, row.instance_count, row.used_us) for row in cost.pools] == [
        ("a", 0, 0),
        (OTHER_POOL, 3, 2 * HOUR_US),
    ]


FILE = 'name="lab"\nshared="/tmp/x"\n[[pools]]\nname="spot"\ncloud="north"\nflavor="c1"\n'


def test_prices_of_pools_are_bounded() -> None:
    assert cluster_of_toml(FILE + "price_per_hour = 1").pools[0].price_per_hour == 1
    for line in (
        "price_per_hour = -1",
        "on_demand_price_per_hour = 1e7",
        'price_per_hour = "1"',
        "price_per_hour = nan",
    ):
        with pytest.raises(InputError):
            cluster_of_toml(FILE + line)


def ends(jobs: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {name: f"completed {name}" for name in jobs}


def job(name: str, state: str, nodes: str = "") -> QueuedJob:
    return QueuedJob(name, state, ("own", "spot"), 1, "None", nodes, 0.0, None, "checkpoint=USR1,30", "train")


def kinds(events: Events) -> list[str]:
    return [json.loads(line)["kind"] for line in events.path.read_text().splitlines()]


def test_looks_are_compared_and_a_new_manager_tells_nothing_twice(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    idle, bad = (NodeState.IDLE, False), (NodeState.BAD, False)
    Telling(ends, events).look({"a": bad}, [job("1", "PENDING")])
    for _ in range(2):
        Telling(ends, events).look({"a": idle}, [job("1", "RUNNING", "a")])
    telling = Telling(ends, events)
    telling.look({"a": idle}, [job("1", "COMPLETING", "a")])
    telling.look({}, [job("1", "PENDING")])
    telling.look({}, [job("1", "RUNNING", "b")])
    Telling(ends, events).look({}, [])
    telling = Telling(ends, events)
    telling.look({}, [job("2", "RUNNING", "b")])
    now = [job("2", "PENDING"), job("2", "COMPLETING"), job("3", "PENDING")]
    assert [telling.has_lost_its_node(one) for one in now] == [True, False, False]
    telling.ended("2", "failed")
    telling.look({}, [job("2", "COMPLETING", "b")])
    telling.look({}, [])
    Telling(ends, events).look({}, [])
    assert kinds(events) == [
        "job_seen", "node_ready", "job_started", "job_requeued", "job_started", "job_ended",
        "job_seen", "job_started", "job_ended",
    ]  # fmt: skip
    assert next(iter(events.newest()))["pause_s"] == 30
    assert [one["state"] for one in events.newest() if one["kind"] == "job_ended"] == ["completed 1", "failed"]


def test_what_no_pool_can_hold_is_told_once(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    why = "it wants 9 nodes, and no pool holds that: spot has up to 4 nodes"
    for _ in range(2):
        telling = Telling(ends, events)
        telling.look({}, [job("1", "PENDING"), job("2", "PENDING")])
        for _ in range(2):
            telling.look_at_misfits({"1": why})
    telling.look_at_misfits({})
    assert kinds(events) == ["job_seen", "job_seen", "job_impossible", "job_possible"]
    told = [(0.0, str(one.pop("kind")), one) for one in events.newest()]
    assert [past_of(*told[:at]).jobs["1"].misfit for at in (2, 3, 4)] == [None, why, None]


def test_a_deleted_cluster_has_no_nodes_and_no_jobs_until_it_is_made_again() -> None:
    life = (
        (0, "node_bought", {"node": "lab-spot-a"}),
        (1, "node_ready", {"node": "lab-spot-a"}),
        (2, "job_started", {"job": "1", "node": "lab-spot-a"}),
        (3, "job_seen", {"job": "2"}),
        (9, "cluster_deleted", {}),
    )
    past = past_of(*life)
    assert [*past.there()] == []
    assert [(job.stage, job.end, job.nodes) for job in past.jobs.values()] == [(JobStage.ENDED, "cancelled", ())] * 2
    assert past.deleted_us == 9_000_000
    assert past_of(*life, (10, "manager_started", {})).deleted_us is None


def test_only_whole_lines_are_reported_and_each_with_its_key(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    events.write("node_bought", node="lab-spot-a", why="job\udcff1\nwaits", deep={"a": [1]}, long="x" * 900)
    whole = events.path.stat().st_size
    with events.path.open("a") as file:
        file.write('{"at": "2026-01-01T00:00:00Z", "kind": "half')
    found, end = _next_lines(events.path, 0)
    assert end == whole
    assert _next_lines(events.path, 0)[0] == found, "told again it has the same key"
    (one,) = found
    assert one["facts"]["why"] == "job 1 waits"
    assert (one["facts"]["deep"], len(one["facts"]["long"])) == ('{"a": [1]}', 500)
    with events.path.open("a") as file:
        file.write("\nno json\n")
    assert _next_lines(events.path, end) == ([], events.path.stat().st_size)


def test_machines_that_slurm_forgot_are_known_from_those_that_still_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.0, 100.0, 111.0, 112.0])
    monkeypatch.setattr(joining.time, "monotonic", lambda: next(clock))
    seen, none = frozenset("ab"), frozenset[str]()
    known = joining.Joining()
    known.controller_began(none)
    assert known.forgotten(seen, frozenset("a")) == none, "b boots"
    assert known.forgotten(seen, none) == frozenset("a"), "it was a node"
    known.controller_began(frozenset("bc"))
    assert known.forgotten(frozenset("bcd"), frozenset("c")) == frozenset("b"), "b was there before the controller"
    assert known.forgotten(frozenset("d"), none) == none, "d was not"
