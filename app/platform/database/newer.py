"""The clouds whose logs contain events that only a newer version of the service can read, as met by this process.

Such a cloud is left alone: every read of its events is refused at no cost, and after some seconds the event is read
again. So a repaired log is served without a restart. All clouds are left alone while the whole database does not fit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic

from app.domain.errors import LogNewer, LogUnavailable

logger = logging.getLogger(__name__)

_LOOK_S = 5.0


@dataclass(slots=True)
class Met:
    """An unreadable event, the resulting refusal, and when to look again."""

    seq: int
    refusal: str
    look_s: float


class NewerLogs:
    """The unreadable events that one process has met, by cloud, and the newest log format that it may write."""

    def __init__(self) -> None:
        self.log_format = 1
        """The format in force, as it was read last. Every program reads format 1."""
        self._met: dict[int, Met] = {}
        self._refusal: LogNewer | LogUnavailable | None = None

    def leave_all(self, refusal: LogNewer | LogUnavailable | None) -> None:
        """Refuse every cloud with this error; None refuses only those with unreadable events."""
        if refusal is not None and self._refusal is None:
            logger.error("all clouds are left alone: %s", refusal)
        elif refusal is None and self._refusal is not None:
            logger.info("clouds are served again: the database fits this version")
        self._refusal = refusal

    def leaves_all(self) -> bool:
        """Return True if every cloud is refused."""
        return self._refusal is not None

    def check(self) -> None:
        """Raise the refusal, LogNewer or LogUnavailable, if every cloud is to be left alone."""
        if self._refusal is not None:
            raise type(self._refusal)(str(self._refusal))

    def find(self, cloud_id: int) -> Met | None:
        """Return the event to try again before a read of the log, or None.

        Raises LogNewer while it is too early, and what `check` raises.
        """
        self.check()
        met = self._met.get(cloud_id)
        if met is not None and monotonic() < met.look_s:
            raise LogNewer(met.refusal)
        return met

    def meet(self, cloud_id: int, seq: int, unknown: str) -> LogNewer:
        """Remember an unreadable event, and return the error to raise."""
        refusal = (
            f"event {seq} of this cloud's log was written by a newer version of Tenure, which has to answer for the "
            f"cloud: this one does not know all of it ({unknown})"
        )
        if cloud_id not in self._met:
            logger.error("the cloud is left alone: %s", refusal, extra={"cloud_id": cloud_id})
        self._met[cloud_id] = Met(seq, refusal, monotonic() + _LOOK_S)
        return LogNewer(refusal)

    def forget(self, cloud_id: int) -> None:
        """Forget the cloud's event, which is readable now, or gone."""
        if self._met.pop(cloud_id, None) is not None:
            logger.info("the log can be read again", extra={"cloud_id": cloud_id})

    def clouds(self) -> list[int]:
        """Return every cloud with an unreadable event."""
        return list(self._met)
