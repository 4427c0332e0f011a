"""A table's answer is written in pieces, and its bytes are those of the plain form."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime

import numpy as np
import pytest
from msgspec.json import Encoder

from app.domain.times import seconds
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable, make_curve
from app.forecasts.rules import TableSummary
from app.forecasts.wire.forecasts import table_answer
from app.platform.turns import TURN_S, in_turns
from tenure_client.forms.answer import answer_of
from tenure_client.forms.forecasts import BucketAnswer, CurveAnswer, TableAnswer

STORED = TableSummary(epoch=3, epoch_us=1000, seq=42, computed_at=datetime(2026, 1, 2, tzinfo=UTC), wall_s=0.5)
MOST_AT_ONCE = 2000


def bucket_of(slots: int, points: int) -> Bucket:
    times_us = np.cumsum(np.resize([1, 999_999, 500_000, 1_000_000], points))
    return Bucket(slots, points + 1, points, 10**12, times_us, np.arange(1, points + 1) / (points + 1))


def table_with(*points: int) -> QuantileTable:
    curve = make_curve([bucket_of(slots, count) for slots, count in enumerate(points, 1)])
    return QuantileTable(3, 1000, 42, {"large": curve, "none": make_curve([])})


def plain(table: QuantileTable, answer: TableAnswer) -> bytes:
    """Return the answer with every curve written out at once."""
    buckets = [
        answer_of(
            BucketAnswer,
            one,
            longest_s=seconds(one.longest_us),
            times_s=[seconds(us) for us in one.times_us.tolist()],
            levels=one.levels.tolist(),
        )
        for one in table.curve("large").buckets
    ]
    curves = [CurveAnswer(flavor="large", buckets=buckets), CurveAnswer(flavor="none", buckets=[])]
    return Encoder().encode(answer_of(TableAnswer, answer, curves=curves))


def pieces_of(work: Generator[None, None, TableAnswer]) -> tuple[int, TableAnswer]:
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return count, done.value
        count += 1


@pytest.mark.parametrize("points", [(0,), (1,), (1, 0, 7), (MOST_AT_ONCE, MOST_AT_ONCE + 1), (3 * MOST_AT_ONCE + 5, 2)])
def test_the_bytes_are_those_of_the_plain_form(points: tuple[int, ...]) -> None:
    table = table_with(*points)
    count, answer = pieces_of(table_answer("c", STORED, table, ["large", "none"]))
    assert Encoder().encode(answer) == plain(table, answer)
    assert count >= sum(-(-one // MOST_AT_ONCE) for one in points)


@pytest.mark.anyio
async def test_others_have_turns_while_a_table_is_written() -> None:
    passes, is_done = 0, asyncio.Event()

    async def watch() -> None:
        nonlocal passes
        while not is_done.is_set():
            passes += 1
            await asyncio.sleep(0)

    def slow() -> Generator[None, None, int]:
        for _ in range(20):
            until = asyncio.get_running_loop().time() + 1.2 * TURN_S
            while asyncio.get_running_loop().time() < until:
                pass
            yield
        return 19

    watching = asyncio.create_task(watch())
    assert await in_turns(slow()) == 19
    is_done.set()
    await watching
    assert passes > 19
