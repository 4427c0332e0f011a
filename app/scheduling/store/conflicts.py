"""The reasons for which an append keeps nothing of its batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.platform.database.database import ConstraintBroken


class SeqConflict(Exception):
    """Another writer has taken this seq. Nothing of the batch was kept."""


class PredecessorMissing(Exception):
    """The log lacks the event that the batch follows, or has another one: it was put back. Nothing was kept."""


class TurnLost(Exception):
    """The turn did not come in time, or the server took it from a stalled process. Nothing was kept."""


class InstanceTaken(Exception):
    """The log contains a start, or an end, of one of these instances already. Nothing of the batch was kept."""


_ERROR_OF = {"event_pkey": SeqConflict, "event_one_start": InstanceTaken, "event_one_end": InstanceTaken}


@contextmanager
def told_conflicts() -> Iterator[None]:
    """Raise the conflict for a constraint of the log that was broken."""
    try:
        yield
    except ConstraintBroken as broken:
        error = _ERROR_OF.get(broken.name)
        if error is None:
            raise
        raise error(broken.name) from broken
