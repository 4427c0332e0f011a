"""Says what became of a change whose answer was lost: nobody knows, and where to look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.domain.errors import LogUnavailable
from tenure_client import NotConnected, ServiceUnreachable

_PERHAPS = "it may have been done all the same: look with"
_asked: list[str] = []
"""The places to look for the changes that this process has asked for so far."""


@contextmanager
def changing(look: str, then: str = "") -> Iterator[None]:
    """Add to an error that leaves it open whether the change was made which command tells: `look`.

    After the change the same is told if the answer cannot be written, with what is to be done `then`.
    """
    try:
        yield
    except (ServiceUnreachable, LogUnavailable) as error:
        if not isinstance(error, NotConnected):
            error.add_note(f"{_PERHAPS} `tenure {look}`")
        raise
    was_asked(look, then)


def was_asked(look: str, then: str = "") -> None:
    """Remember that this process has asked for a change, and what tells of it: for an answer that cannot be written."""
    _asked.append(f"{_PERHAPS} `tenure {look}`{then}")


def told_of_changes() -> str:
    """Return where to look for the newest change that was asked for; nothing if there was none."""
    return _asked[-1] if _asked else ""
