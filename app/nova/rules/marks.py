"""Words that the daemon writes to a spot server, for its user and for what runs in it: metadata and a tag."""

from __future__ import annotations

from datetime import UTC, datetime

from app.nova.rules.seen import KnownLife, Server, ServerStep, StepKind

DEADLINE = "tenure:deadline"
PROBABILITY = "tenure:probability"
EPOCH = "tenure:epoch"
EVICT_AT = "tenure:evict_at"
UNPROMISED = "tenure:unpromised_until"
EVICTING = "tenure-evicting"
_PROMISE = (DEADLINE, PROBABILITY, EPOCH)
_MAY_BE_MARKED = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
"""In other states Nova refuses to change a server's metadata."""


def marks_of_promise(server: Server, known: KnownLife) -> list[ServerStep]:
    """Return the steps after which a running spot server tells its promise, and neither another one nor a notice."""
    if server.status not in _MAY_BE_MARKED:
        return []
    told = _promise(known)
    steps = _missing(server, told, "its promise is to be seen")
    if false := {
        name: "" for name in (*_PROMISE, EVICT_AT, UNPROMISED) if name in server.metadata and name not in told
    }:
        steps.append(ServerStep(StepKind.UNMARK, "it is not so, or not any more", marks=false))
    if EVICTING in server.tags:
        steps.append(ServerStep(StepKind.UNTAG, "it is not evicted, or not any more"))
    return steps


def marks_of_none(server: Server, until: datetime) -> list[ServerStep]:
    """Return the steps after which a spot server without a promise tells that, and when it is deleted for it."""
    if server.status not in _MAY_BE_MARKED:
        return []
    steps = _missing(server, {UNPROMISED: moment_text(until)}, "nothing is promised to it")
    if false := {name: "" for name in _PROMISE if name in server.metadata}:
        steps.append(ServerStep(StepKind.UNMARK, "nothing is promised to it", marks=false))
    return steps


def marks_of_notice(server: Server, known: KnownLife, leaves_by: datetime) -> list[ServerStep]:
    """Return the steps after which a server that is to be evicted tells until when it may go on."""
    if server.status not in _MAY_BE_MARKED:
        return []
    steps = _missing(server, _promise(known) | {EVICT_AT: moment_text(leaves_by)}, "it is to be evicted")
    if EVICTING not in server.tags:
        steps.append(ServerStep(StepKind.TAG, "it is to be evicted"))
    return steps


def marks_of_end(server: Server, known: KnownLife) -> list[ServerStep]:
    """Return the step after which a server that is about to be ended tells when it had to go, and from what promise.

    What Nova keeps of a deleted server then says whether that came within the lifetime. All is written, also what seems
    to be there: the owner may have changed it since Nova was asked.
    """
    if server.status not in _MAY_BE_MARKED or known.ended_at is None:
        return []
    at = moment_text(known.leaves_by or known.ended_at)
    return [ServerStep(StepKind.MARK, "Tenure has evicted it", marks=_promise(known) | {EVICT_AT: at})]


def moment_text(at: datetime) -> str:
    """Return a time as metadata have it: in UTC, with microseconds where there are any."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _promise(known: KnownLife) -> dict[str, str]:
    told = {
        DEADLINE: None if known.deadline is None else moment_text(known.deadline),
        PROBABILITY: None if known.probability is None else f"{known.probability:g}",
        EPOCH: None if known.epoch is None else str(known.epoch),
    }
    return {name: text for name, text in told.items() if text is not None}


def _missing(server: Server, wanted: dict[str, str], why: str) -> list[ServerStep]:
    lacks = {name: text for name, text in wanted.items() if server.metadata.get(name) != text}
    return [ServerStep(StepKind.MARK, why, marks=lacks)] if lacks else []
