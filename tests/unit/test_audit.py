"""The audit: it passes whatever the engine decides, and finds every rule that a log was made to break."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from oracles.histories import random_log
from repeats import seeds

from app.domain.budgets import AdmittedBy, Budget
from app.domain.events import (
    CloudCreated,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
)
from app.domain.names import node_name
from app.domain.times import HOUR_US
from app.domain.values import (
    Basis,
    Clock,
    EvictionPolicy,
    EvictionReason,
    Forecast,
    Guarantee,
    Market,
    Placement,
    Policy,
    Resources,
)
from app.engine.cloud import Cloud
from app.utilisation.usage import usage_of
from app.workbench.audit import Finding, Rule, Totals, audit
from app.workbench.evaluate import evaluate
from app.workbench.logcsv import LogRow, LogWriter, read_log
from app.workbench.synthesis import synthesize
from app.workbench.tally import Scenario
from app.workbench.workload import combine

Rows = list[LogRow]
NODES = [(node_name(index), Resources(4)) for index in range(8)]


def read_text(text: str) -> Rows:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "log.csv"
        path.write_text(text, encoding="utf-8")
        return list(read_log(path))


@cache
def evaluated(
    guarantee: Guarantee, eviction: EvictionPolicy, placement: Placement = Placement.FIRST_FIT
) -> tuple[LogRow, ...]:
    """A log of a crowded platform with instances of 1 to 3 cores, in which every decision occurs."""
    on_demand, spot = (
        [
            instance._replace(cores=1 + number % 3)
            for number, instance in enumerate(synthesize(days=3, mean_utilisation=14, cores=1, seed=seed))
        ]
        for seed in (1, 2)
    )
    policy = Policy(
        guarantee=guarantee,
        eviction_probability=0.2,
        eviction_policy=eviction,
        placement=placement,
        clock=Clock.EXTERNAL,
        sample_count=300,
        forecast=Forecast.CALIBRATED if guarantee is Guarantee.STRATIFIED else Forecast.REPLAY,
    )
    file = io.StringIO()
    with ThreadPoolExecutor(2) as threads:
        scenario = Scenario(tuple(capacity for _, capacity in NODES), combine(on_demand, spot, HOUR_US), policy)
        evaluate(scenario, threads, logs=[LogWriter(file, instances_only=True)])
    return tuple(read_text(file.getvalue()))


def base() -> Rows:
    return list(evaluated(Guarantee.PER_INSTANCE, EvictionPolicy.YJF))


def renumbered(rows: Rows) -> Rows:
    """The rows with seq 1, 2, 3, ... and their causes pointing where they pointed."""
    moved = {row.seq: seq for seq, row in enumerate(rows, start=1)}
    return [
        row._replace(seq=seq, cause_seq=moved.get(row.cause_seq, row.cause_seq))
        for seq, row in enumerate(rows, start=1)
    ]


def first(rows: Rows, holds: Callable[[LogRow], bool]) -> int:
    return next(at for at, row in enumerate(rows) if holds(row))


def finding(rows: Rows) -> Finding:
    found = audit(rows, NODES).finding
    assert found is not None
    return found


# --- logs in good order ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("eviction", list(EvictionPolicy))
def test_evaluations_pass(guarantee: Guarantee, eviction: EvictionPolicy) -> None:
    rows = evaluated(guarantee, eviction)
    found = audit(rows, NODES)
    assert found.finding is None
    assert found.event_count == len(rows)
    kinds = {(row.kind, row.market, row.reason) for row in rows}
    assert ("instance_rejected", "on_demand", "no_capacity") in kinds
    assert ("instance_evicted", "spot", "on_demand_start") in kinds
    assert audit(rows, NODES, EvictionPolicy(eviction)).finding is None


def test_every_start_is_checked_by_the_placement_that_the_log_says() -> None:
    """A log of one placement breaks the other's rule, at a start with room on several nodes."""
    for placement, other in permutations(Placement):
        rows = evaluated(Guarantee.PER_INSTANCE, EvictionPolicy.YJF, placement)
        assert {row.placement for row in rows if row.kind == "instance_started"} == {placement}
        assert audit(rows, NODES).finding is None
        changed = [row._replace(placement=other) if row.placement else row for row in rows]
        finding = audit(changed, NODES).finding
        assert finding is not None
        assert finding.rule is Rule.FOLD
        assert f"by {other}" in finding.why


