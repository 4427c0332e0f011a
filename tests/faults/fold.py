"""Reading a log event by event: the rules that every log must keep, and what was so after each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from faults.placing import RESOURCES, Instance, Node, could_displace, could_take, end_of, faults_of_victims, first_fit
from faults.timeline import Past
from faults.violations import Findings

Event = dict[str, Any]

_COUNTS = (
    "on_demand_requested",
    "on_demand_admitted",
    "spot_requested",
    "spot_admitted",
    "spot_evicted",
    "spot_drilled",
)


def read_log(log: list[Event], findings: Findings) -> Past:
    """The log's past; what breaks a rule is among the findings."""
    fold = _Fold(findings)
    for event in log:
        fold.read(event)
    fold.finish()
    return fold.past


class _Fold:
    """A cloud's state after the events read so far."""

    def __init__(self, findings: Findings) -> None:
        self.past = Past()
        self._findings = findings
        self._nodes: list[Node] = []
        self._flavors: dict[str, dict[str, int]] = {}
        self._where: dict[str, Node] = {}
        self._policy: Mapping[str, Any] = {}
        self._counts: Counter[str] = Counter()
        self._evicting: list[Event] = []
        self._scheduled: dict[str, Event] = {}
        self._waiting: set[str] = set()
        self._overdue: set[str] = set()
        self._now = datetime.min.replace(tzinfo=UTC)

    def read(self, event: Event) -> None:
        self._event, past = event, self.past
        if event["seq"] != len(past.log) + 1:
            self._wrong("seq", f"seq {event['seq']} stands where {len(past.log) + 1} should")
            event = event | {"seq": len(past.log) + 1}
        past.log.append(event)
        now = datetime.fromisoformat(event["at"])
        if now < self._now:
            self._wrong("time", f"time goes back from {self._now} to {now}")
        self._now = now
        if (event["kind"] == "cloud_created") != (len(past.log) == 1):
            self._wrong("log", "a log begins with cloud_created, and only there")
        handle = _READERS.get(event["kind"])
        if handle is None:
            self._wrong("log", f"there is no kind {event['kind']}")
        else:
            handle(self, event)
        self._check_capacity()
        self._write_down()

    def finish(self) -> None:
        """Find what a log must not end with."""
        if self._evicting or self._scheduled:
            self._wrong("wholly", "the log ends between evictions and their cause")

    def _wrong(self, rule: str, what: str, *events: Event) -> None:
        self._findings.add(rule, what, events=(self._event, *events))

    def _check_capacity(self) -> None:
        for node in self._nodes:
            if node.is_over():
                self._wrong("capacity", f"node {node.name} is over its capacity: {node.free()}")

    def _write_down(self) -> None:
        past, seq = self.past, len(self.past.log)
        present = [node for node in self._nodes if node.status != "removed"]
        past.shelf.set(seq, tuple((node.name, node.status, *node.free().values()) for node in present))
        for node in present:
            past.loads[node.name].set(seq, sum(not one.is_spot for one in node.running))
        past.running.set(seq, frozenset(self._where))
        past.waiting.set(seq, frozenset(self._waiting))
        past.counts.set(seq, {name: self._counts[name] for name in _COUNTS} | {"running": len(self._where)})
        past.spot.set(seq, sum(len(node.spot()) for node in present))
        if self._evicting or self._scheduled:
            past.inside[seq] = "between evictions and their cause"

    def _policy_in_force(self, event: Event) -> None:
        self._policy = event["policy"]
        self.past.policy.set(event["seq"], event["policy"])

    def _node_added(self, event: Event) -> None:
        if self._node(event["node"]) is not None:
            self._wrong("log", "the node is there already")
        self._nodes.append(Node(event["node"], dict(event["capacity"])))
        self.past.nodes[event["node"]].set(event["seq"], ("open", event["capacity"]))

    def _node_changed(self, event: Event) -> None:
        node, status = self._node(event["node"]), _STATUS_AFTER[event["kind"]]
        if node is None or node.status == status:
            self._wrong("log", "the node is not there, or is so already")
            return
        node.status = status
        self.past.nodes[node.name].set(event["seq"], (status, node.capacity))

    def _node_removed(self, event: Event) -> None:
        node = self._node(event["node"])
        victims = self._take_evicted(event, "node_removed")
        if node is None:
            self._wrong("log", "the node is not there")
            return
        if node.running:
            self._wrong("removal", f"{[one.id for one in node.running]} ran on the node when it was removed")
        if any(victim["node"] != node.name for victim in victims):
            self._wrong("removal", "an instance of another node was evicted for the removal")
        if [victim["start"] for victim in victims] != sorted((victim["start"] for victim in victims), reverse=True):
            self._wrong("victims", "the node's instances were not evicted youngest first")
        node.status = "removed"
        self.past.nodes[node.name].set(event["seq"], None)

    def _flavor_added(self, event: Event) -> None:
        if event["flavor"] in self._flavors:
            self._wrong("log", "the flavor is there already")
        self._flavors[event["flavor"]] = dict(event["demand"])
        self.past.flavors[event["flavor"]].set(event["seq"], dict(event["demand"]))

    def _decided(self, event: Event) -> Mapping[str, int]:
        """Fold the common part of both outcomes of a start; return the demand."""
        if event["id"] in self.past.decided:
            self._wrong("decided once", "the start of this id was decided before", self.past.decided[event["id"]])
        self.past.decided[event["id"]] = event
        self.past.instances[event["id"]].set(event["seq"], (event, None))
        self._counts[f"{event['market']}_requested"] += 1
        if event["flavor"] not in self._flavors:
            self._wrong("log", "there was no such flavor")
        return self._flavors.get(event["flavor"], dict.fromkeys(RESOURCES, 0))

    def _rejected(self, event: Event) -> None:
        demand = dict(self._decided(event))
        fitting = first_fit(self._nodes, demand)
        if event["market"] == "on_demand":
            able = could_take(self._nodes, demand)
            if able is not None:
                self._wrong("rejection", f"rejected, although node {able.name} could have taken it")
        elif event["reason"] == "no_capacity":
            if fitting is not None:
                self._wrong("rejection", f"rejected for capacity, although it fits on node {fitting.name}")
            displaces = self._policy["displaces_overrunning"] and self._policy["guarantee"] == "none"
            if displaces and could_displace(self._nodes, demand, self._now) is not None:
                self._wrong("rejection", "rejected for capacity, although overrunning instances could make room")

    def _started(self, event: Event) -> None:
        demand, node = dict(self._decided(event)), self._node(event["node"])
        self._counts[f"{event['market']}_admitted"] += 1
        victims = self._take_evicted(event, f"{event['market']}_start")
        if [victim["id"] for victim in victims] != [victim["id"] for victim in event["victims"]]:
            self._wrong("victims", "the start names other victims than were evicted for it", *victims)
        if node is None or node.status != "open":
            self._wrong("placement", "the node takes no placements")
            return
        if not victims and first_fit(self._nodes, demand) is not node:
            self._wrong("placement", "it was not placed on the first node that fits")
        self._check_victims(event, node, demand, victims)
        if event["market"] == "spot":
            self._check_promise(event)
        goes_first = bool(event.get("goes_first"))
        one = Instance(event["id"], event["seq"], event["market"] == "spot", demand, None, goes_first)
        one.overruns_at = end_of(self._now, event["lifetime_s"])
        node.running.append(one)
        self._where[one.id] = node
        self.past.places[one.id].set(event["seq"], node.name)

    def _check_victims(self, event: Event, node: Node, demand: dict[str, int], victims: list[Event]) -> None:
        """The victims are gone by now, so they are put back for as long as it takes to look."""
        if not victims:
            return
        if any(victim["node"] != node.name for victim in victims):
            self._wrong("victims", "a start evicts on its own node only", *victims)
            return
        if event["market"] == "spot":
            self._check_displaced(victims)
        stay = list(node.running)
        node.running = sorted([*stay, *(victim["instance"] for victim in victims)], key=lambda one: one.seq)
        fitting = first_fit(self._nodes, demand)
        if fitting is not None:
            self._wrong("victims", f"it evicts, although it fits on node {fitting.name}", *victims)
        else:
            for wrong in faults_of_victims(node, demand, [victim["id"] for victim in victims], self._now):
                self._wrong("victims", wrong, *victims)
        node.running = stay

    def _check_displaced(self, victims: list[Event]) -> None:
        if not self._policy["displaces_overrunning"]:
            self._wrong("victims", "a spot start evicts, although the policy does not say so", *victims)
        for victim in victims:
            if not victim["instance"].overruns(self._now):
                self._wrong("victims", "a spot start evicts an instance that does not overrun", victim)

    def _check_promise(self, event: Event) -> None:
        if self._policy["guarantee"] != "per_instance":
            return
        quote = event["quote"] or {}
        if quote.get("epoch") is None or quote.get("lifetime_s") is None or quote["lifetime_s"] <= event["lifetime_s"]:
            self._wrong("promise", "admitted outside of the SLA in force")

    def _extended(self, event: Event) -> None:
        one = self._longer(event)
        if one is None:
            return
        one.overruns_at, quote = datetime.fromisoformat(event["deadline"]), event["quote"]
        if self._policy["guarantee"] == "per_instance" and quote["eviction_probability"] is not None:
            rest_s = (one.overruns_at - self._now).total_seconds()
            if quote["lifetime_s"] is None or quote["lifetime_s"] <= rest_s:
                self._wrong("promise", "extended outside of the SLA in force")

    def _not_extended(self, event: Event) -> None:
        one = self._longer(event)
        if one is not None and one.overruns_at != datetime.fromisoformat(event["deadline"]):
            self._wrong("extension", "the refusal does not tell the deadline that the instance keeps")

    def _moved(self, event: Event) -> None:
        former, node = self._where.get(event["id"]), self._node(event["node"])
        if former is None or former.name != event["former_node"] or node is None or node is former:
            self._wrong("move", "it did not run there, or runs on that node already, or the node is not there")
            return
        if node.status != "open":
            self._wrong("move", "the node takes no placements")
        one = next(one for one in former.running if one.id == event["id"])
        former.running.remove(one)
        node.running = sorted([*node.running, one], key=lambda other: other.seq)
        self._where[one.id] = node
        self.past.places[one.id].set(event["seq"], node.name)

    def _longer(self, event: Event) -> Instance | None:
        """The instance that is to run longer; None if there is none that may."""
        earlier = self.past.extensions[event["id"]]
        earlier.set(event["seq"], (*earlier.at(event["seq"]), event))
        node = self._where.get(event["id"])
        one = None if node is None else next(one for one in node.running if one.id == event["id"])
        if one is None or not one.is_spot or one.overruns_at is None or one.overruns_at < self._now:
            self._wrong("extension", "it is no spot instance that runs within its lifetime")
            return None
        former = one.overruns_at - timedelta(seconds=event["former_lifetime_s"])
        if former != end_of(datetime.fromisoformat(self.past.decided[one.id]["at"]), 0):
            self._wrong("extension", "the former lifetime is another than it had")
        if event["lifetime_s"] <= event["former_lifetime_s"]:
            self._wrong("extension", "its lifetime does not become longer")
        return one

    def _stopped(self, event: Event) -> None:
        if self._leave(event) is not None:
            self.past.ended[event["id"]] = event

    def _scheduled_for_eviction(self, event: Event) -> None:
        self._scheduled[event["id"]] = event
        after = timedelta(seconds=self._policy["grace_s"])
        if not after or datetime.fromisoformat(event["deadline"]) != self._now + after:
            self._wrong("grace", "the deadline is not the decision's time and the grace")

    def _evicted(self, event: Event) -> None:
        announced = self._scheduled.pop(event["id"], None)
        if (announced is not None) != bool(self._policy["grace_s"]):
            self._wrong("grace", "under a grace period, and only there, an eviction has eviction_scheduled before it")
        if announced is not None:
            if announced["cause_seq"] != event["cause_seq"]:
                self._wrong("grace", "the eviction and its announcement name different causes", announced)
            self._waiting.add(event["id"])
            self._set_handover(event, "waiting")
        node, one = self._where.get(event["id"]), self._leave(event)
        if node is None or one is None:
            return
        self.past.ended[event["id"]] = event
        self._counts["spot_drilled" if event["reason"] == "drill" else "spot_evicted"] += 1
        if not one.is_spot:
            self._wrong("on-demand", "an on-demand instance was evicted")
        if event["reason"] == "drill":
            if event["cause_seq"] != event["seq"]:
                self._wrong("cause", "a drill is its own cause")
        else:
            self._evicting.append(event | {"node": node.name, "instance": one, "start": one.seq})

    def _leave(self, event: Event) -> Instance | None:
        node = self._where.pop(event["id"], None)
        if node is None:
            self._wrong("log", "the instance did not run")
            return None
        one = next(one for one in node.running if one.id == event["id"])
        node.running.remove(one)
        self.past.places[one.id].set(event["seq"], None)
        self.past.instances[one.id].set(event["seq"], (self.past.decided[one.id], event))
        return one

    def _take_evicted(self, event: Event, reason: str) -> list[Event]:
        """The evictions that stand just before their cause, which is this event."""
        evicted, self._evicting = self._evicting, []
        first = event["seq"] - len(evicted)
        for place, one in enumerate(evicted):
            if one["cause_seq"] != event["seq"] or one["reason"] != reason or one["seq"] != first + place:
                self._wrong("cause", f"an eviction stands before this, but is not for it as {reason}", one)
        return evicted

    def _confirmed(self, event: Event) -> None:
        if event["id"] not in self._waiting:
            self._wrong("hand-over", "nothing waited for this confirmation")
        self._waiting.discard(event["id"])
        self._set_handover(event, "confirmed")

    def _reported_overdue(self, event: Event) -> None:
        late = datetime.fromisoformat(event["deadline"]) <= self._now
        if event["id"] not in self._waiting or event["id"] in self._overdue or not late:
            self._wrong("hand-over", "overdue before its time, twice, or after it was confirmed")
        self._overdue.add(event["id"])

    def _at_risk(self, event: Event) -> None:
        if event["id"] not in self._where:
            self._wrong("log", "the instance did not run")

    def _set_handover(self, event: Event, status: str) -> None:
        self.past.handovers[event["id"]].set(event["seq"], status)

    def _node(self, name: str) -> Node | None:
        return next((node for node in self._nodes if node.name == name and node.status != "removed"), None)


_STATUS_AFTER = {"node_drained": "drained", "node_opened": "open"}
_READERS: Mapping[str, Callable[[_Fold, Event], object]] = {
    "cloud_created": _Fold._policy_in_force,
    "policy_changed": _Fold._policy_in_force,
    "node_added": _Fold._node_added,
    "node_drained": _Fold._node_changed,
    "node_opened": _Fold._node_changed,
    "node_removed": _Fold._node_removed,
    "flavor_added": _Fold._flavor_added,
    "instance_started": _Fold._started,
    "instance_rejected": _Fold._rejected,
    "instance_stopped": _Fold._stopped,
    "instance_extended": _Fold._extended,
    "extension_rejected": _Fold._not_extended,
    "instance_evicted": _Fold._evicted,
    "instance_moved": _Fold._moved,
    "eviction_scheduled": _Fold._scheduled_for_eviction,
    "eviction_confirmed": _Fold._confirmed,
    "eviction_overdue": _Fold._reported_overdue,
    "eviction_risk": _Fold._at_risk,
    "promise_ending": _Fold._at_risk,
}
