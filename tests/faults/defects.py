"""Defects that the harness must find: each takes one mend out of the service, in the process that calls it."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import Recorded
from app.domain.times import SECOND_US
from app.engine.jobs.attempts import LeaseTerms
from app.engine.jobs.hostside import HostSide
from app.scheduling.appending import Appender
from app.scheduling.store.log import EventMark, LogAccess


def bring_back(name: str) -> None:
    """Bring back the defect of this name."""
    DEFECTS[name]()


def _stale_batches() -> None:
    """A batch that writes no event is answered from the process's own state, however old that is.

    So a stop at one process of what was started at another is answered 204, and the instance runs on.
    """
    append = Appender._append

    async def append_without_a_look(self: Appender, log: LogAccess, recorded: Sequence[Recorded]) -> EventMark:
        return await append(self, log, recorded) if recorded else self.state.mark

    Appender._append = append_without_a_look  # type: ignore[method-assign]


def _early_reclaims() -> None:
    """An origin takes a job back a second after its award, whatever its lease: it then runs at two clouds."""
    LeaseTerms.reclaim_us = lambda self, answered_at_us: answered_at_us + SECOND_US  # type: ignore[method-assign]


def _endless_room() -> None:
    """A host lets neither held room nor a job go when its time is over."""
    HostSide.decide_time = lambda self, now_us: []  # type: ignore[method-assign]


DEFECTS = {"stale_batches": _stale_batches, "early_reclaims": _early_reclaims, "endless_room": _endless_room}