def test_a_log_without_placements_is_one_of_the_first_fit() -> None:
    for placement in Placement:
        rows = evaluated(Guarantee.PER_INSTANCE, EvictionPolicy.YJF, placement)
        finding = audit([row._replace(placement=None) for row in rows], NODES).finding
        assert (finding is None) == (placement is Placement.FIRST_FIT)


@pytest.mark.parametrize("placement", list(Placement))
@pytest.mark.parametrize("eviction", list(EvictionPolicy))
@pytest.mark.parametrize("seed", seeds(30))
def test_logs_of_live_clouds_pass(seed: int, eviction: EvictionPolicy, placement: Placement) -> None:
    """With nodes that come, drain and go, memory, equal times, overrunning instances and held room."""
    file = io.StringIO()
    writer = LogWriter(file)
    cloud = Cloud()
    for recorded in random_log(seed, 400, eviction, placement=placement, holds=seed % 2 == 1):
        writer.write(recorded)
        cloud.apply(recorded.event)
    found = audit(read_text(file.getvalue()), [])
    assert found.finding is None
    check_totals(found.totals, cloud)


def test_a_drill_is_no_eviction_of_its_class() -> None:
    """Under the pooled guarantee the next decision's budget would not be what the log comes to."""
    policy = Policy(guarantee=Guarantee.POOLED)
    basis = Basis(4, 1, 0.5, 3 * HOUR_US, 0.0, Budget(0.5, 0, 0.0, 0.0, 0.0))
    start = InstanceStarted(
        at_us=1,
        instance_id="i-1",
        market=Market.SPOT,
        flavor="small",
        node="n",
        lifetime_us=HOUR_US,
        probability=0.5,
        basis=basis,
    )
    events = [
        CloudCreated(at_us=0, policy=policy),
        NodeAdded(at_us=0, node="n", capacity=Resources(4)),
        FlavorAdded(at_us=0, flavor="small", demand=Resources(1)),
        start,
        InstanceEvicted(at_us=2, instance_id="i-1", reason=EvictionReason.DRILL, cause_seq=5),
    ]
    file, cloud = io.StringIO(), Cloud()
    writer = LogWriter(file)
    for event in events:
        writer.write(cloud.apply(event))
    found = audit(read_text(file.getvalue()), [])
    assert found.finding is None
    check_totals(found.totals, cloud)
    assert found.totals.classes == {0.5: (1, 0)}


def check_totals(totals: Totals | None, cloud: Cloud) -> None:
    """They are what the engine's fold of the same log counts."""
    assert totals is not None
    counts = cloud.counts
    assert totals.requested == {"on_demand": counts.on_demand_requested, "spot": counts.spot_requested}
    assert totals.admitted == {"on_demand": counts.on_demand_admitted, "spot": counts.spot_admitted}
    assert (totals.evicted, totals.drilled) == (counts.spot_evicted, counts.spot_drilled)
    usage = usage_of(cloud)
    assert totals.used_cores == {"on_demand": usage.on_demand, "spot": usage.spot}
    assert totals.running == {"on_demand": usage.on_demand_count, "spot": usage.spot_count}
    assert totals.capacity_cores == usage.total
    assert totals.classes == {promised: tuple(some) for promised, some in cloud.classes.items()}


def test_the_two_policies_are_told_apart() -> None:
    for eviction, other in (
        (EvictionPolicy.YJF, EvictionPolicy.YJF_GLOBAL),
        (EvictionPolicy.YJF_GLOBAL, EvictionPolicy.YJF),
    ):
        found = audit(evaluated(Guarantee.NONE, eviction), NODES, other).finding
        assert found is not None
        assert found.rule is Rule.EVICTION


def test_without_the_column_victims_are_chosen_by_yjf() -> None:
    for eviction, rule in ((EvictionPolicy.YJF, None), (EvictionPolicy.YJF_GLOBAL, Rule.EVICTION)):
        rows = [row._replace(eviction_policy=None) for row in evaluated(Guarantee.NONE, eviction)]
        found = audit(rows, NODES).finding
        assert (found and found.rule) is rule


def test_an_empty_log_passes() -> None:
    assert audit([], NODES).finding is None


# --- cells changed by hand -------------------------------------------------------------------------------------------


