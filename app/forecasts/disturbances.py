"""Attempts at runs that the database ended. They do not count, which the database is told once it answers again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from app.forecasts.store.runs import Runs

_LONGEST_PAUSE_S = 8.0


@dataclass(frozen=True, slots=True)
class Disturbance:
    """An attempt, known by its run and its beginning, and what ended it."""

    run_id: int
    started_at: datetime
    error: str


class Disturbances:
    """The disturbances that this worker knows of, until the database knows of them."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._untold: list[Disturbance] = []
        self._times: Counter[int] = Counter()

    def add(self, disturbance: Disturbance) -> None:
        """Remember a disturbance until it is told."""
        self._untold.append(disturbance)
        self._times[disturbance.run_id] += 1

    def forget(self, run_id: int) -> None:
        """Forget how often this run was disturbed: it has ended."""
        self._times.pop(run_id, None)

    async def tell(self) -> None:
        """Tell the database of all that it does not know. Raises LogUnavailable; what was not told is kept.

        A run is tried again at once, and after up to 8 s if it is disturbed often.
        """
        while self._untold:
            one = self._untold.pop()
            times = self._times[one.run_id]
            pause_s = min(2.0 ** (times - 2), _LONGEST_PAUSE_S) if times > 1 else 0.0
            try:
                await self._runs.disturb(one.run_id, one.started_at, one.error, pause_s)
            except BaseException:
                self._untold.append(one)
                raise
