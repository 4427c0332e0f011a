"""Explains decisions from the log: looks up events by seq, instance and flavor, and reads bounded pages.

A longer log costs no more. The indexes in `platform/database/schema.py` see to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from app.admission.acceptable import acceptable_instead
from app.domain.errors import Unavailable
from app.domain.events import (
    Event,
    ExtensionDecision,
    ExtensionRejected,
    InstanceEvicted,
    InstanceExtended,
    InstanceMoved,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeRemoved,
    NodeResized,
    Recorded,
    RoomHeld,
    StartDecision,
    registry,
)
from app.domain.paging import Page
from app.domain.risks import whole_windows
from app.domain.times import from_datetime
from app.domain.values import Clock, DecisionOutcome, Forecast, Market, Resources
from app.explaining.rules.explanations import (
    Decided,
    EvictionExplained,
    Explanation,
    Grace,
    Ground,
    PromiseStatus,
    Victim,
    grace_in,
    promise_of,
)
from app.explaining.rules.hiding import without_others
from app.explaining.rules.sentences import explain_in_words, tell
from app.forecast.calibrated import window_count
from app.forecast.level import stratum_index
from app.forecasts.evidence import evidence_at
from app.forecasts.table_reads import TableReads
from app.judging.attainment import Attainment
from app.scheduling.log_reads import LogReads
from app.scheduling.rules.extensions import in_words
from app.scheduling.rules.instances import Instance, decision_in, end_in, extended, moved
from app.scheduling.scheduler import Scheduler
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.extensions import decisions_on, newest_extensions
from app.scheduling.store.log import EventLog
from app.scheduling.store.moves import moves_of, newest_moves

_KINDS = {DecisionOutcome(kind.outcome): kind for kind in registry.KINDS.values() if kind.outcome is not None}
_INDEXED = {DecisionOutcome.REJECTED, DecisionOutcome.EVICTED}
_LOOKED_AT = 10_000
"""Events that a page looks back at most where the log has no index of what is asked for."""
_READ_AT_ONCE = 500
_VICTIMS_TOLD = 100
_NOTICES_TOLD = 20
_EXTENSIONS_TOLD = 20
_MOVES_TOLD = 20
_LATER = (InstanceStopped, InstanceEvicted, InstanceExtended, ExtensionRejected)
_OUTCOMES = {kind.form: outcome for outcome, kind in _KINDS.items()}


class Explaining:
    """Explains decisions by cloud name. Raises CloudNotFound for an unknown cloud and LogUnavailable.

    `now` is the server's clock.
    """

    def __init__(
        self, clouds: Clouds, log: EventLog, tables: TableReads, scheduler: Scheduler, now: Callable[[], datetime]
    ) -> None:
        self._scheduler = scheduler
        self._clouds = clouds
        self._log = log
        self._tables = tables
        self._reads = LogReads(clouds, log)
        self._now = now

    # --- one instance ------------------------------------------------------------------------------------------------

    async def explanation(self, cloud: str, instance_id: str, project: str | None = None) -> Explanation:
        """Return why an instance was accepted or rejected, and how it ended; the log's length adds no cost.

        With a project, InstanceNotFound if it is for another one; and no instance of another one is named.
        """
        instance = await self._reads.instance(cloud, instance_id, project)
        cloud_id, decision = await self._clouds.id_of(cloud), instance.decision
        policy = await self._log.policy_at(cloud_id, instance.seq)
        last_seq = await self._log.last_seq(cloud_id)
        edges = await self._log.at(cloud_id, [1, max(instance.seq - 1, 1), last_seq])
        notices = await self._log.notices(cloud_id, decision.instance_id, _NOTICES_TOLD)
        grace = grace_in(notices)
        last_us = edges[last_seq].event.at_us
        as_of_us = last_us if policy.clock is Clock.EXTERNAL else max(last_us, from_datetime(self._now()))
        found = Explanation(
            instance=instance,
            required=(await self._log.flavors(cloud_id, [decision.flavor]))[decision.flavor],
            policy=policy,
            created_us=edges[1].event.at_us,
            as_of_us=as_of_us,
            ground=await self._ground(cloud_id, decision, policy.forecast),
            promise=_promise_of(instance, as_of_us),
            acceptable=acceptable_instead(decision),
            eviction=await self._eviction(cloud_id, instance.end, decision.instance_id, grace),
            notices=tuple(notices),
            extensions=tuple(await decisions_on(self._log, cloud_id, instance_id, _EXTENSIONS_TOLD)),
            grace=grace,
            moves=tuple(await moves_of(self._log, cloud_id, instance_id, _MOVES_TOLD)),
            room=_room_of(instance_id, edges[max(instance.seq - 1, 1)].event),
        )
        if found.promise is PromiseStatus.BROKEN:
            found = replace(found, standing=await self._standing(cloud, decision))
        found = found if project is None else without_others(found, project)
        return replace(found, sentences=tuple(explain_in_words(found)))

    async def _standing(self, cloud: str, decision: StartDecision) -> Attainment | None:
        """Return the present standing of all instances with the promise of this one; None if it cannot be read."""
        try:
            classes = (await self._scheduler.attainments(cloud)).classes
        except Unavailable:  # the explanation needs neither the whole log nor its newest table
            return None
        promised = None if decision.basis is None else decision.basis.probability
        return next((one for one in classes if one.promised == promised), None)

    async def _ground(
        self, cloud_id: int, decision: InstanceStarted | InstanceRejected, forecast: Forecast
    ) -> Ground | None:
        basis, lifetime_us = decision.basis, decision.lifetime_us
        if basis is None or basis.epoch is None or lifetime_us is None:
            return None
        found = await self._tables.of_epoch(cloud_id, basis.epoch)
        if found is None:
            return None
        summary, table = found
        if table is not None and table.rises is not None and forecast is Forecast.CALIBRATED:
            windows = whole_windows(window_count(table.rises.seen_us, lifetime_us))
            starts, effects = table.rises.starts, table.rises.effects
            return Ground(
                summary.epoch_us, (), windows, int(starts[:, 0].sum()), int(effects[stratum_index(lifetime_us)])
            )
        evidence = [] if table is None else evidence_at(table, decision.flavor, basis.slots)
        if table is None or not evidence:
            return Ground(summary.epoch_us, (), 0)
        windows = table.curve(decision.flavor).window_count(basis.slots, lifetime_us)
        return Ground(summary.epoch_us, tuple(evidence), windows)

    async def _eviction(
        self, cloud_id: int, end: object, instance_id: str, grace: Grace | None
    ) -> EvictionExplained | None:
        if not isinstance(end, InstanceEvicted):
            return None
        cause = (await self._log.at(cloud_id, [end.cause_seq]))[end.cause_seq].event
        policy = await self._log.policy_at(cloud_id, end.cause_seq)
        start = cause if isinstance(cause, InstanceStarted) else None
        ids = list(start.victims) if start else [instance_id]
        told = ids[:_VICTIMS_TOLD] if instance_id in ids[:_VICTIMS_TOLD] else [*ids[: _VICTIMS_TOLD - 1], instance_id]
        deadline_us = grace.deadline_us if grace else None  # one decision evicts all of them, so all share one deadline
        victims, sizes = await self._victims(cloud_id, told, end.at_us, deadline_us, start)
        complete = start is not None and len(told) == len(ids)
        return EvictionExplained(
            at_us=end.at_us,
            reason=end.reason,
            cause_seq=end.cause_seq,
            start=start,
            removal=cause if isinstance(cause, NodeRemoved | NodeResized | InstanceMoved) else None,
            required=sizes[start.flavor] if start else None,
            policy=policy.eviction_policy,
            victims=victims,
            victim_count=len(ids),
            rank=ids.index(instance_id) + 1 if start else None,
            freed=_freed(victims, start.node) if start and complete else None,
        )

    async def _victims(
        self, cloud_id: int, ids: Sequence[str], at_us: int, deadline_us: int | None, start: InstanceStarted | None
    ) -> tuple[tuple[Victim, ...], dict[str, Resources]]:
        """Return the instances of these ids in their order, and the resources of their flavors and the start's."""
        starts = await self._log.starts(cloud_id, ids)
        longer = await newest_extensions(self._log, cloud_id, ids)
        there = await newest_moves(self._log, cloud_id, ids)
        decisions = [moved(extended(decision_in(starts[name]), longer.get(name)), there.get(name)) for name in ids]
        ends = await self._log.ends(cloud_id, ids)
        sizes = await self._log.flavors(
            cloud_id, sorted({d.flavor for d in decisions} | ({start.flavor} if start else set()))
        )
        victims = tuple(
            Victim(
                decision.instance_id,
                decision.flavor,
                sizes[decision.flavor],
                decision.node,
                decision.at_us,
                at_us - decision.at_us,
                decision.lifetime_us,
                deadline_us,
                promise_of(decision, end_in(ends.get(decision.instance_id)), at_us),
                decision.nodes,
                decision.goes_first,
            )
            for decision in decisions
            if isinstance(decision, InstanceStarted)
        )
        return victims, sizes

    # --- many decisions ----------------------------------------------------------------------------------------------

    async def decisions(
        self,
        cloud: str,
        before_seq: int | None,
        limit: int,
        outcome: DecisionOutcome | None = None,
        market: Market | None = None,
    ) -> Page[Decided]:
        """Return a page of decisions before a seq (None: up to now), newest first, with reasons.

        With a filter by outcome or market the page may be shorter than asked for. Its marker, the next `before_seq`,
        says how far the search went.
        """
        found, more = await self._newest(await self._clouds.id_of(cloud), before_seq, limit, outcome, market)
        return Page(found, None if more is None else str(more))

    async def _newest(
        self, cloud_id: int, before_seq: int | None, limit: int, outcome: DecisionOutcome | None, market: Market | None
    ) -> tuple[list[Decided], int | None]:
        """Return the newest decisions before a seq, and the seq to go on before (None if there are no more)."""
        kinds = tuple(kind.name for one, kind in _KINDS.items() if outcome in (None, one))
        before = await self._log.last_seq(cloud_id) + 1 if before_seq is None else before_seq
        lowest = 0 if outcome in _INDEXED and market is None else max(0, before - _LOOKED_AT)
        found: list[Decided] = []
        while True:
            at_once = limit + 1 if market is None else max(limit + 1, _READ_AT_ONCE)
            page = await self._log.newest(cloud_id, kinds, before, lowest, at_once, market)
            found += [one for one in await self._decided(cloud_id, page) if market in (None, one.market)]
            if len(found) > limit:
                return found[:limit], found[limit - 1].seq
            if page.is_cut:
                return found, page[-1].seq
            if len(page) < at_once:
                return found, lowest if lowest > 1 else None
            before = page[-1].seq

    async def _decided(self, cloud_id: int, page: Sequence[Recorded]) -> list[Decided]:
        """Turn events into decisions; each tells what its instance's start and its cause say."""
        later = [item.event for item in page if isinstance(item.event, _LATER)]
        names = [event.instance_id for event in later]
        starts = await self._log.starts(cloud_id, names) if names else {}
        longer = await newest_extensions(self._log, cloud_id, names) if names else {}
        there = await newest_moves(self._log, cloud_id, names) if names else {}
        decisions = {
            name: moved(extended(decision_in(item), longer.get(name)), there.get(name)) for name, item in starts.items()
        }
        causes = await self._log.at(
            cloud_id, sorted({event.cause_seq for event in later if isinstance(event, InstanceEvicted)}), whole=False
        )
        decided = [_decided(item, decisions, causes) for item in page]
        return [replace(one, sentence=tell(one)) for one in decided]


