"""Bringing a cloud's state up to its log: the newest snapshot and the events after it."""

from __future__ import annotations

import asyncio
import logging

from app.domain.errors import CloudNotFound, LogBroken
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.scheduling.store.log import LogAccess
from app.scheduling.store.snapshots import Snapshots

logger = logging.getLogger(__name__)

_READ_EVENTS = 10_000


class LogRewound(Exception):
    """The log does not hold the event that the state ends with: it was put back, or belongs to another cloud by now."""


async def load_state(cloud_id: int, log: LogAccess, snapshots: Snapshots) -> Cloud:
    """Return the state as of the log's end. CloudNotFound without a log; LogBroken where events are missing in it."""
    cloud = await snapshots.load(cloud_id) or Cloud()
    try:
        await catch_up(cloud, cloud_id, log)
    except LogRewound:
        logger.warning("the snapshot is of another log and is removed", extra={"cloud_id": cloud_id, "seq": cloud.seq})
        await snapshots.forget(cloud_id)
        cloud = Cloud()
        await catch_up(cloud, cloud_id, log)
    # A gap that is wider than what is read at once looks like the end.
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
    """Fold what the log holds beyond the state. LogRewound where it does not hold the state's last event.

    LogBroken where events are missing after that. Nobody else may change the state meanwhile.
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
    """Tell whether the event is the one that the state ends with. A snapshot keeps only its time."""
    if item.seq != cloud.seq:
        return False
    return item.event.at_us == cloud.at_us if cloud.last is None else item.event == cloud.last


def _gap(cloud_id: int, seq: int, later: int) -> LogBroken:
    return LogBroken(
        f"events {seq + 1} to {later - 1} are missing in the log of cloud number {cloud_id}: put a backup back, or cut "
        "the log off before the gap (docs/operations.md, When a log has a gap)"
    )
