"""Answers about decisions: one instance explained, and the newest decisions of a cloud."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.events import ExtensionRejected, InstanceExtended, RoomHeld
from app.domain.events.wire import to_wire
from app.domain.times import seconds, to_datetime
from app.domain.values import DecisionOutcome, Market
from app.explaining.rules.explanations import (
    Decided,
    EvictionExplained,
    Explanation,
    PromiseStatus,
    Victim,
)
from app.forecasts.wire.forecasts import evidence_answers
from app.platform.http.fields import Query, optional_seconds
from app.platform.http.page_forms import Limit
from app.scheduling.wire.instances import (
    acceptable_answer,
    extension_answer,
    instance_answer,
    quote_answer,
    ready_at,
    victim_answers,
)
from app.scheduling.wire.nodes import resources_answer
from tenure_client.forms.answer import answer_of
from tenure_client.forms.decisions import (
    DecisionAnswer,
    EvictionAnswer,
    ExplanationAnswer,
    HeldRoomAnswer,
    PromiseAnswer,
    VictimDetailAnswer,
)
from tenure_client.forms.peers import LinkRateAnswer


class DecisionsQuery(Query):
    before_seq: Annotated[int, Field(ge=1, lt=1 << 63)] | None = Field(
        None,
        description="Only decisions before this seq; by default the newest. The link to the next page contains it.",
    )
    limit: Limit = 100
    outcome: DecisionOutcome | None = None
    market: Market | None = None


def decision_answer(decided: Decided) -> DecisionAnswer:
    """Return the wire form of one decision."""
    is_accepted = decided.outcome is DecisionOutcome.ACCEPTED
    return answer_of(
        DecisionAnswer,
        decided,
        id=decided.instance_id,
        at=to_datetime(decided.at_us),
        lifetime_s=optional_seconds(decided.lifetime_us),
        quote=quote_answer(decided.basis),
        victims=victim_answers(decided.victims, decided.deadline_us),
        ready_at=ready_at(decided.at_us, decided.ready_us) if is_accepted else None,
        ran_s=optional_seconds(decided.ran_us),
    )


def explanation_answer(found: Explanation) -> ExplanationAnswer:
    """Return the wire form of an explanation."""
    return ExplanationAnswer(
        instance=instance_answer(found.instance),
        sentences=list(found.sentences),
        as_of=to_datetime(found.as_of_us),
        required=resources_answer(found.required),
        guarantee=found.policy.guarantee,
        epoch_at=None if found.ground is None else to_datetime(found.ground.epoch_us),
        confidence=found.policy.confidence,
        evidence=[] if found.ground is None else evidence_answers(found.ground.evidence),
        window_count=None if found.ground is None else found.ground.window_count,
        promise=_promise(found),
        acceptable=acceptable_answer(found.instance.decision),
        eviction=None if found.eviction is None else _eviction(found.eviction),
        extensions=[
            extension_answer(item.event, item.seq)
            for item in found.extensions
            if isinstance(item.event, InstanceExtended | ExtensionRejected)
        ],
        notices=[to_wire(notice) for notice in found.notices],
        room=None if found.room is None else _room(found.room),
    )


def _room(room: RoomHeld) -> HeldRoomAnswer:
    link = room.link and answer_of(LinkRateAnswer, room.link, newest_age_s=seconds(room.link.newest_age_us))
    until, stage_s = to_datetime(room.until_us), seconds(room.stage_us)
    return answer_of(HeldRoomAnswer, room, until=until, stage_s=stage_s, link=link)


def _promise(found: Explanation) -> PromiseAnswer:
    decision = found.instance.as_extended
    given = found.promise is not PromiseStatus.NONE and decision.basis is not None
    return PromiseAnswer(
        status=found.promise,
        eviction_probability=decision.basis.probability if given and decision.basis else None,
        until=to_datetime(decision.at_us + decision.lifetime_us)
        if given and decision.lifetime_us is not None
        else None,
    )


def _eviction(eviction: EvictionExplained) -> EvictionAnswer:
    start, removal = eviction.start, eviction.removal
    return answer_of(
        EvictionAnswer,
        eviction,
        at=to_datetime(eviction.at_us),
        cause_id=start.instance_id if start else None,
        flavor=start.flavor if start else None,
        required=resources_answer(eviction.required) if eviction.required else None,
        node=start.node if start else removal.node if removal else None,
        freed=resources_answer(eviction.freed) if eviction.freed else None,
        eviction_policy=eviction.policy,
        victims=[_victim(victim) for victim in eviction.victims],
    )


def _victim(victim: Victim) -> VictimDetailAnswer:
    return answer_of(
        VictimDetailAnswer,
        victim,
        id=victim.instance_id,
        resources=resources_answer(victim.resources),
        started_at=to_datetime(victim.started_us),
        ran_s=seconds(victim.age_us),
        lifetime_s=optional_seconds(victim.lifetime_us),
        overrunning=victim.is_overrunning,
        deadline=None if victim.deadline_us is None else to_datetime(victim.deadline_us),
    )
