"""Derives from each answer its claims, by docs/errors.md, docs/notices.md and the service's own description.

A claim is about one thing in the cloud. It was true at some moment between the request and its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faults.record import Attempt
from faults.timeline import Past, Timeline

Json = Mapping[str, Any]
BODY = ("id", "market", "flavor", "lifetime_s", "eviction_probability")
_DECISION = (*BODY, "seq", "at", "node", "reason", "quote")
_EXTENSION = ("id", "seq", "at", "lifetime_s", "former_lifetime_s", "deadline", "quote", "total_risk")
DONE = "done"
"""In place of an error's code: the answer is success."""


@dataclass(frozen=True)
class Claim:
    """That `holds` is true of a thing's value. `says` it in words."""

    timeline: Timeline
    holds: Callable[[Any], bool]
    says: str


def claims_of(past: Past, attempt: Attempt) -> list[Claim] | None:
    """Return the claims of the answer; None if the service has no such answer to such a request."""
    if attempt.what == "batch":
        if attempt.is_done:
            return [claim for part in parts_of_batch(attempt) for claim in claims_of(past, part) or []]
        return None
    claim = _CLAIMS.get((attempt.what, DONE if attempt.is_done else attempt.code or ""))
    return None if claim is None else list(claim(past, attempt.asked, attempt.answer))


def parts_of_batch(attempt: Attempt) -> list[Attempt]:
    """A batch's steps as attempts of their own, each with its own answer; without one where the batch has none."""
    parts = []
    results = attempt.answer["results"] if attempt.is_done else [{"status": attempt.status}] * 1000
    for step, result in zip(attempt.asked["operations"], results, strict=False):
        ((what, asked),) = step.items()
        answer = result.get("body") or ({"errors": result["errors"]} if "errors" in result else attempt.answer)
        when = (attempt.sent, attempt.answered, result["status"], None if result["status"] == 204 else answer)
        parts.append(Attempt(attempt.number, what, attempt.cloud, attempt.process, asked, *when))
    return parts


def is_asked_by(event: Json, asked: Json) -> bool:
    """Return True if this decision is on a start with this body."""
    return all(event.get(name) == asked.get(name) for name in BODY)


def _decided(past: Past, asked: Json, answer: Json) -> Iterator[Claim]:
    def holds(value: Any) -> bool:
        return value is not None and is_asked_by(value[0], asked) and _is_told(value[0], answer)

    yield Claim(past.instances[asked["id"]], holds, "its start was decided like this")


def _is_told(event: Json, answer: Json) -> bool:
    same = all(answer[name] == event.get(name) for name in _DECISION)
    is_accepted = event["kind"] == "instance_started"
    verdict = answer["status"] == ("accepted" if is_accepted else "rejected")
    return same and verdict and answer["victims"] == event.get("victims", []) and _is_ready(event, answer)


def _is_ready(event: Json, answer: Json) -> bool:
    return bool(answer["ready_at"] == event.get("ready_at"))


def _no_flavor(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.flavors[asked["flavor"]], lambda value: value is None, "there is no such flavor")


