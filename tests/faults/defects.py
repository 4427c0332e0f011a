"""Defects that the harness must find: each takes one mend out of the service, in the process that calls it."""

from __future__ import annotations

from collections.abc import Sequence

from app.admission.batch import Batch, Step
from app.engine.cloud import Cloud
from app.scheduling.sequencer import Sequencer
from app.scheduling.store.log import LogAccess


def bring_back(name: str) -> None:
    """Bring back the defect of this name."""
    DEFECTS[name]()


def _stale_batches() -> None:
    """A batch that writes no event is answered from the process's own state, however old that is.

    So a stop at one process of what was started at another is answered 204, and the instance runs on.
    """
    decide = Sequencer._decide_and_append

    async def decide_in_the_past(self: Sequencer, steps: Sequence[Step], log: LogAccess) -> Batch:
        return await decide(self, steps, _EndsWith(log, self._cloud))  # type: ignore[arg-type]

    Sequencer._decide_and_append = decide_in_the_past  # type: ignore[method-assign]


class _EndsWith:
    """A log that seems to end where the state does."""

    def __init__(self, log: LogAccess, cloud: Cloud) -> None:
        self._log = log
        self._cloud = cloud

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def last_seq(self, _cloud_id: int) -> int:
        return self._cloud.seq


DEFECTS = {"stale_batches": _stale_batches}
