"""The table of the daemon: what to do about a server, by Nova's state of it and Tenure's state of its newest life.

It is level-triggered: it knows what both say now and nothing of what was done before. Nova is right about what runs
where, and Tenure's log about what was promised and decided. Every step may be taken twice.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.nova.rules.lives import Life
from app.nova.rules.marks import marks_of_notice, marks_of_promise
from app.nova.rules.seen import Known, Presence, Server, Step, StepKind, Verdict

SURELY_AFTER_S = 5.0
"""A view of Nova tells nothing of a start that was decided later, and clocks differ."""
ABSENT_AFTER_S = 30.0
"""A server that Nova does not find may be on its way from its API to its cell for so long."""
_AGAIN_S = 5.0
_SHELVES_FROM = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
_GONE = frozenset({"DELETED", "SOFT_DELETED"})
_MOVES = frozenset({"RESIZE", "MIGRATING", "REVERT_RESIZE", "REBUILD"})
_DELETING = frozenset({"deleting", "soft-deleting"})
_SHELVING = "shelving"


class Ending(StrEnum):
    """The way in which an evicted server is ended."""

    DELETE = "delete"
    SHELVE = "shelve"
    FORCE = "force"


class Unpromised(StrEnum):
    """The fate of a spot server that nothing was promised to, as one that an admin put on a host by force."""

    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's choices. Times are in seconds."""

    ending: Ending = Ending.DELETE
    unpromised: Unpromised = Unpromised.DELETE
    unpromised_after_s: float = 60.0
    build_timeout_s: float = 1800.0
    force_after_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Moments:
    """The present, and when the server was last surely as it was seen."""

    now: datetime
    seen_at: datetime


def presence_of(server: Server) -> Presence:
    """Return where a server stands, by Nova's state of it."""
    if server.status in _GONE:
        return Presence.GONE
    if server.status == "SHELVED_OFFLOADED":
        return Presence.GONE if server.task is None or server.task in _DELETING else Presence.BUILDS
    if server.status == "ERROR":
        return Presence.GONE if server.node is None else Presence.HOLDS
    if server.status == "BUILD" or server.node is None:
        return Presence.BUILDS
    return Presence.MOVES if server.status in _MOVES else Presence.HOLDS


def decide(
    server: Server | None, known: Known | None, nodes: AbstractSet[str], limits: Limits, moments: Moments
) -> Verdict:
    """Return what to do about a server. `server` is None if Nova has none, `known` if Tenure never heard of it.

    `nodes` are those of the cloud in Tenure.
    """
    presence = Presence.GONE if server is None else presence_of(server)
    if server is None or presence is Presence.GONE:
        return _gone(server, known, moments)
    if known is not None and known.status == "evicted":
        return _evicted(server, known, limits, moments.now)
    if presence is Presence.BUILDS:
        return _building(server, known, limits, moments)
    if presence is Presence.MOVES:
        return Verdict()
    if known is None or not known.runs:
        return _unknown(server, known, nodes, limits, moments.now)
    return _running(server, known, nodes)


def _gone(server: Server | None, known: Known | None, moments: Moments) -> Verdict:
    if known is None:
        return Verdict()
    if not known.runs:
        confirms = known.status == "evicted" and known.leaves_by is not None
        return Verdict((Step(StepKind.CONFIRM, "it is gone from Nova", known.life),) if confirms else ())
    seen_s = (moments.seen_at - known.at).total_seconds()
    enough_s = ABSENT_AFTER_S if server is None else SURELY_AFTER_S
    if seen_s < enough_s:
        return Verdict(again_s=enough_s - seen_s)
    if server is not None and _never_ran(server, known):
        return Verdict((Step(StepKind.ABORT, "Nova accepted it and never ran it", known.life),))
    why = "Nova has no such server" if server is None else f"it is {server.status} in Nova"
    return Verdict((Step(StepKind.STOP, why, known.life),))


