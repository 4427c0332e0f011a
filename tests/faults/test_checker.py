"""The checker finds each kind of violation, and nothing in a history without one."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.hand_made import BIG, CLOUD, POLICY, HandMade, answer_to, at, shown, small_cloud
from faults.record import Follow

CHECKER = ("checker", "claims", "fold", "order", "pauses", "placing", "plan", "record", "timeline", "violations")
COUNTS = {"on_demand_requested": 1, "on_demand_admitted": 1, "spot_requested": 1, "spot_admitted": 1}
COUNTS |= {"spot_evicted": 0, "spot_drilled": 0, "running": 2}


def cloud_at(made: HandMade, seq: int, **changed: object) -> dict[str, object]:
    return {"seq": seq, "at": at(seq), "created_at": at(1), "policy": POLICY, "counts": COUNTS} | changed


def test_a_history_that_keeps_every_rule_has_no_violation() -> None:
    made = small_cloud()
    first, spot = made.log[4], made.log[5]
    made.ask("show_cloud", 5, 200, cloud_at(made, 6))
    made.ask("list_running", 5, 200, {"instances": [{"id": "od-1"}, {"id": "spot-1"}]})
    made.evict("spot-1", 8)
    made.start("od-2", "on_demand", "small", 6, victims=["spot-1"])
    made.ask("show_instance", 7, 200, shown(spot, "evicted", made.log[6]), id="spot-1")
    made.stop("od-1", 8)
    made.ask("stop", 9, 204, id="od-1")
    made.ask("stop", 9, 204, id="spot-1")
    made.ask("start", 10, 201, answer_to(first), id="od-1", market="on_demand", flavor="small")
    made.refuse("start", 10, 409, "instance.conflict", id="od-1", market="spot", flavor="small")
    made.refuse("stop", 10, 404, "instance.not_found", id="nobody")
    made.refuse("drill", 10, 409, "drill.impossible")
    made.ask("list_events", 11, 200, {"events": made.log[7:]}, after_seq=7, limit=100)
    made.ask("list_nodes", 11, 200, nodes_with_free(1))
    made.follows = [followed(made)]
    assert [violation.told() for violation in made.violations()] == []


def nodes_with_free(cores: int) -> dict[str, object]:
    free = {"cores": cores, "memory_mib": 0, "disk_gib": 0}
    return {"nodes": [{"name": "node-1", "status": "open", "free": free}]}


def followed(made: HandMade) -> Follow:
    return Follow(CLOUD, [(event["seq"], json.dumps(event, sort_keys=True)) for event in made.log])


def lost_stop(made: HandMade) -> None:
    made.ask("stop", 5, 204, id="od-1")


def lost_start(made: HandMade) -> None:
    event = made.log[4] | {"id": "od-9", "seq": 7}
    made.ask("start", 5, 201, answer_to(event), id="od-9", market="on_demand", flavor="small")


def start_told_otherwise(made: HandMade) -> None:
    made.attempts[-1].answer["node"] = "node-2"


def false_not_found(made: HandMade) -> None:
    made.refuse("stop", 5, 404, "instance.not_found", id="od-1")


def false_conflict(made: HandMade) -> None:
    made.refuse("start", 5, 409, "instance.conflict", id="od-1", market="on_demand", flavor="small")


def lost_confirmation(made: HandMade) -> None:
    made.ask("confirm", 5, 204, id="spot-1")


def lost_drain(made: HandMade) -> None:
    made.ask("drain_node", 5, 200, {}, name="node-1")


def lost_policy(made: HandMade) -> None:
    made.ask("change_policy", 5, 200, cloud_at(made, 6), policy={"seed": 5})


def lost_flavor(made: HandMade) -> None:
    made.ask("add_flavor", 5, 201, {}, name="huge", **BIG)


def lost_removal(made: HandMade) -> None:
    made.ask("remove_node", 5, 200, {"victims": []}, name="node-1")


def false_drill_refusal(made: HandMade) -> None:
    made.refuse("drill", 5, 409, "drill.impossible", instance="spot-1")


def false_no_flavor(made: HandMade) -> None:
    made.refuse("start", 5, 404, "flavor.not_found", id="od-9", market="on_demand", flavor="big")


def stale_instance(made: HandMade) -> None:
    made.stop("od-1", 5)
    made.ask("show_instance", 6, 200, shown(made.log[4], "running"), id="od-1")


def stale_cloud(made: HandMade) -> None:
    made.ask("show_cloud", 5, 200, cloud_at(made, 5))


def cloud_from_the_future(made: HandMade) -> None:
    made.ask("show_cloud", 3.9, 200, cloud_at(made, 6))
    made.attempts[-1].answered = 3.95


def wrong_counts(made: HandMade) -> None:
    made.ask("show_cloud", 5, 200, cloud_at(made, 6, counts=COUNTS | {"running": 1}))


def stale_running(made: HandMade) -> None:
    made.ask("list_running", 5, 200, {"instances": [{"id": "od-1"}]})


def stale_nodes(made: HandMade) -> None:
    made.ask("list_nodes", 5, 200, nodes_with_free(1))


def stale_events(made: HandMade) -> None:
    made.ask("list_events", 5, 200, {"events": made.log[:4]}, after_seq=0, limit=100)


def another_event_in_the_page(made: HandMade) -> None:
    made.ask("list_events", 5, 200, {"events": [*made.log[:5], made.log[5] | {"id": "x"}]}, after_seq=0, limit=100)


@pytest.mark.parametrize(
    "break_it",
    [
        lost_stop,
        lost_start,
        start_told_otherwise,
        false_not_found,
        false_conflict,
        lost_confirmation,
        lost_drain,
        lost_policy,
        lost_flavor,
        lost_removal,
        false_drill_refusal,
        false_no_flavor,
        stale_instance,
        stale_cloud,
        cloud_from_the_future,
        wrong_counts,
        stale_running,
        stale_nodes,
        stale_events,
        another_event_in_the_page,
    ],
)
def test_an_answer_that_was_never_true_is_found(break_it: Callable[[HandMade], None]) -> None:
    made = small_cloud()
    break_it(made)
    assert made.rules() == {"answer"}


def test_an_event_before_what_was_acknowledged_before_it_was_asked_for_is_found() -> None:
    made = small_cloud()
    made.event("instance_stopped", id="spot-1")
    made.event("instance_stopped", id="od-1")
    made.ask("stop", 5, 204, id="od-1")
    made.ask("stop", 6, 204, id="spot-1")
    assert made.rules() == {"order", "answer"}


def test_an_event_that_nobody_asked_for_is_found() -> None:
    made = small_cloud()
    made.event("instance_stopped", id="spot-1")
    assert made.rules() == {"unasked"}


def test_what_was_refused_and_yet_done_is_found() -> None:
    made = small_cloud()
    made.event("instance_stopped", id="spot-1")
    made.refuse("stop", 5, 503, "log.contended", id="spot-1")
    assert made.rules() == {"unasked"}


@pytest.mark.parametrize("done", [True, False])
def test_what_nobody_knows_may_be_either(done: bool) -> None:
    made = small_cloud()
    if done:
        made.event("instance_stopped", id="spot-1")
    made.refuse("stop", 5, 503, "log.unavailable", id="spot-1")
    made.ask("stop", 6, None, id="spot-1")
    assert made.rules() == set()


def test_an_answer_that_there_is_not_is_found() -> None:
    made = small_cloud()
    made.refuse("stop", 5, 500, "service.fault", id="spot-1")
    assert made.rules() == {"status"}


def test_two_answers_to_the_same_start_are_found() -> None:
    made = small_cloud()
    answer = made.attempts[-1].answer | {"acceptable": {"lifetime_s": 1}}
    made.ask("start", 5, 201, answer, id="spot-1", market="spot", flavor="small")
    assert made.rules() == {"same answer"}


def batch_of_two(made: HandMade, status: int | None) -> None:
    steps = [{"start": {"id": f"b-{number}", "market": "on_demand", "flavor": "big"}} for number in (1, 2)]
    made.attempts.pop()
    made.ask("batch", 6, status, operations=steps)


def test_half_a_batch_is_found() -> None:
    made = small_cloud()
    made.stop("od-1", 5)
    made.start("b-1", "on_demand", "big", 6, node=None)
    made.log[-1] |= {"kind": "instance_rejected", "reason": "no_capacity"}
    batch_of_two(made, None)
    assert "wholly" in made.rules()


def test_a_read_between_evictions_and_their_cause_is_found() -> None:
    made = small_cloud()
    made.evict("spot-1", 8)
    made.start("od-2", "on_demand", "small", 5, victims=["spot-1"])
    made.ask("show_cloud", 5, 200, cloud_at(made, 7, counts=COUNTS | {"spot_evicted": 1, "running": 1}))
    assert made.rules() == {"wholly"}


def test_followers_that_missed_repeated_or_mixed_up_events_are_found() -> None:
    for spoil in (
        lambda frames: frames.pop(3),
        lambda frames: frames.insert(3, frames[2]),
        lambda frames: frames.reverse(),
        lambda frames: frames.pop(),
        lambda frames: frames.__setitem__(2, (3, "{}")),
    ):
        made = small_cloud()
        made.follows = [followed(made)]
        spoil(made.follows[0].frames)
        assert made.rules() == {"stream"}


def test_the_checker_knows_nothing_of_the_service() -> None:
    for name in CHECKER:
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        own = {f"faults.{other}" for other in CHECKER}
        assert {module for module in imported if module.split(".")[0] in ("app", "tenure_client")} == set()
        assert {module for module in imported if module.startswith("faults.")} <= own
