"""The stored form of events: a kind, a version, and JSON.

Kinds and versions are permanent and stand with the events (app/domain/events). If fields of a kind change in a way that
defaults do not cover, its version rises and a decoder of the old one is added here. Fields and values that this program
does not know are errors, because they would be lost when it writes the state back.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """This program cannot read the event, because a newer one wrote it. The message says what is unknown."""


def encode(event: Event, log_format: int = LOG_FORMAT) -> str:
    """Return the event's fields as JSON in this log format. Raise FormatNotInForce if it cannot hold them."""
    return _ENCODER.encode(in_format(event, log_format)).decode()


def encode_all(events: Iterable[Event], log_format: int) -> bytes:
    """Return the fields of all these events as one JSON array; see `encode`."""
    return _ENCODER.encode([in_format(event, log_format) for event in events])


def decode(kind: str, version: int, data: str) -> Event:
    """Return the event of a stored kind, version and JSON. Raise UnknownEvent if any of them is unknown."""
    decoder = _DECODERS.get((kind, version))
    if decoder is None:
        raise UnknownEvent(f"kind {kind!r}, version {version} is unknown")
    try:
        _SHAPES[kind].decode(data)
        event: Event = decoder.decode(data)
    except msgspec.DecodeError as error:
        raise UnknownEvent(f"kind {kind!r}, version {version}: {error}") from error
    return event
