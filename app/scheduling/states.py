"""Loading of a cloud's state: the newest snapshot, and the events after it."""

from __future__ import annotations

import asyncio
import logging

from app.domain.errors import CloudNotFound, LogBroken
from app.scheduling.store.log import NO_EVENT, LogAccess, PredecessorMissing
from app.scheduling.store.snapshots import MarkedState, Snapshots

logger = logging.getLogger(__name__)

_READ_EVENTS = 10_000


async def load_state(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> MarkedState:
    """Return the state at the log's end. Raise CloudNotFound without a log, LogBroken if events are missing in it."""
    state = await snapshots.load(cloud_id) or MarkedState()
    try:
        await catch_up(state, cloud_id, log)
    except PredecessorMissing:
        logger.warning(
            "the snapshot is of another log and is removed", extra={"cloud_id": cloud_id, "seq": state.mark.seq}
        )
        await snapshots.forget(cloud_id)
        state = MarkedState()
        await catch_up(state, cloud_id, log)
    # A gap wider than one read looks like the end.
    last_seq = await log.last_seq(cloud_id)
    while state.mark.seq < last_seq:
        seq = state.mark.seq
        await catch_up(state, cloud_id, log)
        if state.mark.seq == seq:
            raise _gap(cloud_id, seq, last_seq)
    if state.mark == NO_EVENT:
        raise CloudNotFound("the cloud is no longer there")
    return state


async def catch_up(state: MarkedState, cloud_id: int, log: LogAccess) -> None:
    """Fold the log's events beyond the state. Raise PredecessorMissing if the log lacks the state's last event.

    Raises LogBroken if events are missing after that. Nothing else may change the state meanwhile.
    """
    while True:
        tail, mark = await log.after(cloud_id, state.mark, _READ_EVENTS)
        if tail and mark.seq != state.mark.seq + len(tail):
            after = next(before for before, item in enumerate(tail, state.mark.seq) if item.seq != before + 1)
            raise _gap(cloud_id, after, tail[after - state.mark.seq].seq)
        state.cloud.apply_recorded(tail)
        state.mark = mark
        if len(tail) < _READ_EVENTS:
            return
        await asyncio.sleep(0)


def _gap(cloud_id: int, seq: int, later: int) -> LogBroken:
    return LogBroken(
        f"events {seq + 1} to {later - 1} are missing in the log of cloud number {cloud_id}: put a backup back, or cut "
        "the log off before the gap (docs/operations.md, When a log has a gap)"
    )
