"""Events as they stand in the log: an explicit kind, a version, and JSON.

Kinds and versions are permanent. When an event's fields change in a way that its defaults do not cover, its version
rises and a decoder of the old one stays. An event is read whole or not at all: fields and values that this program
does not know are an error, for whatever it left out would be lost when it writes the state back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.domain.events import (
    CloudCreated,
    Event,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    PolicyChanged,
)
from app.store.strict import shape_of

LOG_FORMAT = 1
"""Rises with every kind, version, field or value that older programs cannot read (docs/operations.md, *Upgrading*)."""
EVENT_KINDS: dict[str, type[Event]] = {
    "cloud_created": CloudCreated,
    "policy_changed": PolicyChanged,
    "node_added": NodeAdded,
    "node_drained": NodeDrained,
    "node_opened": NodeOpened,
    "node_removed": NodeRemoved,
    "flavor_added": FlavorAdded,
    "instance_started": InstanceStarted,
    "instance_rejected": InstanceRejected,
    "instance_stopped": InstanceStopped,
    "instance_evicted": InstanceEvicted,
    "eviction_scheduled": EvictionScheduled,
    "eviction_confirmed": EvictionConfirmed,
    "eviction_overdue": EvictionOverdue,
    "eviction_risk": EvictionRisk,
}
VERSION = 1
"""The version that every kind has so far."""

_KIND_OF = {event_type: kind for kind, event_type in EVENT_KINDS.items()}
_DECODERS: dict[tuple[str, int], msgspec.json.Decoder[Any]] = {
    (kind, VERSION): msgspec.json.Decoder(event_type) for kind, event_type in EVENT_KINDS.items()
}
_SHAPES: dict[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(shape_of(event_type)) for kind, event_type in EVENT_KINDS.items()
}
_ENCODER = msgspec.json.Encoder()


class UnknownEvent(Exception):
    """The event cannot be read by this program, because a newer one wrote it; the message says what is unknown."""


def kind_of(event: Event) -> str:
    """The event's name in the log and in the API."""
    return _KIND_OF[type(event)]


def encode(event: Event) -> str:
    """The event's fields as JSON."""
    return _ENCODER.encode(event).decode()


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
