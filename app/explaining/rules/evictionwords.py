"""Sentences about an eviction: for whom, and why this instance and not another one."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.events import InstanceStarted
from app.domain.times import at_least_text, time_text
from app.domain.values import EvictionPolicy, EvictionReason
from app.explaining.rules.explanations import EvictionExplained, Victim
from app.explaining.rules.groupwords import on_each_text, places_text, resources_text, spot_instances_text
from app.explaining.rules.noticewords import because_of_node
from app.explaining.rules.quotawords import made_room_for

_NAMED = 5
"""Victims named in a sentence; the fields hold more."""
_OVERRAN = "had overrun its declared lifetime, and such instances go before all others"
_KINDS = (
    ((True, False), "held room"),
    ((False, True), "those that had overrun their lifetimes"),
    ((False, False), "the youngest"),
)
"""Those that are evicted before others, by whether they go first and whether they overrun."""


def eviction_in_words(eviction: EvictionExplained, decision: InstanceStarted) -> Iterator[str]:
    """Say when and for what an instance was evicted, and why it was this one."""
    at = time_text(eviction.at_us)
    if eviction.reason is EvictionReason.DRILL:
        yield f"Evicted at {at} in a drill: on purpose, to try out what an eviction does (event {eviction.cause_seq})."
        return
    if eviction.start is None:
        yield f"Evicted at {at}, because {because_of_node(eviction, decision)} (event {eviction.cause_seq})."
        return
    needed = "room" if eviction.required is None else resources_text(eviction.required)
    if eviction.start.observed:
        who = f"the on-demand instance {eviction.start.instance_id} was observed on {eviction.start.node}"
        yield f"Evicted at {at}, because {who}, and the youngest go first (event {eviction.cause_seq})."
        return
    yield (
        f"Evicted at {at} to make room on {eviction.start.node} for {made_room_for(eviction.start, eviction.reason)} "
        f"which needed {needed} on one node (flavor {eviction.start.flavor}); no open node had that free."
    )
    yield from _choice(eviction, decision)


def _choice(eviction: EvictionExplained, decision: InstanceStarted) -> Iterator[str]:
    """Say why this instance was evicted and not another one."""
    assert eviction.start is not None
    victim = next(victim for victim in eviction.victims if victim.instance_id == decision.instance_id)
    if eviction.policy is EvictionPolicy.YJF_GLOBAL and eviction.reason is not EvictionReason.SPOT_START:
        yield (
            f"The rule in force evicts spot instances of the whole cloud, {_order(eviction)}, until a node has room; "
            f"this was number {eviction.rank} of {eviction.victim_count}.{_others(eviction)}"
        )
        if eviction.start.node not in decision.places:
            yield f"It ran on {places_text(decision.places)}, so its going did not help {eviction.start.node}."
    elif eviction.victim_count == 1:
        yield _alone(victim)
    else:
        yield (
            f"{spot_instances_text(eviction.victim_count)} had to go, {_order(eviction)}: had any of them been "
            f"spared, the start would not have fitted.{_others(eviction)}"
        )
    if decision.count > 1:
        yield f"It is a group on {on_each_text(decision.places)}, which is evicted as a whole."
    if victim.goes_first:
        yield "It was held room, to which nothing was promised, and such room goes before all others."
    if victim.is_overrunning and not _is_told_alone(eviction):
        yield f"It {_OVERRAN}."


def _is_told_alone(eviction: EvictionExplained) -> bool:
    is_global = eviction.policy is EvictionPolicy.YJF_GLOBAL and eviction.reason is not EvictionReason.SPOT_START
    return eviction.victim_count == 1 and not is_global


def _alone(victim: Victim) -> str:
    if victim.goes_first:
        return "It alone had to go."
    if victim.is_overrunning:
        return f"It alone had to go: it {_OVERRAN}."
    return "It alone had to go: of all that would have made room, it was the one started last."


def _order(eviction: EvictionExplained) -> str:
    """Name the order of the victims. Their ages alone do not give it if some of them go before all others."""
    kinds = {(victim.goes_first, victim.is_overrunning) for victim in eviction.victims}
    first, *others = [name for kind, name in _KINDS if kind in kinds]
    return f"{first} first, then {', then '.join(others)}" if others else "youngest first"


def _others(eviction: EvictionExplained) -> str:
    return "" if eviction.victim_count == 1 else f" The victims, in this order: {_victims(eviction)}."


def _victims(eviction: EvictionExplained) -> str:
    told = [f"{v.instance_id} ({resources_text(v.resources)}, {_age(v)})" for v in eviction.victims[:_NAMED]]
    more = eviction.victim_count - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _age(victim: Victim) -> str:
    of = "" if victim.lifetime_us is None else f" of {at_least_text(victim.lifetime_us)}"
    return f"{at_least_text(victim.age_us)}{of}"
