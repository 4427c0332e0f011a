"""Jobs for peers in the log of a cloud, written as a service would."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from app.domain.events import Event, JobOffered, JobRequested, Recorded
from app.domain.jobs import Federate
from app.domain.times import SECOND_US
from app.platform.database.database import Database
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog


async def submit(
    database: Database,
    cloud: str,
    job: str,
    peers: Sequence[str] = ("far",),
    *,
    offered: bool = False,
    answer_us: int = 60 * SECOND_US,
    hold_us: int = SECOND_US,
) -> None:
    """Append a job of one instance that each of the peers is asked for once; `offered`: to the first one already."""
    cloud_id, log, at_us = await Clouds(database).id_of(cloud), EventLog(database), round(time.time() * SECOND_US)
    asked = JobRequested(
        at_us=at_us,
        job=job,
        flavor="c1",
        count=1,
        lifetime_us=SECOND_US,
        federate=Federate.ONLY,
        peers=(*peers,),
        attempts=len(peers),
        answer_us=answer_us,
        hold_us=hold_us,
    )
    offer = JobOffered(at_us=at_us, job=job, attempt=1, peer=peers[0])
    events: list[Event] = [asked, offer] if offered else [asked]
    first = await log.last_seq(cloud_id) + 1
    await log.append(cloud_id, [Recorded(seq, event) for seq, event in enumerate(events, first)])


async def events_of(database: Database, cloud: str, job: str) -> list[Event]:
    """Return a job's events in the log of a cloud."""
    return (await events_by_job(database, cloud)).get(job, [])


async def events_by_job(database: Database, cloud: str) -> dict[str, list[Event]]:
    """Return the events of all jobs in the log of a cloud."""
    log, cloud_id, seq, found = (
        EventLog(database),
        await Clouds(database).id_of(cloud),
        0,
        defaultdict[str, list[Event]](list),
    )
    while page := await log.tail(cloud_id, seq, 1000):
        for one in page:
            found[getattr(one.event, "job", "")].append(one.event)
        seq = page[-1].seq
    return dict(found)
