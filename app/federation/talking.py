"""A talk of a worker with one peer about the jobs of one cloud.

A message goes out as soon as there is a place for it, the most urgent first. Nothing waits for the end of a round: an
offer has its time from when it is written down, and held room waits for its award.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence, Set
from time import monotonic
from typing import Protocol

from app.federation.messenger import MessageKey, message_key
from app.federation.rules.awayside import DueMessage, Heard

_APPEND_S = 0.25
"""Answers that come meanwhile are appended together."""
_LEAST_S = 0.05
"""The time between two looks at least, also where nothing is out."""
_PAUSE_FACTOR = 4.0
"""The pause is so many times what it took to put messages in order, where these are very many."""
_PATIENT_SHARE = 2
"""Every second place is for messages that are not urgent: so there is always one for an offer."""


class Speaker(Protocol):
    """The one who talks: finds what is due besides what is under way, sends a message, and appends answers.

    `append` returns how many events were written; `at_once`: the most messages that may be out; `goes_on`: False when
    another worker may have the talk by now.
    """

    async def plan(self, under_way: Set[MessageKey]) -> Sequence[DueMessage]: ...
    async def send(self, sent: DueMessage) -> Heard | None: ...
    async def append(self, heard: Sequence[Heard]) -> int: ...
    def at_once(self) -> int: ...
    def goes_on(self) -> bool: ...


class Talk:
    """Sends what is due as long as there is something, and appends the answers.

    The speaker is asked for it again after each append, and a few times a second: others write offers meanwhile.
    """

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._under_way = set[MessageKey]()
        """Messages that are out, and those whose answers are not appended yet."""
        self._waiting = deque[DueMessage]()
        self._out = dict[asyncio.Task[Heard | None], DueMessage]()
        self._heard = list[tuple[MessageKey, Heard]]()
        self._looked_s, self._look_s, self._written = 0.0, 0.0, 0

    async def run(self) -> int:
        """Talk, and return how many events were written."""
        try:
            await self._look()
            while self._out:
                await asyncio.wait(self._out, timeout=self._left_s(), return_when=asyncio.FIRST_COMPLETED)
                self._take()
                self._fill()
                if not self._left_s() or not self._out:
                    await asyncio.sleep(max(self._looked_s + _LEAST_S - monotonic(), 0.0))
                    self._take()
                    await self._look()
        finally:
            for task in self._out:
                task.cancel()
            await asyncio.gather(*self._out, return_exceptions=True)
        return self._written

    def _left_s(self) -> float:
        return max(self._look_s - monotonic(), 0.0)

    def _take(self) -> None:
        for task in [task for task in self._out if task.done()]:
            key, word = message_key(self._out.pop(task)), task.result()
            if word is None:
                self._under_way.discard(key)
            else:
                self._heard.append((key, word))

    def _fill(self) -> None:
        """Give free places to what waits."""
        while self._waiting and self._has_place(self._waiting[0]) and self._speaker.goes_on():
            sent = self._waiting.popleft()
            self._under_way.add(message_key(sent))
            self._out[asyncio.ensure_future(self._speaker.send(sent))] = sent

    def _has_place(self, sent: DueMessage) -> bool:
        """Return True if there is a place, for a message that is not urgent one of those that are not kept free."""
        most, patient = self._speaker.at_once(), sum(not one.is_urgent for one in self._out.values())
        return len(self._out) < most and (sent.is_urgent or patient < most // _PATIENT_SHARE)

    async def _look(self) -> None:
        """Append what was heard, and put in order what is due now."""
        self._looked_s = monotonic()
        heard, self._heard = self._heard, []
        if heard:
            self._written += await self._speaker.append([word for _, word in heard])
            self._under_way.difference_update(key for key, _ in heard)
        began_s = monotonic()
        if self._speaker.goes_on():
            self._waiting = deque(await self._speaker.plan(self._under_way))
        self._look_s = monotonic() + max(_APPEND_S, _PAUSE_FACTOR * (monotonic() - began_s))
        self._fill()
