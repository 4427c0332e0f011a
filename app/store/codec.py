"""Events as they stand in the log: an explicit kind, a version, and JSON.

Kinds and versions are permanent and stand with the events (app/domain/events). When the fields of a kind change in a
way that their defaults do not cover, its version rises, and a decoder of the old one is added here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.events import Event
from app.domain.events.registry import KINDS

_DECODERS: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {
    (kind.name, kind.version): msgspec.json.Decoder(kind.form) for kind in KINDS.values()
}
_ENCODER = msgspec.json.Encoder()


class UnknownEvent(Exception):
    """The log holds an event that this version of the service cannot read: a newer one wrote it."""


def encode(event: Event) -> str:
    """The event's fields as JSON."""
    return _ENCODER.encode(event).decode()


def decode(kind: str, version: int, data: str) -> Event:
    """The event of a stored kind, version and JSON. UnknownEvent if there is no decoder for it."""
    decoder = _DECODERS.get((kind, version))
    if decoder is None:
        raise UnknownEvent(f"event kind {kind!r} version {version} is unknown: run a newer version of tenure")
    event: Event = decoder.decode(data)
    return event
