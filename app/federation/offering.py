"""Jobs that wait with their offer, because none of their peers would answer it in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.domain.times import seconds
from app.engine.cloud import JobRecord
from app.engine.jobs.originside import AwayState, JobAway
from app.federation.contacts import Contact


def held_back(
    cloud_id: int,
    jobs: Iterable[JobRecord],
    awards: Mapping[str, int],
    contact: Callable[[str], Contact],
    is_left_out: Callable[[str], bool],
) -> set[str]:
    """Return the jobs that are not offered now, of those of a cloud that run nowhere, and note what is out and waits.

    An offer has its time from when it is written down. More than a peer answers in that time would end as its silence,
    and room would be held in vain. A job waits for its next peer as long as that one answers. If it fails, and another
    one comes after it, the job is offered all the same: it gets there in the end. `awards`: how many by peer stand
    beside the offers in the same places; `is_left_out`: True for a peer to which offers end without a message.
    """

    def has_place(name: str) -> bool:
        return contact(name).has_place(cloud_id, out[name], answer_s)

    out, found, waits = Counter[str](awards), set[str](), Counter[str]()
    waiting = list[JobRecord]()
    for record in jobs:
        if record.away.state is AwayState.OFFERED:
            out[record.away.peer] += 1
        elif _is_to_be_offered(record.away):
            waiting.append(record)
    for record in waiting:
        away, answer_s = record.away, seconds(record.away.answer_us)
        ahead = _ahead(away)
        following, *later = [name for name in ahead if not is_left_out(name)] or ahead
        if has_place(following) or (contact(following).failures and any(map(has_place, {*later}))):
            out[following] += 1
        else:
            found.add(record.asked.job)
            waits[following] += 1
    for name in out.keys() | waits.keys():
        contact(name).note_offers(cloud_id, out[name], waits[name])
    return found


def _is_to_be_offered(away: JobAway) -> bool:
    waits = away.state is AwayState.WAITING and not away.is_cancelled
    return waits and away.attempt < away.attempts and bool(away.peers)


def _ahead(away: JobAway) -> Sequence[str]:
    """Return the peers that are next, up to the last of all: those before them have declined already."""
    return away.peers[away.attempt % len(away.peers) :][: away.attempts - away.attempt]
