"""The daemon's rules: each cell of the table of Nova's states by Tenure's, names of lives, sizes, nodes and marks."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.values import Resources
from app.nova.rules.lives import Life, is_server_id, life_of
from app.nova.rules.marks import DEADLINE, EPOCH, EVICT_AT, EVICTING, PROBABILITY, UNPROMISED
from app.nova.rules.nodes import NodeFacts, NodeStep, NodeStepKind, lost_nodes, plan_nodes
from app.nova.rules.reconciling import (
    NovaChoices,
    ServerEnding,
    UnpromisedFate,
    ViewTimes,
    building_s,
    decide,
    presence_of,
)
from app.nova.rules.seen import KnownLife, Presence, Server, ServerVerdict, StepKind
from app.nova.rules.sizes import capacity_of, demand_of, is_size_of, is_spot, name_of_size, plain_name

UUID = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11"
START = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOW = START + timedelta(seconds=600)
SMALL = Resources(1, 512, 1)
NODES = frozenset({"fake1", "fake2"})
UP = START + timedelta(seconds=3)
ACTIVE = Server(UUID, "ACTIVE", None, "fake1", "small", SMALL, True, START, UP, UP)
RUNNING = KnownLife(Life(UUID, 1), "running", True, "fake1", "small", SMALL, START, START + timedelta(hours=1), 0.05, 7)
MARKED = {DEADLINE: "2026-11-23T13:00:00Z", PROBABILITY: "0.05", EPOCH: "7"}
QUIET = replace(ACTIVE, metadata=MARKED)
STATES: dict[str, dict[str, Any]] = {
    "ACTIVE": {},
    "SHUTOFF": {"status": "SHUTOFF"},
    "PAUSED": {"status": "PAUSED"},
    "SHELVED": {"status": "SHELVED"},
    "ERROR with a host": {"status": "ERROR"},
    "BUILD": {"status": "BUILD", "node": None, "launched_at": None},
    "unshelving": {"status": "SHELVED_OFFLOADED", "task": "unshelving", "node": None},
    "RESIZE": {"status": "RESIZE", "task": "resize_migrating"},
    "MIGRATING": {"status": "MIGRATING", "task": "migrating"},
    "ERROR": {"status": "ERROR", "node": None},
    "failed to build": {"status": "ERROR", "node": None, "launched_at": None},
    "DELETED": {"status": "DELETED"},
    "SOFT_DELETED": {"status": "SOFT_DELETED"},
    "SHELVED_OFFLOADED": {"status": "SHELVED_OFFLOADED", "node": None},
}
HOLDS = ("ACTIVE", "SHUTOFF", "PAUSED", "SHELVED", "ERROR with a host")
GONE = ("ERROR", "DELETED", "SOFT_DELETED", "SHELVED_OFFLOADED")


def kinds(
    server: Server | None, known: KnownLife | None, choices: NovaChoices | None = None, now: datetime = NOW
) -> list[str]:
    return [str(step.kind) for step in verdict(server, known, choices, now).steps]


def verdict(
    server: Server | None, known: KnownLife | None, choices: NovaChoices | None = None, now: datetime = NOW
) -> ServerVerdict:
    return decide(server, known, NODES, choices or NovaChoices(), ViewTimes(now, now))


def seen(state: str, **changed: Any) -> Server:
    return replace(QUIET, **{**STATES[state], **changed})


def ended(status: str, **changed: Any) -> KnownLife:
    return replace(RUNNING, status=status, **changed)


@pytest.mark.parametrize("market", [True, False])
@pytest.mark.parametrize("state", HOLDS)
def test_what_runs_and_is_known_to_run_is_left_alone(state: str, market: bool) -> None:
    assert kinds(seen(state, is_spot=market), replace(RUNNING, is_spot=market)) == []


@pytest.mark.parametrize("state", ["BUILD", "unshelving", "RESIZE", "MIGRATING"])
@pytest.mark.parametrize("known", [RUNNING, ended("stopped"), ended("rejected"), None], ids=str)
def test_what_is_on_its_way_is_waited_for(state: str, known: KnownLife | None) -> None:
    assert kinds(seen(state, updated_at=NOW, is_spot=False), known) == []
    assert kinds(seen(state, updated_at=NOW), RUNNING) == []


@pytest.mark.parametrize("state", GONE)
def test_what_is_gone_is_stopped(state: str) -> None:
    (step,) = verdict(seen(state), RUNNING).steps
    assert (step.kind, step.life) == (StepKind.STOP, Life(UUID, 1))


def test_what_never_ran_is_aborted() -> None:
    assert kinds(seen("failed to build"), RUNNING) == ["abort"]
    assert kinds(seen("DELETED", launched_at=None), RUNNING) == ["abort"]
    assert kinds(seen("DELETED", launched_at=None), replace(RUNNING, is_observed=True)) == ["stop"]


def test_a_later_life_that_came_to_nothing_is_aborted() -> None:
    second = replace(RUNNING, life=Life(UUID, 2), at=START + timedelta(seconds=300))
    assert kinds(seen("SHELVED_OFFLOADED"), second) == ["abort"]
    assert kinds(seen("SHELVED_OFFLOADED", launched_at=START + timedelta(seconds=310)), second) == ["stop"]


def test_a_view_from_before_the_start_ends_nothing() -> None:
    early = decide(
        seen("SHELVED_OFFLOADED"), RUNNING, NODES, NovaChoices(), ViewTimes(NOW, START + timedelta(seconds=2))
    )
    assert early == ServerVerdict(again_s=3.0)
    assert kinds(seen("DELETED"), RUNNING, now=START) == ["stop"]
    assert verdict(None, RUNNING, now=START + timedelta(seconds=10)) == ServerVerdict(again_s=20.0)
    late = START + timedelta(hours=1)
    assert kinds(None, RUNNING, now=late) == ["stop"]


def test_a_server_of_which_nova_keeps_nothing_was_never_built() -> None:
    """It was deleted before it had a host. Of an old life the row may have been archived."""
    assert kinds(None, RUNNING) == ["abort"]
    assert kinds(None, RUNNING, NovaChoices(build_timeout_s=600)) == ["stop"]
    assert kinds(None, replace(RUNNING, is_observed=True)) == ["stop"]
    assert kinds(None, replace(RUNNING, life=Life(UUID, 2))) == ["stop"]


@pytest.mark.parametrize("state", [*GONE, "failed to build"])
def test_an_eviction_is_confirmed_when_its_server_is_gone(state: str) -> None:
    assert kinds(seen(state), ended("evicted", leaves_by=NOW + timedelta(seconds=30))) == ["confirm"]
    assert kinds(seen(state), ended("evicted")) == []
    assert kinds(None, ended("evicted", leaves_by=NOW)) == ["confirm"]


@pytest.mark.parametrize("state", [*GONE, "failed to build"])
@pytest.mark.parametrize("known", [ended("stopped"), ended("rejected"), None], ids=str)
def test_what_is_gone_on_both_sides_is_forgotten(state: str, known: KnownLife | None) -> None:
    assert verdict(seen(state), known) == ServerVerdict()
    assert verdict(None, known) == ServerVerdict()


def test_a_spot_server_without_a_promise_tells_when_it_is_deleted() -> None:
    forged = replace(ACTIVE, created_at=NOW - timedelta(seconds=20), metadata={DEADLINE: "2030-01-01T00:00:00Z"})
    mark, unmark = verdict(forged, None).steps
    assert (mark.kind, mark.marks) == (StepKind.MARK, {UNPROMISED: "2026-11-23T12:10:40Z"})
    assert (unmark.kind, unmark.marks) == (StepKind.UNMARK, {DEADLINE: ""})
    told = replace(forged, metadata=mark.marks)
    assert verdict(told, None) == ServerVerdict(again_s=40)
    assert kinds(told, None, now=NOW + timedelta(seconds=40)) == ["clear"]
    unmark = next(step for step in verdict(told, RUNNING).steps if step.kind is StepKind.UNMARK)
    assert unmark.marks == {UNPROMISED: ""}, "it has a promise now"


@pytest.mark.parametrize("ending", ServerEnding)
def test_an_evicted_server_that_is_unshelved_is_left_to_the_scheduler(ending: ServerEnding) -> None:
    """Nova says that it unshelves before its scheduler asks for a new promise; a deletion would take its disk."""
    choices = NovaChoices(ending=ending)
    assert verdict(seen("unshelving"), ended("evicted"), choices) == ServerVerdict()
    assert kinds(seen("unshelving"), ended("evicted", leaves_by=NOW), choices) == ["confirm"]
    assert kinds(seen("ACTIVE"), ended("evicted"), choices)[-1] in ("delete", "shelve", "force"), "it got no promise"


@pytest.mark.parametrize("state", [*HOLDS, "BUILD", "RESIZE", "MIGRATING"])
def test_the_evicted_are_deleted_at_once_without_a_grace_period(state: str) -> None:
    assert kinds(seen(state), ended("evicted")) == ["delete"]


def test_a_server_that_is_ended_tells_when_it_was_evicted_and_from_what_promise() -> None:
    evicted = replace(ended("evicted"), probability=0.05, epoch=7, deadline=RUNNING.at + timedelta(hours=1))
    evicted = replace(evicted, ended_at=NOW - timedelta(microseconds=1))
    found = verdict(ACTIVE, evicted)
    assert [str(step.kind) for step in found.steps] == ["mark", "delete"]
    assert found.steps[0].marks == {**MARKED, EVICT_AT: "2026-11-23T12:09:59.999999Z"}
    assert kinds(seen("BUILD"), evicted) == ["delete"]
    assert kinds(replace(ACTIVE, task="deleting", updated_at=NOW), evicted) == []
    late = replace(evicted, leaves_by=NOW - timedelta(seconds=5))
    assert verdict(QUIET, late).steps[0].marks[EVICT_AT] == "2026-11-23T12:09:55Z", "the deadline, not the eviction"


@pytest.mark.parametrize("forged", ["2026-11-23T12:00:00Z", "2026-11-23T23:00:00Z", "never", "9" * 200])
def test_no_owner_decides_what_an_ended_server_tells(forged: str) -> None:
    evicted = replace(ended("evicted"), ended_at=NOW - timedelta(seconds=10), probability=0.05)
    server = replace(QUIET, metadata={**MARKED, PROBABILITY: "0.9", EVICT_AT: forged})
    assert verdict(server, evicted).steps[0].marks == {**MARKED, EVICT_AT: "2026-11-23T12:09:50Z"}
    under_notice = replace(evicted, leaves_by=NOW + timedelta(seconds=40))
    assert verdict(server, under_notice).steps[0].marks == {PROBABILITY: "0.05", EVICT_AT: "2026-11-23T12:10:40Z"}


@pytest.mark.parametrize("state", HOLDS)
def test_no_on_demand_server_is_ended_whatever_it_was_before(state: str) -> None:
    """Nova may have resized an evicted spot server to an on-demand flavor while Tenure was away."""
    assert kinds(seen(state, is_spot=False), ended("evicted")) == ["observe"]
    late = ended("evicted", leaves_by=NOW - timedelta(seconds=1))
    assert kinds(seen(state, is_spot=False), late) == ["confirm", "observe"]


def test_under_a_grace_period_notice_is_given_and_the_deadline_ends_it() -> None:
    leaves_by = NOW + timedelta(seconds=40)
    found = verdict(QUIET, ended("evicted", leaves_by=leaves_by))
    assert [str(step.kind) for step in found.steps] == ["mark", "tag"]
    assert found.steps[0].marks == {EVICT_AT: "2026-11-23T12:10:40Z"}
    assert found.again_s == 40
    told = replace(QUIET, metadata={**MARKED, EVICT_AT: "2026-11-23T12:10:40Z"}, tags=frozenset({EVICTING}))
    assert verdict(told, ended("evicted", leaves_by=leaves_by)) == ServerVerdict(again_s=40)
    assert kinds(told, ended("evicted", leaves_by=leaves_by), now=leaves_by) == ["delete"]
    assert verdict(seen("BUILD"), ended("evicted", leaves_by=leaves_by)) == ServerVerdict(again_s=40)


@pytest.mark.parametrize(
    ("state", "task", "steps"),
    [
        ("ACTIVE", None, ["shelve"]),
        ("ACTIVE", "shelving_image_uploading", []),
        ("SHELVED", None, ["offload"]),
        ("SHELVED", "shelving_offloading", []),
        ("ERROR with a host", None, ["delete"]),
        ("BUILD", None, ["delete"]),
    ],
)
def test_shelving_keeps_what_can_be_kept(state: str, task: str | None, steps: list[str]) -> None:
    assert kinds(seen(state, task=task), ended("evicted"), NovaChoices(ending=ServerEnding.SHELVE)) == steps


def test_a_deletion_that_takes_too_long_is_forced() -> None:
    deleting = replace(QUIET, task="deleting", updated_at=NOW - timedelta(seconds=20))
    assert verdict(replace(deleting, is_at_deletion=True), ended("evicted")) == ServerVerdict(again_s=40)
    assert kinds(replace(deleting, updated_at=NOW - timedelta(seconds=60)), ended("evicted")) == ["reset", "force"]
    renamed = replace(deleting, updated_at=NOW)
    lately = replace(renamed, is_at_deletion=True)
    assert verdict(lately, ended("evicted", leaves_by=NOW - timedelta(seconds=359))).again_s == 1
    assert kinds(renamed, ended("evicted", leaves_by=NOW - timedelta(seconds=360))) == ["reset", "force"]
    assert kinds(QUIET, ended("evicted"), NovaChoices(ending=ServerEnding.FORCE)) == ["force"]


def test_a_deletion_that_no_node_has_begun_is_forced_soon_and_then_ever_later() -> None:
    evicted = ended("evicted", leaves_by=NOW - timedelta(seconds=6))
    asked_for = replace(QUIET, task="deleting", updated_at=NOW - timedelta(seconds=4))
    assert verdict(asked_for, evicted) == ServerVerdict(again_s=1)
    late = replace(asked_for, updated_at=NOW - timedelta(seconds=5))
    assert verdict(late, evicted) == ServerVerdict(again_s=0, asks=True)
    assert verdict(replace(late, is_at_deletion=True), evicted) == ServerVerdict(again_s=55)
    lost = verdict(replace(late, is_at_deletion=False), evicted)
    assert [str(step.kind) for step in lost.steps] == ["reset", "force"]
    assert lost.again_s == 5
    old = ended("evicted", leaves_by=NOW - timedelta(seconds=80))
    assert verdict(replace(late, is_at_deletion=False), old) == ServerVerdict(again_s=55), "its node has much to do"
    older = replace(late, updated_at=NOW - timedelta(seconds=20), is_at_deletion=False)
    assert verdict(older, old).again_s == 20
    assert [str(step.kind) for step in verdict(older, old).steps] == ["reset", "force"]


def test_a_shelving_that_nova_has_lost_ends_in_a_deletion() -> None:
    shelving = seen("ACTIVE", task="shelving")
    evicted = ended("evicted", leaves_by=NOW)
    assert kinds(shelving, evicted, SHELVES, NOW + timedelta(seconds=1799)) == []
    assert kinds(shelving, evicted, SHELVES, NOW + timedelta(seconds=1800))[-1] == "delete"


SHELVES = NovaChoices(ending=ServerEnding.SHELVE)
DUE = NOW - timedelta(seconds=60)


@pytest.mark.parametrize("due", [{"leaves_by": DUE}, {"ended_at": DUE}], ids=str)
@pytest.mark.parametrize(("state", "first"), [("ACTIVE", "shelve"), ("SHUTOFF", "shelve"), ("SHELVED", "offload")])
def test_a_server_that_its_owner_keeps_busy_is_deleted_instead_of_shelved(
    due: dict[str, Any], state: str, first: str
) -> None:
    evicted = ended("evicted", **due)
    busy = seen(state, task="image_snapshot", updated_at=NOW)
    early = NOW - timedelta(seconds=1)
    assert kinds(busy, evicted, SHELVES, early)[-1] == first
    assert kinds(busy, evicted, SHELVES)[-1] == "delete"
    assert kinds(seen(state, task="shelving_image_uploading", updated_at=NOW), evicted, SHELVES) == [], "it is at it"


def test_a_server_that_comes_back_from_being_shelved_is_deleted_and_an_untouched_one_is_not() -> None:
    evicted = ended("evicted", ended_at=DUE)
    assert kinds(seen("ACTIVE", updated_at=NOW), evicted, SHELVES)[-1] == "delete"
    assert kinds(seen("ACTIVE", updated_at=DUE), evicted, SHELVES)[-1] == "shelve", "the daemon was away"
    assert kinds(seen("SHELVED", updated_at=NOW), evicted, SHELVES) == ["offload"]


@pytest.mark.parametrize("ending", ServerEnding)
@pytest.mark.parametrize("seed", range(40))
def test_whatever_an_owner_does_an_evicted_server_is_forced_in_the_end(seed: int, ending: ServerEnding) -> None:
    """Nova has lost its deletion, refuses to shelve what is busy, and each look comes after something that was done."""
    drawn, evicted, choices = random.Random(seed), ended("evicted", leaves_by=DUE), NovaChoices(ending=ending)
    server, taken, now = seen("ACTIVE", updated_at=DUE), set[str](), DUE
    while not {"force"} <= taken:
        now += timedelta(seconds=drawn.uniform(0.1, 15))
        assert now < DUE + timedelta(seconds=6 * choices.force_after_s + 15), taken
        if server.task != "deleting":
            does = drawn.choice([("ACTIVE", "image_snapshot"), ("ACTIVE", "reboot_started"), ("SHUTOFF", "rescuing")])
            server = replace(server, status=does[0], task=does[1])
        server = replace(server, updated_at=now)  # a new name
        taken = {*kinds(server, evicted, choices, now)}
        if "delete" in taken:
            server = replace(server, task="deleting")


@pytest.mark.parametrize("state", HOLDS)
@pytest.mark.parametrize("known", [ended("stopped"), ended("rejected"), None], ids=str)
def test_an_unpromised_spot_server_ends(state: str, known: KnownLife | None) -> None:
    server = seen(state)
    assert kinds(server, known) == ["clear"]
    assert kinds(server, known, NovaChoices(unpromised=UnpromisedFate.KEEP)) == []
    began_at = max(server.created_at, START if known is None else known.ended_at or START)
    assert verdict(server, known, now=began_at + timedelta(seconds=20)).again_s == 40


@pytest.mark.parametrize("known", [ended("stopped"), None], ids=str)
def test_no_owner_puts_off_the_end_of_a_server_without_a_promise(known: KnownLife | None) -> None:
    """A rebuild sets the time of its launch anew each time, and a resize or a migration takes as long as it takes."""
    for server in (replace(ACTIVE, launched_at=NOW), replace(ACTIVE, status="REBUILD"), seen("RESIZE")):
        assert kinds(server, known) == ["clear"]
    assert kinds(replace(server, node="elsewhere"), known) == []
    assert kinds(replace(server, task="deleting", updated_at=NOW), known) == []
    assert kinds(replace(server, task="deleting", updated_at=NOW - timedelta(seconds=60)), known) == ["reset", "force"]


@pytest.mark.parametrize("state", HOLDS)
def test_an_unknown_on_demand_server_is_observed(state: str) -> None:
    server = seen(state, is_spot=False)
    (step,) = verdict(server, None).steps
    assert (step.kind, step.life) == (StepKind.OBSERVE, Life(UUID, 1))
    (step,) = verdict(server, replace(ended("stopped", life=Life(UUID, 2)), is_spot=False)).steps
    assert (step.kind, step.life) == (StepKind.OBSERVE, Life(UUID, 3))
    assert kinds(replace(server, node="elsewhere"), None) == []
    assert kinds(replace(server, demand=None), None) == []


def test_moves_and_sizes_are_followed() -> None:
    on_demand = replace(RUNNING, is_spot=False)
    there, larger = {"node": "fake2"}, {"demand": Resources(2, 512, 1), "plain_flavor": "large"}
    assert kinds(seen("ACTIVE", **there), RUNNING) == ["move"]
    assert kinds(seen("ACTIVE", **there, is_spot=False), on_demand) == ["observe"]
    assert kinds(seen("ACTIVE", **larger, is_spot=False), on_demand) == ["observe"]
    assert kinds(seen("ACTIVE", **larger), RUNNING) == ["stop"]
    assert kinds(seen("ACTIVE", demand=Resources(2)), RUNNING) == []
    assert kinds(seen("ACTIVE", **larger), replace(RUNNING, demand=None)) == []
    assert kinds(seen("ACTIVE", is_spot=False), RUNNING) == ["stop"]
    assert kinds(seen("ACTIVE", node="elsewhere", is_spot=False), on_demand) == ["stop"]
    assert kinds(seen("ACTIVE", node="elsewhere"), RUNNING) == []


def test_a_server_without_a_node_for_very_long_comes_to_nothing() -> None:
    late = START + timedelta(seconds=1800)
    assert kinds(seen("BUILD"), RUNNING, now=late) == ["abort"]
    assert kinds(seen("BUILD", updated_at=late), RUNNING, now=late) == ["abort"], "Nova says so of one in no cell"
    assert verdict(seen("BUILD"), RUNNING, now=late - timedelta(seconds=10)) == ServerVerdict(again_s=10)
    assert kinds(seen("BUILD", node="fake1"), RUNNING, now=late) == []


def test_new_names_do_not_put_off_the_end_of_an_unshelving_that_nova_forgot() -> None:
    again = replace(RUNNING, life=Life(UUID, 2), at=START + timedelta(seconds=300))
    late = again.at + timedelta(seconds=1800)
    assert kinds(seen("unshelving", updated_at=late), again, now=late) == ["abort"]
    assert verdict(seen("unshelving", updated_at=late), again, now=late - timedelta(seconds=10)).again_s == 10
    assert kinds(seen("unshelving", updated_at=late), RUNNING, now=late) == [], "its shelving was never told"
    observed = replace(again, is_observed=True)
    assert kinds(seen("unshelving", updated_at=late), observed, now=late) == []


@pytest.mark.parametrize("state", STATES)
def test_a_server_that_nova_forgot_is_one_that_stays_unbuilt(state: str) -> None:
    expected = {"BUILD": 600.0, "unshelving": 597.0}.get(state, 0.0)
    assert building_s(seen(state), NOW) == expected
    assert building_s(seen(state, node="fake1"), NOW) == 0.0
    later = NOW + timedelta(seconds=1)
    assert building_s(seen(state, created_at=later, updated_at=later), NOW) == 0.0


def test_a_spot_server_tells_its_promise() -> None:
    (step,) = verdict(ACTIVE, RUNNING).steps
    assert (step.kind, step.marks) == (StepKind.MARK, MARKED)
    extended = replace(RUNNING, deadline=START + timedelta(hours=2))
    (step,) = verdict(QUIET, extended).steps
    assert step.marks == {DEADLINE: "2026-11-23T14:00:00Z"}
    assert kinds(replace(ACTIVE, status="ERROR"), RUNNING) == []
    bare = replace(RUNNING, probability=None, epoch=None)
    assert verdict(ACTIVE, bare).steps[0].marks == {DEADLINE: "2026-11-23T13:00:00Z"}
    forged = verdict(replace(QUIET, metadata={**MARKED, EVICT_AT: "2026-11-23T12:01:00Z"}), bare).steps
    assert [str(step.kind) for step in forged] == ["unmark"]
    assert forged[0].marks.keys() == {PROBABILITY, EPOCH, EVICT_AT}


def test_a_notice_of_an_earlier_life_goes() -> None:
    unshelved = replace(QUIET, metadata={**MARKED, EVICT_AT: "then"}, tags=frozenset({EVICTING}))
    assert kinds(unshelved, RUNNING) == ["unmark", "untag"]


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_place(state: str) -> None:
    expected = Presence.HOLDS if state in HOLDS else Presence.GONE
    expected = Presence.BUILDS if state in {"BUILD", "unshelving"} else expected
    expected = Presence.MOVES if state in {"RESIZE", "MIGRATING"} else expected
    assert presence_of(seen(state)) is expected


def test_lives_have_ids_of_their_own() -> None:
    assert life_of(UUID) == Life(UUID, 1)
    assert life_of(f"{UUID}.12") == Life(UUID, 12)
    assert Life(UUID, 12).instance_id == f"{UUID}.12"
    assert Life(UUID, 1).instance_id == UUID
    assert Life(UUID, 1).next.instance_id == f"{UUID}.2"
    assert [life_of(text) for text in ("web-1", f"{UUID}.1", f"{UUID}.0", f"{UUID}.02", UUID.upper())] == [None] * 5
    assert [is_server_id(one) for one in (UUID, f"{UUID}.2", None, 7, ["x"])] == [True, False, False, False, False]


def test_a_flavors_size_is_what_its_servers_take_of_a_node() -> None:
    flavor = {"vcpus": 2, "ram": 2048, "disk": 20, "OS-FLV-EXT-DATA:ephemeral": 5, "swap": 1025}
    assert demand_of(flavor) == Resources(2, 2048, 27)
    assert demand_of({"vcpus": 2, "ram": 2048, "disk": 20, "ephemeral": 5, "swap": ""}) == Resources(2, 2048, 25)
    assert demand_of({**flavor, "vcpus": 0}) is None
    assert demand_of({**flavor, "ram": 1 << 30}) is None


def test_flavors_have_names_that_tenure_can_have() -> None:
    spot = {"tenure:market": "spot", "tenure:flavor": "m1.small"}
    assert plain_name("spot.m1.small", spot) == "m1.small"
    assert plain_name("spot.m1.small", {"tenure:market": "spot"}) == "spot.m1.small"
    assert plain_name("small", {"tenure:flavor": "other"}) == "small"
    assert plain_name("GPU large (A100)", {}) == "GPU_large__A100_"
    assert plain_name("_x", {}) == "f_x"
    assert plain_name("", {}) == "f"
    assert [is_spot(specs) for specs in (spot, {}, {"tenure:market": "on_demand"})] == [True, False, False]


def test_a_size_has_a_name_of_its_own() -> None:
    known = {"small": SMALL, "small--2": Resources(2)}
    assert name_of_size({}, "small", SMALL) == "small"
    assert name_of_size(known, "small", SMALL) == "small"
    assert name_of_size(known, "small", Resources(2)) == "small--2"
    assert name_of_size(known, "small", Resources(3)) == "small--3"
    assert [is_size_of(one, "small") for one in ("small", "small--2", "small--", "smaller")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_nodes_capacity_is_what_placement_lets_be_used() -> None:
    inventories = {
        "VCPU": {"total": 10, "reserved": 2, "allocation_ratio": 4.0},
        "PCPU": {"total": 4},
        "MEMORY_MB": {"total": 8192, "reserved": 512, "allocation_ratio": 1.0},
    }
    assert capacity_of(inventories) == Resources(36, 7680, 0)
    assert capacity_of({}) == Resources(0)


def test_nodes_follow_placement_and_nova() -> None:
    size, more = Resources(10, 8192, 1028), Resources(12, 8192, 1028)
    wanted = {
        "new": NodeFacts(size, True),
        "new and disabled": NodeFacts(size, False),
        "same": NodeFacts(size, True),
        "grown": NodeFacts(more, True),
        "disabled": NodeFacts(size, False),
        "enabled": NodeFacts(size, True),
        "empty": NodeFacts(Resources(0), True),
    }
    known = {name: NodeFacts(size, name != "enabled") for name in ("same", "grown", "disabled", "enabled", "lost")}
    assert plan_nodes(wanted, known) == [
        NodeStep(NodeStepKind.ADD, "new", size),
        NodeStep(NodeStepKind.ADD, "new and disabled", size),
        NodeStep(NodeStepKind.DRAIN, "new and disabled"),
        NodeStep(NodeStepKind.RESIZE, "grown", more),
        NodeStep(NodeStepKind.DRAIN, "disabled"),
        NodeStep(NodeStepKind.OPEN, "enabled"),
    ]
    assert lost_nodes(wanted, known) == {"lost"}
    assert lost_nodes({}, known) == frozenset()