def is_start(row: LogRow) -> bool:
    return row.kind == "instance_started"


def is_spot_start(row: LogRow) -> bool:
    return is_start(row) and row.market == "spot"


def is_on_demand_start(row: LogRow) -> bool:
    return is_start(row) and row.market == "on_demand"


def is_eviction(row: LogRow) -> bool:
    return row.kind == "instance_evicted"


def is_stop(row: LogRow) -> bool:
    return row.kind == "instance_stopped"


def rejected(reason: str, market: str = "spot") -> Callable[[LogRow], bool]:
    return lambda row: row.kind == "instance_rejected" and (row.market, row.reason) == (market, reason)


CHANGED_CELLS: dict[str, tuple[Callable[[LogRow], bool], dict[str, object], Rule]] = {
    "a start larger than its node": (is_on_demand_start, {"demand": Resources(5)}, Rule.CAPACITY),
    "a rejected spot start placed": (
        rejected("no_capacity"),
        {"kind": "instance_started", "node": "node-0", "reason": None},
        Rule.CAPACITY,
    ),
    "a rejected on-demand start placed": (
        rejected("no_capacity", "on_demand"),
        {"kind": "instance_started", "node": "node-0", "reason": None},
        Rule.CAPACITY,
    ),
    "an on-demand start rejected though it fits": (
        is_on_demand_start,
        {"kind": "instance_rejected", "node": None, "reason": "no_capacity"},
        Rule.ON_DEMAND_FIRST,
    ),
    "an on-demand start rejected by an SLA": (
        rejected("no_capacity", "on_demand"),
        {"reason": "sla_unattainable"},
        Rule.ON_DEMAND_FIRST,
    ),
    "an eviction for another reason": (is_eviction, {"reason": "node_removed"}, Rule.EVICTION),
    "an eviction without a cause": (is_eviction, {"cause_seq": None}, Rule.EVICTION),
    "an eviction with a cause far away": (is_eviction, {"cause_seq": 1}, Rule.EVICTION),
    "an admission above its quote": (is_spot_start, {"quoted_lifetime_us": 0}, Rule.SLA),
    "an admission without an epoch": (is_spot_start, {"epoch": None}, Rule.SLA),
    "an admission without slots": (is_spot_start, {"slots": None}, Rule.SLA),
    "an admission with other slots": (is_spot_start, {"slots": 1}, Rule.SLA),
    "an admission without its probability": (is_spot_start, {"probability": None}, Rule.SLA),
    "an admission without any promise": (
        is_spot_start,
        {"probability": None, "epoch": None, "quoted_lifetime_us": None},
        Rule.SLA,
    ),
    "an admission at an absurd probability": (is_spot_start, {"probability": 1.5}, Rule.SLA),
    "an admission without a quote": (is_spot_start, {"quoted_lifetime_us": None}, Rule.SLA),
    "an admission without a lifetime": (is_spot_start, {"lifetime_us": None}, Rule.SLA),
    "a rejection below its quote": (rejected("sla_unattainable"), {"quoted_lifetime_us": 1 << 50}, Rule.SLA),
    "a rejection by a quote that is not there": (rejected("sla_unattainable"), {"quoted_lifetime_us": None}, Rule.SLA),
    "a rejection for capacity where there is some": (rejected("sla_unattainable"), {"reason": "no_capacity"}, Rule.SLA),
    "a rejection for history where there is some": (rejected("sla_unattainable"), {"reason": "no_history"}, Rule.SLA),
    "a rejection by a table that is not there": (
        rejected("sla_unattainable"),
        {"reason": "quotes_stale", "epoch": None, "quoted_lifetime_us": None},
        Rule.SLA,
    ),
    "a rejection for a reason unheard of": (rejected("sla_unattainable"), {"reason": "full_moon"}, Rule.SLA),
    "a rejection by its quote where nothing fits": (rejected("no_capacity"), {"reason": "sla_unattainable"}, Rule.SLA),
    "a rejection with other slots": (rejected("no_capacity"), {"slots": 3}, Rule.SLA),
    "an unknown kind": (is_stop, {"kind": "instance_paused"}, Rule.FOLD),
    "a stop of an instance that does not run": (is_stop, {"instance_id": "nobody"}, Rule.FOLD),
    "a stop that says another size": (is_stop, {"demand": Resources(9)}, Rule.FOLD),
    "an eviction of an instance that does not run": (is_eviction, {"instance_id": "nobody"}, Rule.FOLD),
    "a start on a node that is not there": (is_start, {"node": "node-99"}, Rule.FOLD),
    "a start that is not first-fit": (is_start, {"node": "node-7"}, Rule.FOLD),
    "a start of no market": (is_start, {"market": "futures"}, Rule.FOLD),
    "a start without an id": (is_start, {"instance_id": None}, Rule.FOLD),
    "a start that asks for nothing": (is_start, {"demand": Resources(0)}, Rule.FOLD),
    "a placement unheard of": (is_on_demand_start, {"placement": "random"}, Rule.FOLD),
    "an eviction policy unheard of": (is_on_demand_start, {"eviction_policy": "random"}, Rule.FOLD),
    "a gap in seq": (is_stop, {"seq": 10**6}, Rule.ORDER),
    "time that runs backwards": (is_stop, {"at_us": 0}, Rule.ORDER),
}


