"""The honest caller's process: starts and stops in a cloud of its own, and probes, at moments that were set before.

Each line of its standard input tells for how many seconds, and what else to read; it answers with what it measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, product

from hostile.wire import Closed, Wire, request

_APART_S = 0.025
_OFFERS_APART_S = 0.05
_PROBES_APART_S = 0.25
_LOOKS_APART_S = 0.25
_FRESH_EVERY = 10
"""Each of so many starts comes over a new connection."""
_PATIENCE_S = 15.0
CLOUD = "honest"
SHARED = "shared"
"""The cloud that peers offer jobs to, honest ones and others."""


@dataclass
class Measured:
    """Times of starts, of a peer's offers, of probes and of a reader's looks in seconds, from the moment at which each
    was due; and all statuses.
    """

    starts: list[float] = field(default_factory=list)
    offers: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    looks: list[float] = field(default_factory=list)


class Honest:
    """The caller. `token` is a member's of its own cloud, `peer` a peer's, `onlooker` a reader's of all clouds."""

    def __init__(self, port: int, token: str, peer: str, onlooker: str) -> None:
        self._port = port
        self._token, self._peer, self._onlooker = token, peer, onlooker
        self._numbers = count()
        self._idle: list[Wire] = []

    async def measure(self, seconds: float, looks: Sequence[str]) -> Measured:
        """Go on for so long, and wait for what is open then."""
        found, begun = Measured(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds / _APART_S)):
                group.create_task(self._start(found, begun + number * _APART_S, fresh=number % _FRESH_EVERY == 0))
            for number in range(int(seconds / _OFFERS_APART_S)):
                group.create_task(self._offer(found, begun + number * _OFFERS_APART_S))
            for number in range(int(seconds / _PROBES_APART_S)):
                group.create_task(self._probe(found, begun + number * _PROBES_APART_S))
            for path, number in product(looks, range(int(seconds / _LOOKS_APART_S))):
                group.create_task(self._look(found, begun + number * _LOOKS_APART_S, path))
        return found

    async def _start(self, found: Measured, due: float, *, fresh: bool) -> None:
        await asyncio.sleep(due - time.monotonic())
        name = f"honest.{time.time_ns()}-{next(self._numbers)}"
        body = {"id": name, "market": "on_demand", "flavor": "small"}
        status = await self._ask(request("POST", f"/v1/clouds/{CLOUD}/instances", self._token, body), fresh)
        found.starts.append(time.monotonic() - due)
        found.statuses[f"start {status}"] += 1
        status = await self._ask(request("DELETE", f"/v1/clouds/{CLOUD}/instances/{name}", self._token), fresh=False)
        found.statuses[f"stop {status}"] += 1

    async def _offer(self, found: Measured, due: float) -> None:
        await asyncio.sleep(due - time.monotonic())
        place = f"/v1/clouds/{SHARED}/offers/honest-{time.time_ns()}-{next(self._numbers)}/1"
        body = {"cores": 1, "lifetime_s": 60, "hold_s": 10}
        status = await self._ask(request("PUT", place, self._peer, body), fresh=False)
        found.offers.append(time.monotonic() - due)
        found.statuses[f"offer {status}"] += 1
        status = await self._ask(request("DELETE", place, self._peer), fresh=False)
        found.statuses[f"withdrawal {status}"] += 1

    async def _probe(self, found: Measured, due: float) -> None:
        await asyncio.sleep(due - time.monotonic())
        for path in ("/healthcheck", "/readiness"):
            status = await self._ask(request("GET", path), fresh=True)
            found.statuses[f"probe {status}"] += 1
        found.probes.append(time.monotonic() - due)

    async def _look(self, found: Measured, due: float, path: str) -> None:
        await asyncio.sleep(due - time.monotonic())
        status = await self._ask(request("GET", path.format(next(self._numbers) + 60), self._onlooker), fresh=False)
        found.looks.append(time.monotonic() - due)
        found.statuses[f"look {status}"] += 1

    async def _ask(self, content: bytes, fresh: bool) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._answered(content, fresh)
        except TimeoutError:
            return "no answer"
        except Closed as error:
            return type(error).__name__

    async def _answered(self, content: bytes, fresh: bool) -> str:
        wire = None if fresh or not self._idle else self._idle.pop()
        if wire is not None and wire.reader.at_eof():  # closed meanwhile, as connections without requests are
            wire = None
        wire = wire or await Wire.open(self._port)
        try:
            answer = await wire.ask(content)
        except BaseException:
            wire.close()
            raise
        self._idle.append(wire)
        while len(self._idle) > 32:
            self._idle.pop(0).close()
        return answer.told


async def main() -> None:
    """Measure as often as asked."""
    told = json.loads(sys.stdin.readline())
    honest = Honest(told["port"], told["token"], told["peer"], told["onlooker"])
    while line := await asyncio.to_thread(sys.stdin.readline):
        found = await honest.measure(**json.loads(line))
        sys.stdout.write(json.dumps(vars(found)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
