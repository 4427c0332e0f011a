"""The checker of federations finds each kind of wrong in hand-made logs, and nothing in a sound one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from faults.federation.checker import Submitted, check
from faults.federation.plan import Cut, Kill, draw

Logs = dict[str, list[dict[str, Any]]]


def at(second: float) -> str:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC).isoformat()


def sound() -> Logs:
    """Job j of a: declined by b, which held room too long for it, then awarded to c, where it finished."""
    attempt_b = {"peer": "a", "job": "j", "attempt": 1}
    attempt_c = {"peer": "a", "job": "j", "attempt": 2}
    room = {"kind": "room_held", "until": at(6), "ends_at": at(16)}
    return {
        "a": [
            {"kind": "job_requested", "at": at(0), "job": "j"},
            {"kind": "job_offered", "at": at(1), "job": "j", "attempt": 1, "peer": "b"},
            {"kind": "job_declined", "at": at(3), "job": "j", "attempt": 1, "reason": "timeout"},
            {"kind": "job_offered", "at": at(3), "job": "j", "attempt": 2, "peer": "c"},
            {"kind": "job_awarded", "at": at(4), "job": "j", "attempt": 2, "reclaim_at": at(20)},
            {"kind": "job_ended", "at": at(9), "job": "j", "attempt": 2, "end": "completed", "is_last": True},
        ],
        "b": [
            room | {"at": at(1), "id": "a.j.1.held"} | attempt_b,
            {"kind": "foreign_job_ended", "at": at(6.5), "word": "expired"} | attempt_b,
            {"kind": "instance_stopped", "at": at(6.5), "id": "a.j.1.held"},
        ],
        "c": [
            room | {"at": at(3.5), "id": "a.j.2.held"} | attempt_c,
            {"kind": "foreign_job_admitted", "at": at(4.5), "id": "a.j.2"} | attempt_c,
            {"kind": "instance_stopped", "at": at(4.5), "id": "a.j.2.held"},
            {"kind": "instance_stopped", "at": at(8), "id": "a.j.2"},
        ],
    }


def rules(logs: Logs, down: tuple[tuple[float, float], ...] = (), statuses: tuple[int, ...] = (201,)) -> set[str]:
    submitted = [Submitted("a", "j", statuses=[*statuses])]
    return {rule for rule, _ in check(logs, submitted, {"a": [], "b": down, "c": down}).broken}


def ran_at_both(logs: Logs) -> None:
    attempt = {"peer": "a", "job": "j", "attempt": 1}
    logs["a"][2:3] = [
        {"kind": "job_awarded", "at": at(1), "job": "j", "attempt": 1, "reclaim_at": at(3)},
        {"kind": "job_ended", "at": at(3), "job": "j", "attempt": 1, "end": "reclaimed", "is_last": False},
    ]
    logs["b"][1:] = [
        {"kind": "foreign_job_admitted", "at": at(1), "id": "a.j.1"} | attempt,
        {"kind": "instance_stopped", "at": at(1), "id": "a.j.1.held"},
        {"kind": "instance_stopped", "at": at(7), "id": "a.j.1"},
    ]


SPOILED: dict[str, tuple[Callable[[Logs], Any], str]] = {
    "an acknowledged job is not in the log": (lambda logs: logs["a"].clear(), "lost"),
    "a job never ended": (lambda logs: logs["a"].pop(), "lost"),
    "a job ended twice": (lambda logs: logs["a"].append(logs["a"][-1]), "lost"),
    "two attempts ran at once": (ran_at_both, "twice"),
    "a job ran at home, too": (lambda logs: logs["a"].insert(1, logs["a"][0] | {"kind": "job_admitted"}), "twice"),
    "a host ran what was not awarded": (lambda logs: logs["a"].pop(4), "unasked"),
    "an award was written after it was taken": (lambda logs: logs["a"][4].update(at=at(4.7)), "unasked"),
    "an attempt was left out": (lambda logs: logs["a"].__delitem__(slice(1, 3)), "order"),
    "an attempt began beside another": (lambda logs: logs["a"].pop(2), "order"),
    "it completed, and was evicted": (lambda logs: logs["c"][-1].update(kind="instance_evicted"), "ends"),
    "it was taken back early": (lambda logs: logs["a"][-1].update(end="reclaimed"), "ends"),
    "it failed, as its host never said": (lambda logs: logs["a"][-1].update(end="failed"), "ends"),
    "room is held for ever": (lambda logs: logs["b"].pop(), "for ever"),
    "a job runs for ever": (lambda logs: logs["c"].pop(), "for ever"),
    "room was held too long": (lambda logs: logs["b"][-1].update(at=at(12)), "late"),
    "a job ran beyond its lease": (lambda logs: logs["c"][-1].update(at=at(22)), "late"),
    "an award was taken too late": (lambda logs: logs["c"][1].update(at=at(6.1)), "room"),
    "a last word was said twice": (lambda logs: logs["b"].append(logs["b"][1]), "words"),
}


def test_a_sound_federation_breaks_nothing() -> None:
    assert rules(sound()) == set()


def test_two_clocks_may_differ_by_a_little() -> None:
    logs = sound()
    logs["a"][4]["at"] = at(4.55)
    assert rules(logs) == set()


@pytest.mark.parametrize("name", SPOILED)
def test_each_wrong_is_found(name: str) -> None:
    spoil, rule = SPOILED[name]
    logs = sound()
    spoil(logs)
    assert rule in rules(logs)


def test_a_host_that_was_down_may_be_late_by_that() -> None:
    logs = sound()
    logs["b"][-1]["at"] = at(40)
    up_again = 1_700_000_000 + 36
    assert rules(logs) == {"late"}
    assert rules(logs, ((1_700_000_000 + 2, up_again), (1_700_000_000 + 20, up_again))) == set()


def test_an_answer_that_is_none_is_told() -> None:
    assert rules(sound(), statuses=(201, 404)) == {"answer"}


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    plan = draw(5, 60)
    assert plan == draw(5, 60) != draw(6, 60)
    assert sum(isinstance(one, Kill) for one in plan) == 60
    assert sum(isinstance(one, Cut) for one in plan) == 20


def test_the_checker_knows_nothing_of_the_service() -> None:
    tree = ast.parse((Path(__file__).parent / "federation/checker.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(str(module).split(".")[0] in {"app", "tenure_client", "faults"} for module in imported)
