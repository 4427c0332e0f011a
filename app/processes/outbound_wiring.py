"""Builds the senders of requests to other services."""

from __future__ import annotations

from app.platform.clock import ServerClock
from app.platform.outbound.asking import Asker
from app.platform.outbound.posting import Poster
from app.platform.settings import Settings

_POSTS_AT_ONCE = 8
"""Of one cloud."""
_ASKED_AT_ONCE = 16
"""Requests to one peer under way."""
_PEER_BYTES = 65_536


def poster(settings: Settings, clock: ServerClock) -> Poster:
    """Return the sender of webhook requests."""
    return Poster(
        timeout_s=settings.webhook_timeout_s,
        allow_private=settings.webhook_allow_private,
        at_once=_POSTS_AT_ONCE,
        now=clock.now,
    )


def asker(settings: Settings) -> Asker:
    """Return the sender of requests to peers."""
    return Asker(
        timeout_s=settings.peer_answer_s,
        allow_private=settings.peer_allow_private,
        at_once=_ASKED_AT_ONCE,
        most_bytes=_PEER_BYTES,
    )
