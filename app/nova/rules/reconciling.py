"""The table of the daemon: what to do about a server, by Nova's state of it and Tenure's state of its newest life.

It is level-triggered: it knows what both say now and nothing of what was done before. Nova is right about what runs
where, and Tenure's log about what was promised and decided. Every step may be taken twice.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from app.nova.rules.lives import Life
from app.nova.rules.marks import marks_of_end, marks_of_none, marks_of_notice, marks_of_promise
from app.nova.rules.seen import KnownLife, Presence, Server, ServerStep, ServerVerdict, StepKind
from app.nova.rules.sizes import is_size_of

SURELY_AFTER_S = 5.0
"""A view of Nova tells nothing of a start that was decided later, and clocks differ. What is deleted stays so."""
ABSENT_AFTER_S = 30.0
"""A server that Nova does not find may be on its way from its API to its cell for so long."""
_AGAIN_S = 5.0
_BEGINS_S = 5.0
"""A node that is well has begun with a deletion by then. Later ones wait for longer, by a share of what has passed."""
_BEGINS = 0.25
_DOUBTS = 5
"""For so many times `force_after_s` from its deadline on a server's own word counts for when its deletion began."""
_SHELVES_FROM = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
_GONE = frozenset({"DELETED", "SOFT_DELETED"})
_MOVES = frozenset({"RESIZE", "MIGRATING", "REVERT_RESIZE", "REBUILD"})
_DELETING = frozenset({"deleting", "soft-deleting"})
_SHELVING = "shelving"
_OFFLOADED = "SHELVED_OFFLOADED"


class ServerEnding(StrEnum):
    """The way in which an evicted server is ended."""

    DELETE = "delete"
    SHELVE = "shelve"
    FORCE = "force"


class UnpromisedFate(StrEnum):
    """The fate of a spot server that nothing was promised to, as one that an admin put on a host by force."""

    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class NovaChoices:
    """The operator's choices. Times are in seconds."""

    ending: ServerEnding = ServerEnding.DELETE
    unpromised: UnpromisedFate = UnpromisedFate.DELETE
    unpromised_after_s: float = 60.0
    build_timeout_s: float = 1800.0
    force_after_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ViewTimes:
    """The present, and when the server was last surely as it was seen."""

    now: datetime
    seen_at: datetime


def presence_of(server: Server) -> Presence:
    """Return where a server stands, by Nova's state of it."""
    if server.status in _GONE:
        return Presence.GONE
    if server.status == _OFFLOADED:
        return Presence.GONE if server.task is None or server.task in _DELETING else Presence.BUILDS
    if server.status == "ERROR":
        return Presence.GONE if server.node is None else Presence.HOLDS
    if server.status == "BUILD" or server.node is None:
        return Presence.BUILDS
    return Presence.MOVES if server.status in _MOVES else Presence.HOLDS


def is_ending(server: Server | None) -> bool:
    """Return True for a server that is gone, or that somebody is deleting or shelving already."""
    if server is None or presence_of(server) is Presence.GONE:
        return True
    return server.task is not None and (server.task in _DELETING or server.task.startswith(_SHELVING))


def building_s(server: Server, now: datetime) -> float:
    """Return for how many seconds a server has been built without a node, or unshelved; 0 for any other."""
    is_building = presence_of(server) is Presence.BUILDS and server.node is None
    return max((now - _built_since(server)).total_seconds(), 0.0) if is_building else 0.0


def _built_since(server: Server) -> datetime:
    """Return since when a server is being built. Of one that is in no cell yet Nova says each time: updated now."""
    return server.created_at if server.status == "BUILD" else server.updated_at


def decide(
    server: Server | None, known: KnownLife | None, nodes: AbstractSet[str], choices: NovaChoices, moments: ViewTimes
) -> ServerVerdict:
    """Return what to do about a server. `server` is None if Nova has none, `known` if Tenure never heard of it.

    `nodes` are those of the cloud in Tenure.
    """
    presence = Presence.GONE if server is None else presence_of(server)
    if server is None or presence is Presence.GONE:
        return _gone(server, known, choices, moments)
    if known is not None and known.status == "evicted" and server.is_spot:
        return _evicted(server, known, choices, moments.now)
    if presence is Presence.BUILDS:
        return _building(server, known, choices, moments)
    runs = known is not None and known.runs
    if presence is Presence.MOVES and (runs or not server.is_spot):
        return ServerVerdict()
    if known is None or not runs:
        return _unknown(server, known, nodes, choices, moments.now)
    return _running(server, known, nodes)


