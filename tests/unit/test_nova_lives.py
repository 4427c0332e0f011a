"""The lives of a server: the last one, and the one that counts, are found with few questions and as by a walk."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from app.nova.books import TenureSide
from app.nova.rules.lives import Life, life_of
from tenure_client import NotFound

SERVER = "3f0a6c54-f8f9-4b0e-9f6f-3a0d4a0f2c11"
KINDS = [("stopped", "spot"), ("evicted", "spot"), ("rejected", "spot"), ("stopped", "on_demand")]


class Log:
    """A cloud of Tenure in which a server has had some lives, the first one first."""

    def __init__(self) -> None:
        self.lives: list[tuple[str, str]] = []
        self.asked = 0

    def instance(self, _cloud: str, name: str) -> Any:
        self.asked += 1
        life = life_of(name)
        assert life is not None
        if life.number > len(self.lives):
            raise NotFound(404, "preemptible.instance.not_found", "there is none")
        status, market = self.lives[life.number - 1]
        return SimpleNamespace(
            id=name,
            status=status,
            market=market,
            node="a",
            flavor="small",
            at=None,
            lifetime_s=None,
            quote=None,
            ended_at=None,
            observed=False,
        )

    def flavors(self, _cloud: str) -> list[Any]:
        return []

    def handovers(self, _cloud: str) -> list[Any]:
        return []

    def by_a_walk(self) -> Life | None:
        """Return the life that counts: refusals to let an evicted spot server begin anew do not."""
        found: int | None = None
        for number, (status, market) in enumerate(self.lives, 1):
            before = None if found is None else self.lives[found - 1][0]
            if not (status == "rejected" and market == "spot" and before == "evicted"):
                found = number
        return None if found is None else Life(SERVER, found)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def side(log: Log) -> TenureSide:
    client: Any = log
    return TenureSide(client, client, "lab")


def found(side: TenureSide) -> Life | None:
    known = side.newest(SERVER)
    return None if known is None else known.life


@pytest.mark.parametrize("seed", range(40))
def test_the_life_that_counts_is_the_one_that_a_walk_finds(log: Log, side: TenureSide, seed: int) -> None:
    draw = random.Random(seed)
    assert found(side) is None
    for _ in range(60):
        for _ in range(draw.choice((1, 1, 2, 9))):
            log.lives.append(draw.choice(KINDS))
        assert found(side) == log.by_a_walk()
        if draw.random() < 0.1:
            ended, log.lives[-1] = log.lives[-1], ("running", log.lives[-1][1])
            assert found(side) == Life(SERVER, len(log.lives))
            log.lives[-1] = ended
        if draw.random() < 0.05:  # the log is put back to an earlier state
            del log.lives[draw.randrange(len(log.lives)) :]
            assert found(side) == log.by_a_walk()


def test_many_lives_cost_few_questions(log: Log, side: TenureSide) -> None:
    log.lives = [("stopped", "on_demand")] * 5000
    assert found(side) == Life(SERVER, 5000)
    assert log.asked <= 2 * 13 + 2
    log.asked = 0
    assert found(side) == Life(SERVER, 5000)
    assert log.asked == 2


def test_many_refusals_are_walked_back_once(log: Log, side: TenureSide) -> None:
    log.lives = [("evicted", "spot"), *[("rejected", "spot")] * 300]
    assert found(side) == Life(SERVER, 1)
    log.asked = 0
    log.lives.append(("rejected", "spot"))
    assert found(side) == Life(SERVER, 1)
    assert log.asked <= 5
