"""Tests that verdicts on estimates are read beside the scrapes: when they are asked for, and seldom."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.errors import CloudNotFound, LogUnavailable
from app.judging.truths import KnownEnd, truths_of
from app.observing import truths
from app.observing.truths import KeptTruths

pytestmark = pytest.mark.anyio


@dataclass
class Log:
    """Stands for the reading of a log: `north` has verdicts on all, one stratum and one flavor."""

    reads: list[str] = field(default_factory=list)
    fails: bool = False

    async def present(self, cloud: str) -> tuple[None, int]:
        if cloud == "gone":
            raise CloudNotFound(cloud)
        return None, 0

    async def read(self, cloud: str, after_seq: int | None, now_us: int) -> Any:
        assert (after_seq, now_us) == (None, 0)
        self.reads.append(cloud)
        if self.fails:
            raise LogUnavailable("away")
        found = tuple(
            truths_of([KnownEnd(1, "<1h", "c1", 0.1, 0.2, number % 2) for number in range(len(self.reads) + 1)])
        )
        return SimpleNamespace(reliability=SimpleNamespace(truths=found))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(truths, "monotonic", lambda: now.s)
    return now


async def test_the_first_scrape_has_them_read_and_later_ones_only_when_they_are_old(clock: SimpleNamespace) -> None:
    log = Log()
    kept = KeptTruths(log, log)  # type: ignore[arg-type]
    assert kept.of("north") == ()
    await kept.read_due()
    assert [(one.name, one.cases, one.evicted) for one in kept.of("north")] == [("all", 2, 1), ("<1h", 2, 1)]
    for _ in range(3):
        clock.s += truths.KEPT_S / 4
        kept.of("north")
        await kept.read_due()
    assert log.reads == ["north"]
    clock.s += truths.KEPT_S / 4
    kept.of("north")
    await kept.read_due()
    assert log.reads == ["north", "north"]


async def test_a_cloud_that_is_gone_or_not_asked_for_any_more_is_not_read(clock: SimpleNamespace) -> None:
    log = Log()
    kept = KeptTruths(log, log)  # type: ignore[arg-type]
    kept.of("north")
    kept.of("gone")
    await kept.read_due()
    assert (log.reads, kept.of("gone")) == (["north"], ())
    clock.s += 3 * truths.KEPT_S
    kept.of("gone")
    await kept.read_due()
    assert log.reads == ["north"]
    assert kept.of("north") == ()


async def test_a_cloud_that_cannot_be_read_keeps_what_it_had_and_the_others_get_their_turn(
    clock: SimpleNamespace,
) -> None:
    log = Log()
    kept = KeptTruths(log, log)  # type: ignore[arg-type]
    kept.of("north")
    await kept.read_due()
    clock.s += truths.KEPT_S
    had, log.fails = kept.of("north"), True
    kept.of("south")
    with pytest.raises(LogUnavailable):
        await kept.read_due()
    assert kept.of("north") == had != ()
    log.fails = False
    await kept.read_due()
    assert log.reads == ["north", "north", "south"]
    assert kept.of("south") != ()