def _decided(
    recorded: Recorded,
    starts: Mapping[str, StartDecision],
    causes: Mapping[int, Recorded],
) -> Decided:
    """Return the decision that an event is. `starts` are for the last lifetime and the last node."""
    event = recorded.event
    if isinstance(event, InstanceExtended | ExtensionRejected):
        return _decided_extension(recorded.seq, event, starts[event.instance_id])
    assert isinstance(event, InstanceStarted | InstanceRejected | InstanceStopped | InstanceEvicted)
    is_end = isinstance(event, InstanceStopped | InstanceEvicted)
    start = starts[event.instance_id] if is_end else decision_in(recorded)
    cause_seq = event.cause_seq if isinstance(event, InstanceEvicted) else None
    cause = causes[cause_seq].event if cause_seq is not None and cause_seq in causes else None
    promise = PromiseStatus.NONE
    if isinstance(start, InstanceStarted):
        promise = promise_of(start, end_in(recorded) if is_end else None, event.at_us)
    return Decided(
        seq=recorded.seq,
        at_us=event.at_us,
        outcome=_OUTCOMES[type(event)],
        instance_id=event.instance_id,
        market=start.market,
        flavor=start.flavor,
        node=start.node if isinstance(start, InstanceStarted) else None,
        reason=event.reason if isinstance(event, InstanceRejected | InstanceEvicted) else None,
        lifetime_us=start.lifetime_us,
        basis=start.basis,
        victims=event.victims if isinstance(event, InstanceStarted) else (),
        deadline_us=event.deadline_us if isinstance(event, InstanceStarted) else None,
        ready_us=event.ready_us if isinstance(event, InstanceStarted) else None,
        ran_us=event.at_us - start.at_us if is_end else None,
        cause_seq=cause_seq,
        cause_id=cause.instance_id if isinstance(cause, InstanceStarted | InstanceMoved) else None,
        promise=promise,
        nodes=start.nodes if isinstance(start, InstanceStarted) else (),
        removed=cause.node if isinstance(cause, NodeRemoved | NodeResized) else None,
        names_nodes=bool(start.allowed),
        wanted=start.wanted,
    )


