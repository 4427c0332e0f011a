"""Tests of webhooks: an API process stores the request for a test, and the worker that delivers sends it.

So processes that answer callers send nothing themselves, and a harmful receiver can only harm a worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from app.following.noting import noted
from app.following.store.trials import OpenTrial, Trials
from app.platform.background import begun
from app.platform.outbound.messages import trial_message
from app.platform.outbound.posting import Poster, Receipt


@dataclass(frozen=True, slots=True)
class TrialPauses:
    """Pauses of tests, in seconds.

    `look_s`: between two looks for the answer; `found_within_s`: a worker may take this long to find a test, in
    addition to the receiver's time.
    """

    look_s: float = 0.1
    found_within_s: float = 5.0


_PAUSES = TrialPauses()


class TrialAsker:
    """Requests tests and waits for their results. `timeout_s` is how long a receiver may take."""

    def __init__(self, trials: Trials, timeout_s: float, pauses: TrialPauses = _PAUSES) -> None:
        self._trials = trials
        self._look_s = pauses.look_s
        self._wait_s = timeout_s + pauses.found_within_s

    async def ask(self, webhook_id: int) -> Receipt:
        """Return the receiver's answer, or an error if no worker has sent the test in time."""
        asked_at = await self._trials.ask(webhook_id)
        deadline = monotonic() + self._wait_s
        while monotonic() < deadline:
            await asyncio.sleep(self._look_s)
            if (found := await self._trials.answered(webhook_id, asked_at)) is not None:
                return Receipt(*found)
        return Receipt(None, f"no worker has sent it within {self._wait_s:g} s; is one running?")


class TrialSender:
    """Sends the requested tests, each on its own."""

    def __init__(
        self,
        trials: Trials,
        poster: Poster,
        timeout_s: float,
        now: Callable[[], datetime],
        pauses: TrialPauses = _PAUSES,
    ) -> None:
        self._trials = trials
        self._poster = poster
        self._wanted_s = timeout_s + pauses.found_within_s
        self._now = now
        self._sending: dict[int, asyncio.Task[None]] = {}

    async def look(self) -> None:
        """Start to send the tests that are requested and not under way."""
        self._sending = {webhook_id: task for webhook_id, task in self._sending.items() if not task.done()}
        for trial in await self._trials.open(self._wanted_s):
            if trial.webhook_id not in self._sending:
                self._sending[trial.webhook_id] = begun(self._send(trial), "webhook_trial")

    async def close(self) -> None:
        """Stop sending."""
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        self._sending.clear()

    async def _send(self, trial: OpenTrial) -> None:
        message = trial_message(trial.webhook_id, trial.cloud, self._now())
        receipt = await self._poster.post(trial.cloud, trial.url, trial.secret, message)
        await noted(trial.webhook_id, lambda: self._trials.answer(trial, receipt.status, receipt.error))
