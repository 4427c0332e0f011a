"""The clouds whose logs hold what only a newer version of the service can read, as far as this process has met them.

Such a cloud is left alone: every read of its events is refused, at the price of nothing, and some seconds later the
event is looked at again. So a log that was put right is served again without a restart.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic

from app.domain.errors import LogNewer

logger = logging.getLogger(__name__)

_LOOK_S = 5.0


@dataclass(slots=True)
class Met:
    """An event that could not be read, the refusal that follows from it, and when to look again."""

    seq: int
    refusal: str
    look_s: float


class NewerLogs:
    """What one process has met, by cloud, and the newest log format that it may write (decision 45)."""

    def __init__(self) -> None:
        self.log_format = 1
        """As the database said last; until it has said anything, what every program reads."""
        self._met: dict[int, Met] = {}
        self._refusal: str | None = None

    def leave_all(self, refusal: str | None) -> None:
        """Leave every cloud alone for this reason; None: only those that were met."""
        if refusal is not None and self._refusal is None:
            logger.error("all clouds are left alone: %s", refusal)
        self._refusal = refusal

    def check(self) -> None:
        """LogNewer where every cloud is to be left alone."""
        if self._refusal is not None:
            raise LogNewer(self._refusal)

    def find(self, cloud_id: int) -> Met | None:
        """The event to look at again before the cloud's log is read; None: read. LogNewer while it is too early."""
        self.check()
        met = self._met.get(cloud_id)
        if met is not None and monotonic() < met.look_s:
            raise LogNewer(met.refusal)
        return met

    def meet(self, cloud_id: int, seq: int, unknown: str) -> LogNewer:
        """Remember an event that could not be read; the error to raise."""
        refusal = (
            f"event {seq} of this cloud's log was written by a newer version of Tenure, which has to answer for the "
            f"cloud: this one does not know all of it ({unknown})"
        )
        if cloud_id not in self._met:
            logger.error("the cloud is left alone: %s", refusal, extra={"cloud_id": cloud_id})
        self._met[cloud_id] = Met(seq, refusal, monotonic() + _LOOK_S)
        return LogNewer(refusal)

    def forget(self, cloud_id: int) -> None:
        """The event can be read, or is gone."""
        if self._met.pop(cloud_id, None) is not None:
            logger.info("the log can be read again", extra={"cloud_id": cloud_id})

    def clouds(self) -> list[int]:
        """Every cloud that was met and not forgotten."""
        return list(self._met)
