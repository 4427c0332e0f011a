"""The load: users who submit jobs at each site, its controller, which ends what runs, and its operator."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from benchmarks.peer_parts import Caller
from faults.federation.checker import Submitted
from faults.federation.stage import FLAVOR

_TIMEOUT_S = 6.0
_APART_S = 0.15
_CANCELLED, _AGAIN = 0.1, 0.15
_LIFETIME_S = (2.0, 8.0)
_RUNS = (0.2, 1.2)
"""So many times its lifetime a job runs; beyond 1 it is ended by its host."""
_LOOK_S = 1.0
_RESUME_S = 3.0
_FEDERATE = ("only", "only", "only", "allowed", "allowed", "never")


class Answer(NamedTuple):
    """The status and the JSON of an answer."""

    status: int
    told: Any


class Calls:
    """Requests to the service of a site. An answer that leaves it open is None.

    The client is a lean one: it shares the processor with all that is tested.
    """

    def __init__(self, name: str, caller: Caller) -> None:
        self.name, self._caller = name, caller

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer | None:
        """Ask once. Returns None without an answer, and for one that says nothing about the request."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                found = Answer(*await self._caller.ask(method, f"/v1{path}", body))
        except (OSError, EOFError, ValueError):  # what came of it is no answer
            return None
        return None if found.status >= 500 or found.status == 429 else found

    async def insist(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Ask until there is an answer."""
        while (found := await self.ask(method, path, body)) is None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.3)
        return found

    @property
    def cloud(self) -> str:
        """The path of its cloud."""
        return f"/clouds/{self.name}"


class Users:
    """Users of a site: each submits one job, some twice, and some want it no more a little later."""

    def __init__(self, calls: Calls, rng: random.Random) -> None:
        self._calls, self._rng = calls, rng
        self.submitted: list[Submitted] = []
        self.lifetimes: dict[str, float] = {}

    async def run(self, goes_on: Callable[[], bool]) -> None:
        """Submit jobs as long as that says so, and wait until all are answered."""
        async with asyncio.TaskGroup() as group:
            for number in count():
                if not goes_on():
                    break
                group.create_task(self._submit(f"{self._calls.name}{number}"))
                await asyncio.sleep(self._rng.expovariate(1.0 / _APART_S))

    async def _submit(self, name: str) -> None:
        rng, one = self._rng, Submitted(self._calls.name, name)
        lifetime_s = round(rng.uniform(*_LIFETIME_S), 3)
        count, federate, then = rng.choice((1, 1, 2)), rng.choice(_FEDERATE), rng.choice(("fail", "offer_again"))
        body = {
            "id": name,
            "flavor": FLAVOR,
            "count": count,
            "lifetime_s": lifetime_s,
            "federate": federate,
            "on_preempted": "fail" if federate == "never" else then,
        }
        twice, cancelled = rng.random() < _AGAIN, rng.random() < _CANCELLED
        self.submitted.append(one)
        self.lifetimes[name] = lifetime_s
        for _ in range(1 + twice):
            answer = await self._calls.insist("POST", f"{self._calls.cloud}/jobs", body)
            one.statuses.append(answer.status)
        if cancelled:
            await asyncio.sleep(rng.uniform(0.0, 3.0))
            one.cancelled = True
            answer = await self._calls.insist("DELETE", f"{self._calls.cloud}/jobs/{name}")
            one.statuses.append(answer.status)


class Controller:
    """The controller of a site: it stops each instance once that has run for a part of its job's lifetime."""

    def __init__(self, calls: Calls, lifetimes: Callable[[str], float], rng: random.Random) -> None:
        self._calls, self._lifetimes, self._rng = calls, lifetimes, rng
        self._ends: dict[str, float] = {}

    async def run(self) -> None:
        """Look and stop, for ever."""
        while True:
            found = await self._calls.ask("GET", f"{self._calls.cloud}/instances?status=running&limit=1000")
            running = [] if found is None else [one["id"] for one in found.told["instances"]]
            now = time.monotonic()
            for name in running:
                if not name.endswith(".held"):
                    self._ends.setdefault(name, now + self._rng.uniform(*_RUNS) * self._lifetimes(name))
            due = [name for name in running if self._ends.get(name, now + 1) <= now]
            await asyncio.gather(*(self._calls.ask("DELETE", f"{self._calls.cloud}/instances/{name}") for name in due))
            await asyncio.sleep(_LOOK_S)


async def operate(calls: Calls) -> None:
    """Be the operator of a site, who resumes peers that the breaker has paused: faults are no lies."""
    while True:
        found = await calls.ask("GET", "/peers")
        paused = [] if found is None else [one["name"] for one in found.told["peers"] if one["paused_because"]]
        for name in paused:
            await calls.ask("POST", f"/peers/{name}/resume")
        await asyncio.sleep(_RESUME_S)
