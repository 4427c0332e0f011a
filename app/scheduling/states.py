"""Loading of a cloud's state: the newest snapshot, and the events after it."""

from __future__ import annotations

import asyncio
import logging

from app.domain.errors import CloudNotFound, LogBroken
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.scheduling.store.log import LogAccess
from app.scheduling.store.snapshots import Snapshots

logger = logging.getLogger(__name__)

_READ_EVENTS = 2_000


class LogRewound(Exception):
    """The log does not contain the state's last event: it was put back, or the number now belongs to another cloud."""


async def load_state(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> Cloud:
    """Return the state at the log's end. Raise CloudNotFound without a log, LogBroken if events are missing in it."""
    cloud = await snapshots.load(cloud_id) or Cloud()
    try:
        await catch_up(cloud, cloud_id, log)
    except LogRewound:
        logger.warning("the snapshot is of another log and is removed", extra={"cloud_id": cloud_id, "seq": cloud.seq})
        await snapshots.forget(cloud_id)
        cloud = Cloud()
        await catch_up(cloud, cloud_id, log)
    # A gap wider than one read looks like the end.
    last_seq = await log.last_seq(cloud_id)
    while cloud.seq < last_seq:
        seq = cloud.seq
        await catch_up(cloud, cloud_id, log)
        if cloud.seq == seq:
            raise _gap(cloud_id, seq, last_seq)
    if cloud.seq == 0:
        raise CloudNotFound("the cloud is no longer there")
    return cloud


async def catch_up(cloud: Cloud, cloud_id: int, log: LogAccess) -> None:
    """Fold the log's events beyond the state. Raise LogRewound if the log lacks the state's last event.

    Raises LogBroken if events are missing after that. Nothing else may change the state meanwhile.
    """
    while True:
        tail = await log.tail(cloud_id, max(0, cloud.seq - 1), _READ_EVENTS)
        is_whole = len(tail) == _READ_EVENTS
        if cloud.seq and (not tail or not _is_last_of(cloud, tail.pop(0))):
            raise LogRewound
        if tail and tail[-1].seq != cloud.seq + len(tail):
            expected = next(number for number, item in enumerate(tail, cloud.seq + 1) if item.seq != number)
            raise _gap(cloud_id, expected - 1, tail[expected - cloud.seq - 1].seq)
        cloud.apply_recorded(tail)
        if not is_whole:
            return
        await asyncio.sleep(0)


def _is_last_of(cloud: Cloud, item: Recorded) -> bool:
    """Return True if the event is the state's last one. A snapshot keeps only its time."""
    if item.seq != cloud.seq:
        return False
    return item.event.at_us == cloud.at_us if cloud.last is None else item.event == cloud.last


def _gap(cloud_id: int, seq: int, later: int) -> LogBroken:
    return LogBroken(
        f"events {seq + 1} to {later - 1} are missing in the log of cloud number {cloud_id}: put a backup back, or cut "
        "the log off before the gap (docs/operations.md, When a log has a gap)"
    )
