"""The plan of a run: which process is killed and which link is cut, in an order that a seed draws."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import permutations

from faults.plan import WORKER

SITES = ("a", "b", "c")
LINKS = tuple(permutations(SITES, 2))
"""From whom to whom."""
SERVE, DATABASE = "serve", "database"
_PARTS = (SERVE, SERVE, WORKER, WORKER, DATABASE)
_RULES = ("cut", "refuse", "stall", "swallow", "vanish", "swallow_once")
_KILLS_A_CUT = 3
_APART_S = (0.2, 1.8)
_DOWN_S = 3.0
_CUT_S = (1.0, 8.0)


@dataclass(frozen=True)
class Kill:
    """kill -9 of a process of a site, `after_s` after the fault before it; it is started again `down_s` later."""

    after_s: float
    site: str
    part: str
    down_s: float


@dataclass(frozen=True)
class Cut:
    """A link from a site to another that is cut or misled for some seconds."""

    after_s: float
    origin: str
    host: str
    rule: str
    lasts_s: float
    detail: float


def draw(seed: int, kills: int) -> list[Kill | Cut]:
    """Draw so many kills, and a third as many cuts among them."""
    rng = random.Random(seed)
    kinds = ["kill"] * kills + ["cut"] * (kills // _KILLS_A_CUT)
    rng.shuffle(kinds)
    return [_kill(rng) if kind == "kill" else _cut(rng) for kind in kinds]


def _kill(rng: random.Random) -> Kill:
    return Kill(rng.uniform(*_APART_S), rng.choice(SITES), rng.choice(_PARTS), rng.uniform(0.0, _DOWN_S))


def _cut(rng: random.Random) -> Cut:
    origin, host = rng.choice(LINKS)
    return Cut(rng.uniform(*_APART_S), origin, host, rng.choice(_RULES), rng.uniform(*_CUT_S), rng.random())
