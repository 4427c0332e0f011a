"""An event of the log as JSON, for webhooks and for the feed."""

from __future__ import annotations

import msgspec

from app.domain.events import Recorded, wire

encode = msgspec.json.Encoder().encode
"""Returns what `wire.to_wire` returns as JSON."""


def event_json(recorded: Recorded) -> bytes:
    """Return the event as JSON, exactly as in a page of the log."""
    return encode(wire.to_wire(recorded))
