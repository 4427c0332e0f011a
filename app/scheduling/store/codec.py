"""Events as they stand in the log: an explicit kind, a version, and JSON.

Kinds and versions are permanent and stand with the events (app/domain/events). When the fields of a kind change in a
way that their defaults do not cover, its version rises, and a decoder of the old one is added here. An event is read
whole or not at all: fields and values that this program does not know are an error, for whatever it left out would be
lost when it writes the state back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.events import Event
from app.domain.events.formats import LOG_FORMAT, in_format
from app.domain.events.registry import KINDS
from app.scheduling.store.strict import shape_of

_DECODERS: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {
    (kind.name, kind.version): msgspec.json.Decoder(kind.form) for kind in KINDS.values()
}
_SHAPES: dict[str, msgspec.json.Decoder[Any]] = {
    kind.name: msgspec.json.Decoder(shape_of(kind.form)) for kind in KINDS.values()
}
_ENCODER = msgspec.json.Encoder()


class UnknownEvent(Exception):
    """The event cannot be read by this program, because a newer one wrote it; the message says what is unknown."""


def encode(event: Event, log_format: int = LOG_FORMAT) -> str:
    """Return the event's fields as JSON, in this log format. FormatNotInForce where it cannot say what they say."""
    return _ENCODER.encode(in_format(event, log_format)).decode()


def decode(kind: str, version: int, data: str) -> Event:
    """The event of a stored kind, version and JSON. UnknownEvent where any of it is unknown."""
    decoder = _DECODERS.get((kind, version))
    if decoder is None:
        raise UnknownEvent(f"kind {kind!r}, version {version} is unknown")
    try:
        _SHAPES[kind].decode(data)
        event: Event = decoder.decode(data)
    except msgspec.DecodeError as error:
        raise UnknownEvent(f"kind {kind!r}, version {version}: {error}") from error
    return event
