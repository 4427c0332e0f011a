"""Says what became of a change whose answer was lost: nobody knows, and where to look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.domain.errors import LogUnavailable
from tenure_client import NotConnected, ServiceUnreachable


@contextmanager
def changing(look: str) -> Iterator[None]:
    """Add to an error that leaves it open whether the change was made which command tells: `look`."""
    try:
        yield
    except (ServiceUnreachable, LogUnavailable) as error:
        if not isinstance(error, NotConnected):
            error.add_note(f"it may have been done all the same: look with `tenure {look}`")
        raise
