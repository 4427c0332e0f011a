"""Looks at very many instances, and by a worker that is killed: bounded turns, nothing lost, nothing extended twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import count

import pytest
from api_service import Service

from app.domain.events import CloudCreated, Event, FlavorAdded, InstanceExtended, InstanceStarted, NodeAdded, Recorded
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import Guarantee, Market, Policy, Resources
from app.domain.wanted import Wanted
from app.engine.cloud import MINUTE_US
from app.notices import looks
from app.processes.wiring import open_database
from app.processes.worker_wiring import WorkerParts, open_worker
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

MANY = 100_000
FEW = 60
AHEAD_US = HOUR_US + MINUTE_US
"""From then on the first look at all of them is due."""
LONGEST_TURN_S = 0.25
"""The longest time of the processor that looks may take before others run."""
POLICY = Policy(guarantee=Guarantee.NONE, horizon_us=2 * HOUR_US, longest_lifetime_us=DAY_US)
_names = (f"many-looks-{number}" for number in count())


def running(how_many: int, at_us: int) -> list[Event]:
    """The log of a cloud whose instances were promised two hours, and want as much as they can get."""
    wanting = {"market": Market.SPOT, "flavor": "c1", "node": "n", "lifetime_us": 2 * HOUR_US, "wanted": Wanted()}
    starts = (InstanceStarted(at_us=at_us, instance_id=f"s{number}", **wanting) for number in range(how_many))  # type: ignore[arg-type]
    return [
        CloudCreated(at_us=at_us, policy=POLICY),
        NodeAdded(at_us=at_us, node="n", capacity=Resources(how_many)),
        FlavorAdded(at_us=at_us, flavor="c1", demand=Resources(1)),
        *starts,
    ]


async def written(service: Service, events: list[Event]) -> int:
    """Write the log of a new cloud, and return the cloud's number."""
    recorded = [Recorded(seq, event) for seq, event in enumerate(events, 1)]
    async with open_database(service.settings) as database:
        cloud_id = await Clouds(database).create(next(_names), recorded[0])
        for begin in range(1, len(recorded), 5000):
            await EventLog(database).append(cloud_id, recorded[begin : begin + 5000])
    return cloud_id


async def extended(service: Service, cloud_id: int) -> list[str]:
    """Return the instances of all extensions in the log, in its order."""
    found, after = [], 0
    async with open_database(service.settings) as database:
        while more := await EventLog(database).tail(cloud_id, after, 20_000):
            found += [item.event.instance_id for item in more if isinstance(item.event, InstanceExtended)]
            after = more[-1].seq
    return found


KILLED = """
import asyncio, sys
from app.notices import looks
from app.platform.settings import Settings
from app.processes.worker_wiring import open_worker

async def run(ahead_us):
    looks.AT_ONCE, append = 4, looks.append_at_end

    async def slowly(*arguments):
        await asyncio.sleep(0.1)
        return await append(*arguments)

    looks.append_at_end = slowly
    async with open_worker(Settings(database_url=sys.argv[1])) as parts:
        now_us = parts.looks._now_us
        parts.looks._now_us = lambda: now_us() + ahead_us
        while True:
            await parts.looks.extend_wanted()

asyncio.run(run(int(sys.argv[2])))
"""


def killed_at(service: Service, cloud_id: int, ahead_us: int, how_many: int) -> int:
    """Let a worker look until so many extensions are in the log, kill it, and return how many there are."""
    worker = subprocess.Popen([sys.executable, "-c", KILLED, str(service.settings.database_url), str(ahead_us)])
    deadline = time.monotonic() + 120
    try:
        while len(found := asyncio.run(extended(service, cloud_id))) < how_many:
            assert time.monotonic() < deadline, len(found)
            time.sleep(0.05)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    return len(asyncio.run(extended(service, cloud_id)))


def test_a_worker_that_is_killed_amid_looks_and_between_them(service: Service) -> None:
    """Kill -9 in the middle of a round, and after one: the next worker takes what is left, and nobody's is repeated."""
    cloud_id = asyncio.run(written(service, running(FEW, time.time_ns() // 1000)))
    assert 8 <= killed_at(service, cloud_id, AHEAD_US, 8) < FEW, "in the middle"
    assert killed_at(service, cloud_id, AHEAD_US, FEW) == FEW, "the next worker goes on, and is killed between looks"
    found = Counter(asyncio.run(extended(service, cloud_id)))
    assert (len(found), set(found.values())) == (FEW, {1})
    later_us = 2 * AHEAD_US + MINUTE_US
    assert killed_at(service, cloud_id, later_us, 2 * FEW) == 2 * FEW, "the next looks come in time"
    later = Counter(asyncio.run(extended(service, cloud_id)))
    assert (len(later), set(later.values())) == (FEW, {2})


async def longest_turn(working: asyncio.Task[int]) -> float:
    """Return the longest time of the processor that this thread took before it let others run."""
    longest, before = 0.0, time.thread_time()
    while not working.done():
        await asyncio.sleep(0.001)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
    return longest


async def looked(parts: WorkerParts) -> tuple[float, float, int]:
    """Take one round of looks: the processor's time for it, the longest turn in it, and how many events came of it."""
    began, working = time.process_time(), asyncio.ensure_future(parts.looks.extend_wanted())
    turn = await longest_turn(working)
    return time.process_time() - began, turn, await working


@pytest.mark.long
def test_a_hundred_thousand_that_are_due_at_once(service: Service) -> None:
    """A round takes no longer for them and keeps nobody waiting; what it leaves is kept for the next ones."""

    async def run() -> None:
        now_us = time.time_ns() // 1000
        cloud_id = await written(service, running(MANY, now_us))
        async with open_worker(service.settings) as parts:
            parts.looks._now_us = lambda: now_us + AHEAD_US
            assert (await parts.looks._states.current(cloud_id)).seq == MANY + 3, "loaded before it is measured"
            rounds = [await looked(parts) for _ in range(3)]
            left = {*parts.looks._left[cloud_id]}
        found = Counter(await extended(service, cloud_id))
        assert [len(found), {*found.values()}] == [sum(count for *_, count in rounds), {1}]
        assert all(count >= looks.AT_ONCE for *_, count in rounds), rounds
        assert (len(left), left & found.keys()) == (MANY - len(found), set()), "nobody is forgotten"
        assert max(took for took, *_ in rounds) < looks.ROUND_S + 2, rounds
        assert max(turn for _, turn, _ in rounds) < LONGEST_TURN_S, rounds

    asyncio.run(run())
