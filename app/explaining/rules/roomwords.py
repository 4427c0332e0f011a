"""Sentences about room that is held for a peer's job: for whom, and what the time of its inputs rests on."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.events import InstanceStarted, RoomHeld
from app.domain.jobs import LinkRate
from app.domain.numbers import number_text
from app.domain.times import length_text, time_text
from app.explaining.rules.groupwords import places_text

_MEGABYTE = 10**6


def held_in_words(room: RoomHeld, start: InstanceStarted) -> Iterator[str]:
    """Say for which attempt the room was held, and how long its inputs had to come."""
    order = "it goes before all others" if start.goes_first else "it goes by its age, like any spot instance"
    where = places_text(start.places)
    yield (
        f"Held on {where} for attempt {room.attempt} of the job {room.job} of the peer {room.peer}, "
        f"which it could award until {time_text(room.until_us)}. Nothing was promised to such room, and {order}."
    )
    if room.stage_us:
        yield f"Its inputs were given {length_text(room.stage_us)}, {_because(room.peer, room.link)}."


def _because(peer: str, link: LinkRate | None) -> str:
    if link is None:
        return "as the peer asked: too little had come from it to tell how long they take"
    if not link.is_fresh:
        return f"as the peer asked: what had come from it last was {length_text(link.newest_age_us)} old"
    rate, others = f"{number_text(link.bytes_per_s / _MEGABYTE)} MB/s", f"others under way: {link.active}"
    if not link.samples:
        return f"by the rate that an operator told, {rate} ({others})"
    newest = length_text(link.newest_age_us)
    reached = f"nine of ten of {link.samples} transfers from {peer} had reached, the newest {newest} before"
    return f"by the rate that {reached}, {rate} ({others})"