def _never_ran(server: Server, known: Known) -> bool:
    """Return True if a server came to nothing in its present life. One that was observed ran."""
    if known.is_observed:
        return False
    return server.launched_at is None or (known.life.number > 1 and server.launched_at < known.at)


def _building(server: Server, known: Known | None, limits: Limits, moments: Moments) -> Verdict:
    """Wait for what Nova builds. What stays without a node for very long comes to nothing."""
    if known is None or not known.runs or server.node is not None:
        return Verdict()
    left_s = limits.build_timeout_s - (moments.now - max(server.updated_at, known.at)).total_seconds()
    if left_s > 0:
        return Verdict(again_s=left_s)
    return Verdict((Step(StepKind.ABORT, "Nova has not built it in time", known.life),))


def _evicted(server: Server, known: Known, limits: Limits, now: datetime) -> Verdict:
    """Give notice until the deadline of an eviction, and end the server then."""
    left_s = 0.0 if known.leaves_by is None else (known.leaves_by - now).total_seconds()
    if known.leaves_by is not None and left_s > 0:
        return Verdict(tuple(marks_of_notice(server, known.leaves_by)), again_s=left_s)
    return _end(server, limits, now)


def _end(server: Server, limits: Limits, now: datetime) -> Verdict:
    why, since_s = "Tenure has evicted it", (now - server.updated_at).total_seconds()
    if server.task in _DELETING:
        if since_s < limits.force_after_s:
            return Verdict(again_s=limits.force_after_s - since_s)
        return Verdict((Step(StepKind.FORCE, f"{why}, and Nova still deletes it"),), limits.force_after_s)
    if limits.ending is Ending.FORCE:
        return Verdict((Step(StepKind.FORCE, why),), limits.force_after_s)
    if limits.ending is Ending.SHELVE:
        if server.task is not None and server.task.startswith(_SHELVING):
            return Verdict(again_s=_AGAIN_S)
        if server.status == "SHELVED":
            return Verdict((Step(StepKind.OFFLOAD, why),), _AGAIN_S)
        if server.status in _SHELVES_FROM:
            return Verdict((Step(StepKind.SHELVE, why),), _AGAIN_S)
    return Verdict((Step(StepKind.DELETE, why),), limits.force_after_s)


def _unknown(server: Server, known: Known | None, nodes: AbstractSet[str], limits: Limits, now: datetime) -> Verdict:
    """Take in an on-demand server that Tenure does not know to run; end a spot server that nothing was promised to."""
    if server.node not in nodes:
        return Verdict()
    if not server.is_spot:
        if server.demand is None:
            return Verdict()
        life = Life(server.id, 1) if known is None else known.life.next
        return Verdict((Step(StepKind.OBSERVE, "it runs, and Tenure does not know", life),))
    if limits.unpromised is Unpromised.KEEP:
        return Verdict()
    left_s = limits.unpromised_after_s - (now - (server.launched_at or server.created_at)).total_seconds()
    if left_s > 0:
        return Verdict(again_s=left_s)
    if server.task in _DELETING:
        return Verdict()
    return Verdict((Step(StepKind.DELETE, "nothing is promised to this spot server"),))


def _running(server: Server, known: Known, nodes: AbstractSet[str]) -> Verdict:
    """Follow a running server to another node or size, and let a spot server tell its promise."""
    is_resized = server.demand is not None and server.demand != known.demand
    if server.is_spot != known.is_spot or (server.is_spot and is_resized):
        return Verdict((Step(StepKind.STOP, "it has another flavor, which nothing was promised for", known.life),), 1.0)
    if server.node not in nodes:
        left = Step(StepKind.STOP, f"it runs on {server.node}, which is no node of the cloud", known.life)
        return Verdict() if server.is_spot else Verdict((left,))
    if server.is_spot:
        moved = [Step(StepKind.MOVE, f"it runs on {server.node}", known.life)] if server.node != known.node else []
        return Verdict((*moved, *marks_of_promise(server, known)))
    if is_resized or server.node != known.node:
        return Verdict((Step(StepKind.OBSERVE, f"it runs on {server.node}", known.life),))
    return Verdict()