def _gone(server: Server | None, known: KnownLife | None, choices: NovaChoices, moments: ViewTimes) -> ServerVerdict:
    if known is None:
        return ServerVerdict()
    if not known.runs:
        return ServerVerdict(_confirms(known, "it is gone from Nova"))
    seen_s = (moments.seen_at - known.at).total_seconds()
    enough_s = ABSENT_AFTER_S if server is None else SURELY_AFTER_S
    if seen_s < enough_s and not (server is not None and server.status in _GONE):
        return ServerVerdict(again_s=enough_s - seen_s)
    if server is not None and _never_ran(server, known):
        return ServerVerdict((ServerStep(StepKind.ABORT, "Nova never ran it", known.life),))
    if server is None and _was_never_built(known, choices, moments):
        return ServerVerdict((ServerStep(StepKind.ABORT, "it was deleted before Nova built it", known.life),))
    why = "Nova has no such server" if server is None else f"it is {server.status} in Nova"
    return ServerVerdict((ServerStep(StepKind.STOP, why, known.life),))


def _confirms(known: KnownLife | None, why: str) -> tuple[ServerStep, ...]:
    """Return the step that ends an open eviction, if there is one."""
    is_open = known is not None and known.status == "evicted" and known.leaves_by is not None
    return (ServerStep(StepKind.CONFIRM, why, known.life),) if known is not None and is_open else ()


def _never_ran(server: Server, known: KnownLife) -> bool:
    """Return True if a server came to nothing in its present life. One that was observed ran."""
    if known.is_observed:
        return False
    return server.launched_at is None or (known.life.number > 1 and server.launched_at < known.at)


def _was_never_built(known: KnownLife, choices: NovaChoices, moments: ViewTimes) -> bool:
    """Return True if a server of which Nova has no row, not even a deleted one, came to nothing.

    Nova makes the row when a host is chosen, and keeps it until it is archived: of an old life that may have happened.
    """
    is_young = (moments.seen_at - known.at).total_seconds() < choices.build_timeout_s
    return is_young and known.life.number == 1 and not known.is_observed


def _building(server: Server, known: KnownLife | None, choices: NovaChoices, moments: ViewTimes) -> ServerVerdict:
    """Wait for what Nova builds. What stays without a node for very long comes to nothing."""
    if known is None or not known.runs or server.node is not None:
        return ServerVerdict()
    began_at = known.at if _never_ran(server, known) else max(_built_since(server), known.at)
    left_s = choices.build_timeout_s - (moments.now - began_at).total_seconds()
    if left_s > 0:
        return ServerVerdict(again_s=left_s)
    return ServerVerdict((ServerStep(StepKind.ABORT, "Nova has not built it in time", known.life),))


def _evicted(server: Server, known: KnownLife, choices: NovaChoices, now: datetime) -> ServerVerdict:
    """Give notice until the deadline of an eviction, and end the server then.

    One that has left its host is unshelved: Nova's scheduler is about to ask for a new promise, and is refused or not.
    """
    if server.status == _OFFLOADED:
        return ServerVerdict(_confirms(known, "it has left its host"))
    left_s = 0.0 if known.leaves_by is None else (known.leaves_by - now).total_seconds()
    if known.leaves_by is not None and left_s > 0:
        return ServerVerdict(tuple(marks_of_notice(server, known, known.leaves_by)), again_s=left_s)
    due_at = known.leaves_by or known.ended_at or now
    verdict = _end(server, due_at, choices, now)
    return replace(verdict, steps=(*marks_of_end(server, known), *verdict.steps)) if verdict.steps else verdict


def _end(server: Server, due_at: datetime, choices: NovaChoices, now: datetime) -> ServerVerdict:
    """End a server that had to go at `due_at`."""
    why = "Tenure has evicted it"
    if server.task in _DELETING:
        return _deleting(server, why, due_at, choices, now)
    if choices.ending is ServerEnding.FORCE:
        return ServerVerdict((ServerStep(StepKind.FORCE, why),), _AGAIN_S)
    if choices.ending is ServerEnding.SHELVE:
        is_hung = (now - due_at).total_seconds() >= choices.build_timeout_s
        if server.task is not None and server.task.startswith(_SHELVING) and not is_hung:
            return ServerVerdict(again_s=_AGAIN_S)
        if (kind := _shelving_step(server, due_at, choices, now)) is not None:
            return ServerVerdict((ServerStep(kind, why),), _AGAIN_S)
    return ServerVerdict((ServerStep(StepKind.DELETE, why),), _AGAIN_S)


