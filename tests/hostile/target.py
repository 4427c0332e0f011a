"""The facts that an attacker is told of the service, its counts, and the ways in which most attacks send."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hostile.wire import Answer, Closed, Wire

HERE = "127.0.0.1"
"""The address that honest callers and probes have too."""
_PAUSE_S = 0.05


@dataclass
class Target:
    """The service, seen by its attacker. `tokens` are by name: see `stage.TOKENS`."""

    port: int
    tokens: dict[str, str]
    seconds: float
    address: str = "127.1.0.1"
    """An address that no other attack has: what one has done is not held against the next."""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def tally(self, answer: Answer) -> None:
        """Count an answer."""
        self.counts[answer.told] += 1

    async def open(self, source: str | None = None, room: int = 1 << 26) -> Wire:
        """A new connection."""
        return await Wire.open(self.port, source or self.address, room)

    async def each(self, count: int, attacker: Callable[[int], Coroutine[None, None, None]]) -> None:
        """So many of them at once; one whose connection ends begins again, with a short pause."""

        async def go_on(number: int) -> None:
            while True:
                try:
                    await attacker(number)
                except Closed:
                    self.counts["closed"] += 1
                    await asyncio.sleep(_PAUSE_S)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(go_on(number))

    async def hammer(self, count: int, make: Callable[[], bytes], source: str | None = None) -> None:
        """So many connections, each of which sends the next request as soon as the one before is answered."""

        async def ask_on(_: int) -> None:
            wire = await self.open(source)
            try:
                while True:
                    self.counts["sent"] += 1
                    self.tally(await wire.ask(make()))
            finally:
                wire.close()

        await self.each(count, ask_on)

    async def pour(self, count: int, content: bytes, *, read: bool, source: str | None = None) -> None:
        """So many connections, each of which sends this without an end and without waiting for answers."""

        async def pour_on(_: int) -> None:
            wire = await self.open(source, 1 << 16)
            taking = asyncio.ensure_future(self._take(wire)) if read else None
            try:
                while taking is None or not taking.done():
                    await wire.send(content)
                    self.counts["poured"] += 1
            finally:
                if taking is not None:
                    taking.cancel()
                    await asyncio.gather(taking, return_exceptions=True)
                wire.close()

        await self.each(count, pour_on)

    async def _take(self, wire: Wire) -> None:
        with suppress(*Closed):
            while True:
                self.tally(await wire.answer())


Run = Callable[[Target], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """One attack: who does it, what it is, and which errors of status 503 the documentation promises its attacker."""

    name: str
    who: str
    what: str
    run: Run
    promised: frozenset[str] = frozenset()
    least_s: float = 0.0
    """Shorter it cannot be tried."""
    needs_venue: bool = False
    looks: tuple[str, ...] = ()
    """Paths that an honest reader asks for meanwhile; {} in one is another number each time."""


ATTACKS: dict[str, Attack] = {}
"""By name, in the order in which they run."""


def attack(
    who: str, *promised: str, least_s: float = 0.0, needs_venue: bool = False, looks: Sequence[str] = ()
) -> Callable[[Run], Run]:
    """Enter a function in the table of attacks; its name and docstring are the attack's."""

    def enter(run: Run) -> Run:
        name = run.__name__  # type: ignore[attr-defined]
        what = (run.__doc__ or "").split("\n")[0].rstrip(".")
        ATTACKS[name] = Attack(name, who, what, run, frozenset(promised), least_s, needs_venue, (*looks,))
        return run

    return enter


async def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait for it; whether it came in time."""
    give_up_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up_at:
            return False
        await asyncio.sleep(0.02)
    return True
