"""Histories made by hand, for the tests of the checker: logs that keep every rule, and records that agree with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from faults.checker import check
from faults.record import Attempt, Follow
from faults.violations import Violation

CLOUD = "north"
NODE = {"cores": 2, "memory_mib": 0, "disk_gib": 0}
SMALL = {"cores": 1, "memory_mib": 0, "disk_gib": 0}
BIG = {"cores": 2, "memory_mib": 0, "disk_gib": 0}
POLICY = {"guarantee": "none", "grace_s": 0, "seed": 0, "displaces_overrunning": False}
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> str:
    return (_FIRST + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


class HandMade:
    """A history in the making. Each event comes a second after the one before; moments of requests are seconds too."""

    def __init__(self, policy: dict[str, Any] = POLICY) -> None:
        self.log: list[dict[str, Any]] = []
        self.attempts: list[Attempt] = []
        self.follows: list[Follow] = []
        self.event("cloud_created", policy=policy)

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next event."""
        event = {"seq": len(self.log) + 1, "at": at(len(self.log) + 1), "kind": kind, **fields}
        self.log.append(event)
        return event

    def ask(self, what: str, sent: float, status: int | None = 200, answer: Any = None, **asked: Any) -> Attempt:
        """A request at some second, answered half a second later."""
        attempt = Attempt(len(self.attempts) + 1, what, CLOUD, "serve-1", asked, sent, sent + 0.5, status, answer)
        self.attempts.append(attempt)
        return attempt

    def refuse(self, what: str, sent: float, status: int, code: str, **asked: Any) -> Attempt:
        return self.ask(what, sent, status, {"errors": [{"code": f"preemptible.{code}"}]}, **asked)

    def violations(self) -> list[Violation]:
        return check(self.attempts, {CLOUD: self.log}, self.follows)

    def rules(self) -> set[str]:
        """The names of the rules that are broken."""
        return {violation.rule for violation in self.violations()}

    def node(self, name: str, sent: float) -> None:
        """A node is added."""
        self.event("node_added", node=name, capacity=NODE)
        self.ask("add_node", sent, 201, {}, name=name, **NODE)

    def flavor(self, name: str, demand: dict[str, int], sent: float) -> None:
        """A flavor is added."""
        self.event("flavor_added", flavor=name, demand=demand)
        self.ask("add_flavor", sent, 201, {}, name=name, **demand)

    def start(
        self,
        name: str,
        market: str,
        flavor: str,
        sent: float,
        node: str | None = "node-1",
        victims: Sequence[str] = (),
        lifetime_s: float | None = None,
        *,
        goes_first: bool = False,
    ) -> dict[str, Any]:
        """A start that is accepted, or rejected where it has no node, with its answer; the event."""
        fields = {"id": name, "market": market, "flavor": flavor, "lifetime_s": lifetime_s}
        fields |= {"eviction_probability": None}
        ready = at(len(self.log) + 1)
        if node is None:
            event = self.event("instance_rejected", **fields, reason="no_capacity", quote=None)
        else:
            named = [{"id": victim, "deadline": None} for victim in victims]
            fields |= {"node": node, "ready_at": ready, "quote": None, "goes_first": goes_first}
            event = self.event("instance_started", **fields, victims=named)
        asked: dict[str, Any] = {"id": name, "market": market, "flavor": flavor}
        if lifetime_s is not None:
            asked["lifetime_s"] = lifetime_s
        self.ask("start", sent, 201, answer_to(event), **asked)
        return event

    def evict(self, name: str, cause_seq: int, reason: str = "on_demand_start") -> None:
        self.event("instance_evicted", id=name, reason=reason, cause_seq=cause_seq)

    def stop(self, name: str, sent: float) -> None:
        """A running instance is stopped."""
        self.event("instance_stopped", id=name)
        self.ask("stop", sent, 204, id=name)


def answer_to(event: dict[str, Any]) -> dict[str, Any]:
    """The answer to a start that was decided like this."""
    accepted = event["kind"] == "instance_started"
    absent = {"node": None, "reason": None, "ready_at": None, "victims": []}
    fields = {name: value for name, value in event.items() if name != "kind"}
    return absent | fields | {"status": "accepted" if accepted else "rejected", "acceptable": None}


def shown(event: dict[str, Any], status: str, end: dict[str, Any] | None = None) -> dict[str, Any]:
    """The instance as a read shows it."""
    end = end or {}
    ending = {"ended_at": end.get("at"), "cause_seq": end.get("cause_seq"), "reason": end.get("reason")}
    return answer_to(event) | {"status": status} | ending


def small_cloud(policy: dict[str, Any] = POLICY) -> HandMade:
    """A cloud with a node of two cores, flavors of one and of two, and an on-demand and a spot instance on the node.

    Events 1 to 6; requests at seconds 0 to 4, so what comes next begins with seq 7 and second 5.
    """
    made = HandMade(policy)
    made.node("node-1", 0)
    made.flavor("small", SMALL, 1)
    made.flavor("big", BIG, 2)
    made.start("od-1", "on_demand", "small", 3)
    made.start("spot-1", "spot", "small", 4)
    return made