@pytest.mark.parametrize("name", CHANGED_CELLS)
def test_a_changed_cell_is_found(name: str) -> None:
    holds, changes, rule = CHANGED_CELLS[name]
    rows = base()
    at = first(rows, holds)
    rows[at] = rows[at]._replace(**changes)
    found = finding(rows)
    assert (found.rule, found.seq) == (rule, rows[at].seq), found.why


@pytest.mark.parametrize(
    "changes",
    [{"earned": 99.0}, {"evicted": 99}, {"committed": -1.0}, {"committed": 1e6}, {"charge": 1.5}, {"risk": 0.0}],
    ids=str,
)
def test_a_changed_budget_is_found(changes: dict[str, float]) -> None:
    rows = [*evaluated(Guarantee.POOLED, EvictionPolicy.YJF)]
    at = first(rows, rejected("budget_exhausted"))
    budget = rows[at].budget
    assert budget is not None
    rows[at] = rows[at]._replace(budget=replace(budget, **changes))
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.SLA, rows[at].seq), found.why


@pytest.mark.parametrize("reason", ["sla_unattainable", "no_history", "no_capacity"])
def test_a_rejection_by_the_budget_says_so(reason: str) -> None:
    rows = [*evaluated(Guarantee.POOLED, EvictionPolicy.YJF)]
    at = first(rows, rejected("budget_exhausted"))
    rows[at] = rows[at]._replace(reason=reason)
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.SLA, rows[at].seq), found.why


@pytest.mark.parametrize(
    "changes",
    [
        {"earned": 99.0},
        {"evicted": 99},
        {"committed": 0.0},
        {"risky": 99},
        {"admitted_by": AdmittedBy.PAID},
        {"from_us": 10**15},
        {"below_us": 1},
    ],
    ids=str,
)
def test_a_changed_book_is_found(changes: dict[str, Any]) -> None:
    rows = [*evaluated(Guarantee.STRATIFIED, EvictionPolicy.YJF)]
    at = first(rows, lambda row: rejected("budget_exhausted")(row) and row.book is not None and row.book.committed > 0)
    book = rows[at].book
    assert book is not None
    assert audit(rows[: at + 1], NODES).finding is None
    rows[at] = rows[at]._replace(book=replace(book, **changes))
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.SLA, rows[at].seq), found.why


def test_a_verdict_against_its_book_is_found() -> None:
    rows = [*evaluated(Guarantee.STRATIFIED, EvictionPolicy.YJF)]
    lines = {row.book.admitted_by for row in rows if row.book is not None}
    assert lines == {None, *AdmittedBy}, "every line admits some start, and some are refused"
    at = first(rows, lambda row: row.kind == "instance_started" and row.book is not None)
    rows[at] = rows[at]._replace(estimated_probability=0.9)
    assert finding(rows).seq == rows[at].seq


# --- events moved, taken out and put in ------------------------------------------------------------------------------


def test_an_on_demand_instance_is_never_evicted() -> None:
    rows = base()
    at = first(rows, is_eviction)
    stopped = {row.instance_id for row in rows[:at] if is_stop(row)}
    running = next(row for row in rows if is_on_demand_start(row) and row.instance_id not in stopped)
    rows[at] = rows[at]._replace(instance_id=running.instance_id, market="on_demand", demand=running.demand)
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.ON_DEMAND_STAYS, rows[at].seq)


