"""Loading of a cloud's state: the newest snapshot, and the events after it."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

from app.domain.errors import CloudNotFound, LogBroken, LogUnavailable
from app.domain.events import Recorded
from app.engine.cloud import LONGEST_RUN, Cloud
from app.platform.turns import Turns
from app.scheduling.store.conflicts import PredecessorMissing
from app.scheduling.store.log import NO_EVENT, EventMark, LogAccess
from app.scheduling.store.snapshots import Snapshots

logger = logging.getLogger(__name__)

_READ_EVENTS = 2_000


@dataclass(slots=True)
class MarkedState:
    """A cloud's state, and the mark of the last event that was read for it and is in the log."""

    cloud: Cloud = field(default_factory=Cloud)
    mark: EventMark = NO_EVENT
    unfolded: deque[Recorded] = field(default_factory=deque)
    """Events up to the mark that were read but not folded: who wanted them no longer waits."""


async def load_state(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> MarkedState:
    """Return the state at the log's end. Raise CloudNotFound without a log, LogBroken if events are missing in it.

    Raises LogUnavailable if the log is put back while it is read.
    """
    try:
        return await _loaded(cloud_id, log, snapshots)
    except PredecessorMissing as error:
        raise LogUnavailable("the log was put back while it was read") from error


async def _loaded(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> MarkedState:
    state = await _of_snapshot(cloud_id, log, snapshots)
    await catch_up(state, cloud_id, log)
    # A gap wider than one read looks like the end.
    last_seq = await log.last_seq(cloud_id)
    while state.mark.seq < last_seq:
        seq = state.mark.seq
        await catch_up(state, cloud_id, log)
        if state.mark.seq == seq:
            raise LogBroken.between(cloud_id, seq, last_seq)
    if state.mark == NO_EVENT:
        raise CloudNotFound("the cloud is no longer there")
    return state


async def _of_snapshot(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> MarkedState:
    """Return the state of the newest snapshot, or an empty one. A snapshot of events that the log lacks is removed.

    It keeps only the time of its last event. Those beyond the place where a log is cut off go with the events.
    """
    cloud = await snapshots.load(cloud_id)
    if cloud is None:
        return MarkedState()
    mark, last = await log.mark_at(cloud_id, cloud.seq), await log.at(cloud_id, [cloud.seq])
    if cloud.seq in last and last[cloud.seq].event.at_us == cloud.at_us:
        return MarkedState(cloud, mark)
    logger.warning("the snapshot is of another log and is removed", extra={"cloud_id": cloud_id, "seq": cloud.seq})
    await snapshots.forget(cloud_id)
    return MarkedState()


async def catch_up(state: MarkedState, cloud_id: int, log: LogAccess) -> None:
    """Fold the log's events beyond the state. Raise PredecessorMissing if the log lacks the state's last event.

    Raises LogBroken if events are missing after that. Nothing else may change the state meanwhile.
    """
    while True:
        await _fold(state)
        tail, mark = await log.after(cloud_id, state.mark, _READ_EVENTS)
        state.unfolded, state.mark = deque(tail), mark
        if len(tail) < _READ_EVENTS and not tail.is_cut:
            return await _fold(state)


async def _fold(state: MarkedState) -> None:
    """Fold what was read, letting other tasks run in between. A state that events do not fit is dropped."""
    with Turns() as turns:
        while state.unfolded:
            some = [state.unfolded.popleft() for _ in range(min(LONGEST_RUN, len(state.unfolded)))]
            try:
                state.cloud.apply_recorded(some)
            except Exception:
                state.cloud, state.mark, state.unfolded = Cloud(), NO_EVENT, deque()
                raise
            if turns.is_due():
                await turns.give()
