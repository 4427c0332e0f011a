"""Jobs that wait with their offer, because none of their peers would answer it in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from app.domain.times import seconds
from app.engine.cloud import JobRecord
from app.engine.jobs.originside import AwayState
from app.federation.contacts import Contact

_NOBODY = Contact()
"""A peer that was not spoken to."""


def held_back(
    cloud_id: int, jobs: Iterable[JobRecord], awards: Mapping[str, int], contacts: Mapping[str, Contact]
) -> set[str]:
    """Return the jobs that are not offered now, of those of a cloud that run nowhere, and note the offers that are out.

    An offer has its time from when it is written down. More than a peer answers in that time would end as its silence,
    and room would be held in vain. A job that has another peer is offered all the same: it gets there in the end.
    `awards`: how many by peer stand beside the offers in the same places.
    """
    out, found = Counter[str](awards), set[str]()
    waiting = list[JobRecord]()
    for record in jobs:
        away = record.away
        if away.state is AwayState.OFFERED:
            out[away.peer] += 1
        elif _is_to_be_offered(record):
            waiting.append(record)
    beside = {name: contact.offers_beside(cloud_id) for name, contact in contacts.items()}
    for record in waiting:
        peers, answer_s = {*record.away.peers}, seconds(record.away.answer_us)
        if not any(_has_place(name, contacts, out[name] + beside.get(name, 0), answer_s) for name in peers):
            found.add(record.asked.job)
        else:
            out[record.away.peers[record.away.attempt % len(record.away.peers)]] += 1
    for name, contact in contacts.items():
        contact.note_offers(cloud_id, out[name])
    return found


def _is_to_be_offered(record: JobRecord) -> bool:
    away = record.away
    waits = away.state is AwayState.WAITING and not away.is_cancelled
    return waits and away.attempt < away.attempts and bool(away.peers)


def _has_place(name: str, contacts: Mapping[str, Contact], out: int, answer_s: float) -> bool:
    return out < (contacts.get(name) or _NOBODY).most_offers(answer_s)