def test_an_on_demand_start_is_not_rejected_where_spot_could_go() -> None:
    rows = base()
    at = first(rows, is_eviction)
    cause = first(rows, lambda row: row.seq == rows[at].cause_seq)
    rows[at : cause + 1] = [rows[cause]._replace(kind="instance_rejected", node=None, reason="no_capacity")]
    found = finding(renumbered(rows))
    assert (found.rule, found.seq) == (Rule.ON_DEMAND_FIRST, at + 1)


def test_an_eviction_left_out_leaves_its_node_over_capacity() -> None:
    rows = base()
    del rows[first(rows, is_eviction)]
    assert finding(renumbered(rows)).rule in (Rule.CAPACITY, Rule.EVICTION)


def groups(rows: Rows) -> list[list[int]]:
    """The positions of the evictions of each start that caused some."""
    found: dict[int | None, list[int]] = {}
    for at, row in enumerate(rows):
        if is_eviction(row):
            found.setdefault(row.cause_seq, []).append(at)
    return list(found.values())


def test_a_victim_too_few_is_found() -> None:
    rows = base()
    group = next(group for group in groups(rows) if len(group) > 1)
    del rows[group[0]]
    assert finding(renumbered(rows)).rule is Rule.EVICTION


def test_a_victim_too_many_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    extra = other_running_spot(rows, at)
    rows.insert(at, extra._replace(kind="instance_evicted", **why(rows[at])))
    found = finding(renumbered(rows))
    assert (found.rule, found.seq) == (Rule.EVICTION, at + 1)


def test_another_victim_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    rows[at] = other_running_spot(rows, at)._replace(kind="instance_evicted", seq=rows[at].seq, **why(rows[at]))
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.EVICTION, rows[at].seq)


def other_running_spot(rows: Rows, at: int) -> LogRow:
    ended = {row.instance_id for row in rows[:at] if is_stop(row) or is_eviction(row)}
    victims = {row.instance_id for row in rows if row.cause_seq == rows[at].cause_seq}
    return next(row for row in rows[:at] if is_spot_start(row) and row.instance_id not in ended | victims)


def why(row: LogRow) -> dict[str, object]:
    return {"at_us": row.at_us, "reason": row.reason, "cause_seq": row.cause_seq}


def test_an_eviction_for_a_start_that_fitted_is_found() -> None:
    rows = base()
    at = first(rows, lambda row: is_on_demand_start(row) and row.at_us > 30 * HOUR_US)
    while any(row.cause_seq == rows[at].seq for row in rows):
        at = at + 1 + first(rows[at + 1 :], is_on_demand_start)
    victim = other_running_spot([*rows[:at], rows[at]._replace(cause_seq=-1)], at)
    reason = {"reason": "on_demand_start", "cause_seq": rows[at].seq, "at_us": rows[at].at_us}
    rows.insert(at, victim._replace(kind="instance_evicted", **reason))
    found = finding(renumbered(rows))
    assert (found.rule, found.seq) == (Rule.EVICTION, at + 1)
    assert "fitted" in found.why


def test_an_eviction_for_a_spot_start_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    cause = first(rows, lambda row: row.seq == rows[at].cause_seq)
    rows[cause] = rows[cause]._replace(market="spot")
    assert finding(rows).rule is Rule.EVICTION


def test_a_cause_that_takes_another_node_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    cause = first(rows, lambda row: row.seq == rows[at].cause_seq)
    other = next(name for name, _ in NODES if name != rows[cause].node)
    rows[cause] = rows[cause]._replace(node=other)
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.EVICTION, rows[cause].seq)


def test_an_eviction_that_does_not_stand_before_its_cause_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    rows[at], rows[at - 1] = rows[at - 1]._replace(seq=rows[at].seq), rows[at]._replace(seq=rows[at - 1].seq)
    rows[at - 1] = rows[at - 1]._replace(at_us=rows[at].at_us)
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.EVICTION, rows[at - 1].seq)


def test_an_eviction_at_the_end_of_the_log_is_found() -> None:
    rows = base()
    at = first(rows, is_eviction)
    assert finding(rows[: at + 1]).rule is Rule.EVICTION


