"""Sentences for people about grace periods and notices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.domain.events import (
    EvictionRisk,
    ExtensionRejected,
    InstanceExtended,
    InstanceMoved,
    InstanceStarted,
    NodeRemoved,
    NodeResized,
    PromiseEnding,
)
from app.domain.numbers import share_text
from app.domain.risks import risk_in_words
from app.domain.times import length_text, time_text
from app.domain.values import ProposedMove, RiskLevel
from app.explaining.rules.explanations import Decided, EvictionExplained, Explanation, Grace
from app.explaining.rules.wantwords import ending_in_words
from app.scheduling.rules.extensions import in_words

_RISKS_TOLD = 4
"""Notices of risk that become sentences, the newest; the fields hold more."""
_MOVES_NAMED = 5
"""Moves that are named in a sentence; the fields hold all."""


def course_in_words(explanation: Explanation, decision: InstanceStarted) -> Iterator[str]:
    """Tell how an accepted instance went on, in the order of time: extensions, moves, risks, and promises that end."""
    risks = [item for item in explanation.notices if isinstance(item.event, EvictionRisk)][-_RISKS_TOLD:]
    endings = [item for item in explanation.notices if isinstance(item.event, PromiseEnding)]
    is_promised = decision.basis is not None and decision.basis.probability is not None
    stayed = "; its promise stayed" if is_promised else ""
    told = [*explanation.extensions, *explanation.moves, *risks, *endings]
    for event in [item.event for item in sorted(told, key=lambda item: item.seq)]:
        match event:
            case InstanceExtended() | ExtensionRejected():
                yield f"At {time_text(event.at_us)}: {in_words(event)}"
            case InstanceMoved():
                at = time_text(event.at_us)
                yield f"At {at} a controller moved it from {event.former_node} to {event.node}{stayed}."
            case EvictionRisk():
                yield from _risk_in_words(event)
            case PromiseEnding():
                yield ending_in_words(event)


def moves_text(moves: Sequence[ProposedMove]) -> str:
    """Return what a controller may do in place of an eviction, without the subject."""
    steps = [f"{one.instance_id} could be moved from {one.node} to {one.to}" for one in moves[:_MOVES_NAMED]]
    more = len(moves) - len(steps)
    return ", then ".join(steps) + (f", then {more} more" if more else "")


def room_in_words(start: InstanceStarted) -> Iterator[str]:
    """Say until when a start's victims may run and from when its room is free; empty if it is free at once."""
    if start.deadline_us is not None:
        who = "it" if len(start.victims) == 1 else "they"
        yield f"Under the grace period {who} may go on running until {time_text(start.deadline_us)}."
        yield f"The room is free {_from(start.ready_us)}."
    elif start.ready_us is not None:
        yield (
            f"The room is free {_from(start.ready_us)}: until then there may be instances on the node that were "
            "evicted before."
        )


def room_in_brief(decided: Decided) -> str:
    """Return `room_in_words` as the end of a sentence."""
    until = "" if decided.deadline_us is None else f", which may run until {time_text(decided.deadline_us)}"
    if decided.deadline_us is None and decided.ready_us is None:
        return ""
    free = "from then on" if until and decided.ready_us == decided.deadline_us else _from(decided.ready_us)
    return f"{until}; its room is free {free}"


def grace_in_words(grace: Grace, as_of_us: int) -> str:
    """Say until when an evicted instance may run, and whether a controller has confirmed that it is stopped."""
    until = time_text(grace.deadline_us)
    if grace.confirmed_us is not None and grace.confirmed_us <= grace.deadline_us:
        at = time_text(grace.confirmed_us)
        return f"Under the grace period it could go on running until {until}; a controller confirmed its stop at {at}."
    if grace.confirmed_us is not None:
        late = length_text(grace.confirmed_us - grace.deadline_us)
        return (
            f"Under the grace period it had to stop by {until}; a controller confirmed its stop at "
            f"{time_text(grace.confirmed_us)}, {late} late."
        )
    if grace.is_overdue(as_of_us):
        return (
            f"Under the grace period it had to stop by {until}. That is overdue: no controller has confirmed its stop, "
            "so it may still be running."
        )
    return f"Under the grace period it may go on running until {until}; no controller has confirmed its stop so far."


def _risk_in_words(risk: EvictionRisk) -> Iterator[str]:
    """Say when the instance's risk passed the threshold, or when it fell back."""
    side = "above" if risk.level is RiskLevel.RAISED else "no longer above"
    yield (
        f"At {time_text(risk.at_us)} the risk that it is evicted in the rest of its declared lifetime was "
        f"{risk_in_words(risk.probability, risk.probability_bound, risk.windows)}, "
        f"{side} the policy's {share_text(risk.threshold)}."
    )
    if risk.moves:
        yield f"To spare it, {moves_text(risk.moves)}."


def _from(ready_us: int | None) -> str:
    return "at once" if ready_us is None else f"from {time_text(ready_us)} on"


def because_of_node(eviction: EvictionExplained, decision: InstanceStarted) -> str:
    """Say what happened to the node of an instance that no start evicted."""
    what = "its node" if decision.count == 1 else "one of its nodes,"
    match eviction.removal:
        case NodeRemoved(node=node):
            return f"{what} {node} was removed"
        case NodeResized(node=node):
            return f"{what} {node} has less capacity since, and the youngest go first"
        case InstanceMoved(node=node, instance_id=name):
            return f"the on-demand instance {name} was observed on {node}, and the youngest go first"
        case _:
            return eviction.reason.value