def _deleting(server: Server, why: str, due_at: datetime, choices: NovaChoices, now: datetime) -> ServerVerdict:
    """Wait for a deletion; force it if it takes too long, or if its node has not begun: Nova may have lost it.

    Nova ignores another one while it takes the first for going on, so that is reset. The owner moves `updated_at`, as
    by a new name, and gains little.
    """
    latest_at = due_at + timedelta(seconds=_DOUBTS * choices.force_after_s)
    since_s = (now - min(server.updated_at, latest_at)).total_seconds()
    begins_s = min(max(_BEGINS * (now - due_at).total_seconds(), _BEGINS_S), choices.force_after_s)
    if since_s >= choices.force_after_s or (server.is_at_deletion is False and since_s >= begins_s):
        lost = f"{why}, and Nova has lost its deletion"
        return ServerVerdict((ServerStep(StepKind.RESET, lost), ServerStep(StepKind.FORCE, lost)), begins_s)
    if server.is_at_deletion is None:
        return ServerVerdict(again_s=max(begins_s - since_s, 0.0), asks=since_s >= begins_s)
    return ServerVerdict(again_s=choices.force_after_s - since_s)


def _shelving_step(server: Server, due_at: datetime, choices: NovaChoices, now: datetime) -> StepKind | None:
    """Return how a server is shelved further; None if it cannot be, or if that has not worked for long enough.

    An owner keeps a server busy with snapshots, or out of order. One that nobody has touched since it had to go, as
    while the daemon was away, is still shelved.
    """
    is_late = (now - due_at).total_seconds() >= choices.force_after_s
    if is_late and server.task is not None:
        return None
    if server.status == "SHELVED":
        return StepKind.OFFLOAD
    is_touched = server.updated_at > due_at
    return StepKind.SHELVE if server.status in _SHELVES_FROM and not (is_late and is_touched) else None


def _unknown(
    server: Server, known: KnownLife | None, nodes: AbstractSet[str], choices: NovaChoices, now: datetime
) -> ServerVerdict:
    """Take in an on-demand server that Tenure does not know to run; end a spot server that nothing was promised to."""
    if server.node not in nodes:
        return ServerVerdict()
    if not server.is_spot:
        if server.demand is None:
            return ServerVerdict()
        life = Life(server.id, 1) if known is None else known.life.next
        observes = ServerStep(StepKind.OBSERVE, "it runs, and Tenure does not know", life)
        return ServerVerdict((*_confirms(known, "it is on-demand now, and is not ended"), observes))
    if choices.unpromised is UnpromisedFate.KEEP:
        return ServerVerdict()
    # When it was launched counts for nothing here: a rebuild by its owner would put off its end each time.
    began_at = server.created_at if known is None or known.ended_at is None else max(server.created_at, known.ended_at)
    due_at = began_at + timedelta(seconds=choices.unpromised_after_s)
    if due_at > now:
        return ServerVerdict(tuple(marks_of_none(server, due_at)), again_s=(due_at - now).total_seconds())
    why = "nothing is promised to this spot server"
    if server.task in _DELETING:
        return _deleting(server, why, max(due_at, server.updated_at), choices, now)
    return ServerVerdict((ServerStep(StepKind.CLEAR, why),), _AGAIN_S)


def _running(server: Server, known: KnownLife, nodes: AbstractSet[str]) -> ServerVerdict:
    """Follow a running server to another node or size, and let a spot server tell its promise."""
    is_resized = server.demand is not None and known.demand is not None and server.demand != known.demand
    is_another = is_resized and not is_size_of(known.flavor, server.plain_flavor)
    if server.is_spot != known.is_spot or (server.is_spot and is_another):
        return ServerVerdict(
            (ServerStep(StepKind.STOP, "it has another flavor, which nothing was promised for", known.life),), 1.0
        )
    if server.node not in nodes:
        left = ServerStep(StepKind.STOP, f"it runs on {server.node}, which is no node of the cloud", known.life)
        return ServerVerdict() if server.is_spot else ServerVerdict((left,))
    if server.is_spot:
        moved = (
            [ServerStep(StepKind.MOVE, f"it runs on {server.node}", known.life)] if server.node != known.node else []
        )
        return ServerVerdict((*moved, *marks_of_promise(server, known)))
    if is_resized or server.node != known.node:
        return ServerVerdict((ServerStep(StepKind.OBSERVE, f"it runs on {server.node}", known.life),))
    return ServerVerdict()
