"""Loading a long log: other tasks have their turns while it is folded, and a load that is broken off goes on later."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest

from app.domain.events import CloudCreated, Event, NodeAdded, NodeRemoved, Recorded
from app.domain.values import Policy, Resources
from app.engine.cloud import LONGEST_RUN
from app.platform import turns
from app.platform.database.database import Database
from app.scheduling.states import MarkedState, catch_up
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

pytestmark = pytest.mark.anyio
_names = count(1)
_EVENTS = 5000


async def churned(database: Database) -> int:
    """Write a log of a node that comes and goes."""
    created = Recorded(1, CloudCreated(at_us=0, policy=Policy()))
    cloud_id = await Clouds(database).create(f"catching-up-{next(_names)}", created)
    pair: list[Event] = [NodeAdded(at_us=0, node="n", capacity=Resources(1)), NodeRemoved(at_us=0, node="n")]
    log = EventLog(database)
    for first in range(2, _EVENTS, 1000):
        await log.append(cloud_id, [Recorded(seq, pair[seq % 2]) for seq in range(first, first + 1000)])
    return cloud_id


async def test_others_have_turns_while_a_log_is_folded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud_id, state = await churned(database), MarkedState()
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    seqs = [0]
    loading = asyncio.create_task(catch_up(state, cloud_id, EventLog(database)))
    while not loading.done():
        await asyncio.sleep(0)
        seqs.append(state.cloud.seq)
    await loading
    assert state.cloud.seq == state.mark.seq == _EVENTS + 1
    assert max(after - before for before, after in pairwise(seqs)) <= LONGEST_RUN


async def test_a_fold_that_is_broken_off_goes_on_later(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud_id, log = await churned(database), EventLog(database)
    whole, state = MarkedState(), MarkedState()
    await catch_up(whole, cloud_id, log)
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    loading = asyncio.create_task(catch_up(state, cloud_id, log))
    while state.cloud.seq in (0, 2000, 4000):  # noqa: ASYNC110 - a fold that is half done has no event
        await asyncio.sleep(0)
    loading.cancel()
    await asyncio.gather(loading, return_exceptions=True)
    assert 0 < state.cloud.seq < _EVENTS
    await catch_up(state, cloud_id, log)
    assert (state.cloud.digest(), state.mark) == (whole.cloud.digest(), whole.mark)