def _conflict(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    timeline = past.instances[asked["id"]]
    yield Claim(timeline, lambda value: bool(value) and not is_asked_by(value[0], asked), "it had another body")


def _no_instance(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.instances[asked["id"]], lambda value: value is None, "no start of this id was decided")


def _ended(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.instances[asked["id"]], lambda value: bool(value) and not _runs(value), "it does not run any more")


def _runs(value: Any) -> bool:
    return value is not None and value[1] is None and value[0]["kind"] == "instance_started"


def _is_evicted(value: Any) -> bool:
    return value is not None and value[1] is not None and value[1]["kind"] == "instance_evicted"


def _longer(past: Past, asked: Json, answer: Json) -> Iterator[Claim]:
    def is_told(event: Json) -> bool:
        verdict = "accepted" if event["kind"] == "instance_extended" else "rejected"
        return answer["status"] == verdict and all(answer[name] == event[name] for name in _EXTENSION)

    def holds(decisions: Any) -> bool:
        return asked["lifetime_s"] == answer["lifetime_s"] and any(map(is_told, decisions))

    yield Claim(past.extensions[asked["id"]], holds, "its longer lifetime was decided like this")


def _is_there(past: Past, asked: Json, answer: Json) -> Iterator[Claim]:
    told = answer["node"] == asked["node"] and answer["id"] == asked["id"]
    yield Claim(past.places[asked["id"]], lambda node: told and node == asked["node"], "it runs on that node")


def _drained(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.nodes[asked["node"]], lambda node: bool(node) and node[0] == "drained", "the node is drained")


def _no_such_node(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.nodes[asked["node"]], lambda node: node is None, "there is no such node")


def _no_room(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    flavor = past.decided[asked["id"]]["flavor"]
    demand = past.flavors[flavor].at(past.last_seq)

    def holds(shelf: Any) -> bool:
        rooms = [free for name, _, *free in shelf if name == asked["node"]]
        sizes = past.nodes[asked["node"]]
        counted = [value[1] for _, value in sizes.changes() if value]
        return bool(rooms and counted) and any(
            demand[name] > room and counted[-1][name] for name, room in zip(demand, rooms[0], strict=True)
        )

    yield Claim(past.shelf, holds, "the node has no room for it")


def _runs_on_demand(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    timeline = past.instances[asked["id"]]
    yield Claim(timeline, lambda value: _runs(value) and value[0]["market"] == "on_demand", "it runs, on-demand")


def _runs_as_spot(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    timeline = past.instances[asked["id"]]
    yield Claim(timeline, lambda value: _runs(value) and value[0]["market"] == "spot", "it runs as spot")


def _confirmed(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    if asked["id"] in past.handovers:
        yield Claim(past.handovers[asked["id"]], lambda value: value == "confirmed", "its hand-over was confirmed")
    else:
        yield Claim(past.instances[asked["id"]], _is_evicted, "it was evicted")


def _never_evicted(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.instances[asked["id"]], lambda value: not _is_evicted(value), "it was not evicted")


def _drilled(past: Past, asked: Json, answer: Json) -> Iterator[Claim]:
    def holds(value: Any) -> bool:
        told = _is_evicted(value) and value[1]["seq"] == answer["seq"] and value[1]["at"] == answer["at"]
        return told and value[1]["reason"] == "drill" and asked.get("instance", answer["id"]) == answer["id"]

    yield Claim(past.instances[answer["id"]], holds, "it was evicted by this drill")


def _no_drill(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    if "instance" in asked:
        timeline = past.instances[asked["instance"]]
        yield Claim(timeline, lambda value: not _runs(value) or value[0]["market"] != "spot", "it is no running spot")
    else:
        yield Claim(past.spot, lambda value: value == 0, "no spot instance runs")


def _amounts(asked: Json) -> dict[str, int]:
    return {name: asked.get(name, 0) for name in ("cores", "memory_mib", "disk_gib")}


def _node_there(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    def holds(value: Any) -> bool:
        return value is not None and dict(value[1]) == _amounts(asked)

    yield Claim(past.nodes[asked["name"]], holds, "the node is there")


def _node_differs(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    timeline = past.nodes[asked["name"]]
    yield Claim(timeline, lambda value: bool(value) and dict(value[1]) != _amounts(asked), "the node is another one")


def _node_is(status: str) -> Callable[[Past, Json, Json], Iterator[Claim]]:
    def claims(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
        yield Claim(
            past.nodes[asked["name"]], lambda value: bool(value) and value[0] == status, f"the node is {status}"
        )

    return claims


def _no_node(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.nodes[asked["name"]], lambda value: value is None, "there is no such node")


def _node_loaded(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.loads[asked["name"]], lambda value: value > 0, "on-demand instances run on the node")


def _flavor_there(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    yield Claim(past.flavors[asked["name"]], lambda value: value == _amounts(asked), "the flavor is there")


def _flavor_differs(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    timeline = past.flavors[asked["name"]]
    yield Claim(timeline, lambda value: value not in (None, _amounts(asked)), "the flavor is another one")


def _policy_so(past: Past, asked: Json, _: Json) -> Iterator[Claim]:
    wanted = asked["policy"]
    yield Claim(past.policy, lambda value: bool(value) and wanted.items() <= value.items(), "the policy is so")


def _shown(past: Past, asked: Json, answer: Json) -> Iterator[Claim]:
    yield Claim(past.instances[asked["id"]], lambda value: _is_shown(value, answer), "the instance is so")
    if answer["status"] == "running":
        yield Claim(past.places[asked["id"]], lambda node: node == answer["node"], "it runs on that node")


def _is_shown(value: Any, answer: Json) -> bool:
    if value is None:
        return False
    start, end = value
    status = "rejected" if start["kind"] == "instance_rejected" else "running" if end is None else _END[end["kind"]]
    reason = start.get("reason") if end is None else end.get("reason")
    ending = (end["at"], end.get("cause_seq")) if end else (None, None)
    first_s = answer.get("first_lifetime_s") or answer["lifetime_s"]
    same = all(answer[name] == start.get(name) for name in _DECISION if name not in {"reason", "lifetime_s", "node"})
    return (
        same
        and (answer["node"] is None) == (status == "rejected")
        and first_s == start.get("lifetime_s")
        and (answer["status"], answer["reason"]) == (status, reason)
        and _ending(answer) == ending
    )


_END = {"instance_stopped": "stopped", "instance_evicted": "evicted"}


def _ending(answer: Json) -> tuple[Any, Any]:
    return answer["ended_at"], answer["cause_seq"]


def _listed_nodes(past: Past, _: Json, answer: Json) -> Iterator[Claim]:
    told = tuple((node["name"], node["status"], *node["free"].values()) for node in answer["nodes"])
    yield Claim(past.shelf, lambda value: value == told, "the nodes are so")


def _listed_handovers(past: Past, _: Json, answer: Json) -> Iterator[Claim]:
    told = frozenset(handover["id"] for handover in answer["handovers"])
    yield Claim(past.waiting, lambda value: value == told, "these hand-overs wait")


def _nothing(_: Past, __: Json, ___: Json) -> Iterator[Claim]:
    """Claim nothing, since the answer is checked elsewhere."""
    yield from ()


_CLAIMS: Mapping[tuple[str, str], Callable[[Past, Json, Json], Iterator[Claim]]] = {
    ("start", DONE): _decided,
    ("start", "preemptible.flavor.not_found"): _no_flavor,
    ("start", "preemptible.instance.conflict"): _conflict,
    ("stop", DONE): _ended,
    ("stop", "preemptible.instance.not_found"): _no_instance,
    ("extend", DONE): _longer,
    ("extend", "preemptible.instance.not_found"): _no_instance,
    ("extend", "preemptible.extension.ended"): _ended,
    ("extend", "preemptible.extension.on_demand"): _runs_on_demand,
    ("extend", "preemptible.extension.too_late"): _runs_as_spot,
    ("extend", "preemptible.extension.not_longer"): _runs_as_spot,
    ("move", DONE): _is_there,
    ("move", "preemptible.instance.not_found"): _no_instance,
    ("move", "preemptible.node.not_found"): _no_such_node,
    ("move", "preemptible.move.ended"): _ended,
    ("move", "preemptible.move.drained"): _drained,
    ("move", "preemptible.move.no_room"): _no_room,
    ("confirm", DONE): _confirmed,
    ("confirm", "preemptible.handover.not_found"): _never_evicted,
    ("drill", DONE): _drilled,
    ("drill", "preemptible.drill.impossible"): _no_drill,
    ("add_node", DONE): _node_there,
    ("add_node", "preemptible.node.exists"): _node_differs,
    ("add_node", "preemptible.node.not_found"): _no_node,
    ("drain_node", DONE): _node_is("drained"),
    ("drain_node", "preemptible.node.not_found"): _no_node,
    ("open_node", DONE): _node_is("open"),
    ("open_node", "preemptible.node.not_found"): _no_node,
    ("remove_node", DONE): _no_node,
    ("remove_node", "preemptible.node.not_found"): _no_node,
    ("remove_node", "preemptible.node.not_empty"): _node_loaded,
    ("add_flavor", DONE): _flavor_there,
    ("add_flavor", "preemptible.flavor.exists"): _flavor_differs,
    ("change_policy", DONE): _policy_so,
    ("show_cloud", DONE): _nothing,
    ("show_instance", DONE): _shown,
    ("show_instance", "preemptible.instance.not_found"): _no_instance,
    ("list_running", DONE): _nothing,
    ("list_nodes", DONE): _listed_nodes,
    ("list_handovers", DONE): _listed_handovers,
    ("list_events", DONE): _nothing,
}
"""By what was asked and how it was answered."""