def _decided_extension(seq: int, event: ExtensionDecision, start: StartDecision) -> Decided:
    is_promised = event.basis.probability is not None
    return Decided(
        seq=seq,
        at_us=event.at_us,
        outcome=_OUTCOMES[type(event)],
        instance_id=event.instance_id,
        market=start.market,
        flavor=start.flavor,
        node=start.node if isinstance(start, InstanceStarted) else None,
        reason=event.reason if isinstance(event, ExtensionRejected) else None,
        lifetime_us=event.lifetime_us,
        basis=event.basis,
        victims=(),
        deadline_us=None,
        ready_us=None,
        ran_us=event.at_us - start.at_us,
        cause_seq=None,
        cause_id=None,
        promise=PromiseStatus.OPEN if is_promised else PromiseStatus.NONE,
        sentence=in_words(event),
        nodes=start.nodes if isinstance(start, InstanceStarted) else (),
    )


def _promise_of(instance: Instance, as_of_us: int) -> PromiseStatus:
    start = instance.as_extended
    return promise_of(start, instance.end, as_of_us) if isinstance(start, InstanceStarted) else PromiseStatus.NONE


def _room_of(instance_id: str, before: Event) -> RoomHeld | None:
    """Return the room that an instance stands for, if the event before its start holds it."""
    return before if isinstance(before, RoomHeld) and before.instance_id == instance_id else None


def _freed(victims: Sequence[Victim], node: str) -> Resources:
    return _total([victim.resources for victim in victims for place in victim.places if place == node])


def _total(resources: Sequence[Resources]) -> Resources:
    return Resources(*(sum(sizes) for sizes in zip(*resources, strict=True))) if resources else Resources(0)