@pytest.mark.parametrize("kind", ["instance_started", "instance_rejected"])
def test_an_id_that_is_decided_twice_is_found(kind: str) -> None:
    rows = base()
    at = first(rows, lambda row: row.kind == kind)
    rows.insert(at + 1, rows[at])
    found = finding(renumbered(rows))
    assert (found.rule, found.seq) == (Rule.ONCE, at + 2)


def test_a_line_left_out_is_found() -> None:
    rows = base()
    del rows[10]
    found = finding(rows)
    assert (found.rule, found.seq) == (Rule.ORDER, 12)


def test_a_line_that_stands_twice_is_found() -> None:
    rows = base()
    rows.insert(10, rows[9])
    assert finding(rows).rule is Rule.ORDER


def test_a_log_that_begins_in_the_middle_is_found() -> None:
    assert finding(base()[5:]).rule is Rule.ORDER


def test_a_smaller_platform_is_found() -> None:
    found = audit(base(), [(name, Resources(3)) for name, _ in NODES]).finding
    assert found is not None


# --- logs of live clouds, changed ------------------------------------------------------------------------------------


def live(holds: Callable[[Rows], bool]) -> Rows:
    """A random log of a live cloud that has something in it."""
    for seed in range(200):
        file = io.StringIO()
        writer = LogWriter(file)
        for recorded in random_log(seed, 300, EvictionPolicy.YJF):
            writer.write(recorded)
        rows = read_text(file.getvalue())
        if holds(rows):
            return rows
    raise AssertionError("no such log")


def cleared(row: LogRow) -> bool:
    return is_eviction(row) and row.reason == "node_removed"


def test_spot_that_stays_on_a_removed_node_is_found() -> None:
    rows = live(lambda rows: any(map(cleared, rows)))
    at = first(rows, cleared)
    del rows[at]
    rows = renumbered(rows)
    found = audit(rows, []).finding
    assert found is not None
    assert found.rule is Rule.CAPACITY


def test_an_on_demand_instance_that_stays_on_a_removed_node_is_found() -> None:
    rows = live(lambda rows: any(row.kind == "node_removed" for row in rows))
    at = first(rows, is_on_demand_start)
    gone = rows[at]._replace(kind="node_removed", instance_id=None, market=None, lifetime_us=None, seq=0)
    rows.insert(at + 1, gone)
    found = audit(renumbered(rows), []).finding
    assert found is not None
    assert (found.rule, found.seq) == (Rule.ON_DEMAND_STAYS, at + 2)


@pytest.mark.parametrize("kind", ["node_drained", "node_opened", "node_removed"])
def test_a_node_that_is_not_there_is_found(kind: str) -> None:
    def is_alone(before: LogRow, row: LogRow) -> bool:
        return row.kind == kind and not is_eviction(before)

    rows = live(lambda rows: any(is_alone(*pair) for pair in pairwise(rows)))
    at = 1 + next(at for at, pair in enumerate(pairwise(rows)) if is_alone(*pair))
    rows[at] = rows[at]._replace(node="nowhere")
    found = audit(rows, []).finding
    assert found is not None
    assert (found.rule, found.seq) == (Rule.FOLD, rows[at].seq)


def test_a_policy_that_asks_for_an_sla_is_followed() -> None:
    rows = live(lambda rows: any(map(is_spot_start, rows)))
    rows[0] = rows[0]._replace(guarantee="per_instance")
    found = audit(rows, []).finding
    assert found is not None
    assert (found.rule, found.seq) == (Rule.SLA, rows[first(rows, lambda row: row.market == "spot")].seq)


def test_the_random_logs_have_everything_in_them() -> None:
    """So that passing them means something."""
    events = [recorded.event for seed in range(30) for recorded in random_log(seed, 400, EvictionPolicy.YJF)]
    kinds = {type(event).__name__ for event in events}
    assert kinds >= {"NodeAdded", "NodeDrained", "NodeOpened", "NodeRemoved", "FlavorAdded", "CloudCreated"}
    assert {event.reason.value for event in events if isinstance(event, InstanceEvicted)} == {
        "on_demand_start",
        "node_removed",
        "drill",
    }
    assert {event.market.value for event in events if isinstance(event, InstanceRejected)} == {"spot", "on_demand"}
    assert any(isinstance(event, InstanceStopped) for event in events)
