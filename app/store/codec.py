"""Events as they stand in the log: an explicit kind, a version, and JSON.

Kinds and versions are permanent. When an event's fields change in a way that its defaults do not cover, its version
rises and a decoder of the old one stays.
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
_ENCODER = msgspec.json.Encoder()


class UnknownEvent(Exception):
    """The log holds an event that this version of the service cannot read: a newer one wrote it."""


def kind_of(event: Event) -> str:
    """The event's name in the log and in the API."""
    return _KIND_OF[type(event)]


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
