"""The plan of faults: which, when, on whom. The same seed always draws the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

SERVERS = ("serve-1", "serve-2", "serve-3")
WORKER = "worker-1"
PROCESSES = (*SERVERS, WORKER)
BOUNDED = frozenset({"stop", "vanish", "swallow", "swallow_once", "deafen", "stop_worker", "vanish_worker"})
"""Kinds after which the whole service may pause for a bounded time only."""

_REST_S = (1.5, 3.0)
_FIRST_S = 3.0


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the shortest and longest time that it lasts, and on which processes it falls."""

    name: str
    lasts_s: tuple[float, float]
    targets: tuple[str, ...] = SERVERS


@dataclass(frozen=True)
class Fault:
    """One fault: `at_s` after the load began it falls on `target` for `lasts_s`. `detail` is the kind's own."""

    at_s: float
    kind: str
    target: str
    lasts_s: float
    detail: float


@dataclass(frozen=True)
class Inflicted:
    """A fault that was inflicted, with its moments by the clock of `time.monotonic`."""

    fault: Fault
    begun: float
    ended: float


KINDS = (
    Kind("kill", (0.5, 0.5)),
    Kind("stop", (5.0, 8.0)),
    Kind("cut", (0.5, 0.5)),
    Kind("refuse", (1.0, 3.0)),
    Kind("delay", (2.0, 4.0)),
    Kind("half_close", (0.5, 0.5)),
    Kind("stall", (2.0, 5.0)),
    Kind("swallow", (5.0, 8.0)),
    Kind("swallow_once", (2.0, 3.0)),
    Kind("vanish", (6.0, 9.0)),
    Kind("deafen", (6.0, 8.0)),
    Kind("restart_database", (2.0, 2.0), ("postgresql",)),
    Kind("step_clock", (2.0, 4.0)),
    Kind("kill_worker", (0.5, 0.5), (WORKER,)),
    Kind("stop_worker", (3.0, 6.0), (WORKER,)),
    Kind("vanish_worker", (3.0, 6.0), (WORKER,)),
)


def draw(seed: int, seconds: float) -> list[Fault]:
    """Return the faults that end within so many seconds: rounds of all kinds, each round in an order of its own."""
    faults: list[Fault] = []
    for fault in _endless(random.Random(seed)):
        if fault.at_s + fault.lasts_s > seconds:
            return faults
        faults.append(fault)
    raise AssertionError


def _endless(rng: random.Random) -> Iterator[Fault]:
    at_s = _FIRST_S
    while True:
        for kind in rng.sample(KINDS, len(KINDS)):
            lasts_s = round(rng.uniform(*kind.lasts_s), 2)
            yield Fault(round(at_s, 2), kind.name, rng.choice(kind.targets), lasts_s, rng.random())
            at_s += lasts_s + rng.uniform(*_REST_S)
