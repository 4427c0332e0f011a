"""The worker's part in data: what is pulled from peers, when a job's inputs are complete, what is left to be removed.

One worker at a time tends the data of a cloud, because it holds the lock of it. What is to be moved stands in the
database and what has come in a file: a worker that takes over goes on where the file ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any, Self

from app.admission.quote import Quotes, quotes_in_force
from app.domain.events import Event, Recorded
from app.domain.jobs import AttemptKey, DataFault, Word
from app.domain.times import SECOND_US
from app.engine.cloud import Cloud, run_name
from app.federation.collecting import OutputCollector
from app.federation.links import Links, PeerLink
from app.federation.rules.data import Direction, Transfer, delivered_place, input_place, output_place, pause_s
from app.federation.rules.foreignside import decide_staged, decide_taken, decide_unstaged
from app.federation.rules.links import LEAST_SAMPLE_BYTES, alone, shared_us
from app.federation.store import PeerStore, Transfers
from app.platform.database.lockids import data_lock
from app.platform.database.locks import Locks
from app.platform.outbound.objects import NoSuchObject, ObjectStore, StoreUnavailable
from app.platform.outbound.pulling import Pull, Puller, PullFault
from app.platform.telemetry.metrics import TRANSFER_BYTES, TRANSFER_FAULTS, TRANSFER_RATIO, TRANSFER_S, count_jobs
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess

logger = logging.getLogger(__name__)

_TURN_S = 0.5
_READ = 1 << 20

NewestQuotes = Callable[[int], Coroutine[Any, Any, Quotes | None]]
MoveObject = Callable[[Transfer], Coroutine[Any, Any, int]]
"""Moves an object, and returns the bytes that came over a link for it."""
MovePlaces = defaultdict[str, asyncio.Semaphore]
"""By peer: one whose store is slow keeps no other one waiting."""
DecideNow = Callable[[Cloud, int], Sequence[Event]]
Attend = Callable[[], Coroutine[Any, Any, None]]
"""Does what is due for an object or more of one attempt."""


@dataclass(frozen=True, slots=True)
class TransferParts:
    """The parts that tend data. `spool`: the folder of what has not come in full; `at_once`: moves with one peer."""

    clouds: Clouds
    states: States
    locks: Locks
    transfers: Transfers
    links: Links
    peers: PeerStore
    quotes: NewestQuotes
    now_us: Callable[[], int]
    spool: Path
    at_once: int


class DataKeeper:
    """Tends the data of all clouds. Without an object store there is none."""

    def __init__(
        self, parts: TransferParts, objects: ObjectStore | None, puller: Puller, collector: OutputCollector
    ) -> None:
        self._parts, self._objects, self._puller, self._collector = parts, objects, puller, collector
        self._tending: dict[int, asyncio.Task[None]] = {}
        self._places: MovePlaces = defaultdict(lambda: asyncio.Semaphore(parts.at_once))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tending.values():
            task.cancel()
        await asyncio.gather(*self._tending.values(), return_exceptions=True)

    async def keep_data(self) -> int:
        """Begin to tend each cloud that has data on its way; return how many are tended."""
        if self._objects is None:
            return 0
        over = [self._tending.pop(cloud_id) for cloud_id in [*self._tending] if self._tending[cloud_id].done()]
        errors = [error for task in over if not task.cancelled() and (error := task.exception()) is not None]
        known = await self._parts.transfers.clouds()
        for name, cloud_id in (await self._parts.clouds.list()).items():
            has_work = cloud_id in known or bool((await self._parts.states.current(cloud_id)).jobs.collecting)
            if has_work and cloud_id not in self._tending:
                tender = Tender(cloud_id, name, self._parts, self._objects, self._puller, self._collector, self._places)
                self._tending[cloud_id] = asyncio.create_task(tender.tend())
        if errors:
            raise BaseExceptionGroup("data was left alone", errors)
        return len(self._tending)


class Tender:
    """Tends the data of one cloud, as long as there is any."""

    def __init__(
        self,
        cloud_id: int,
        name: str,
        parts: TransferParts,
        objects: ObjectStore,
        puller: Puller,
        collector: OutputCollector,
        places: MovePlaces,
    ) -> None:
        self._cloud_id, self._name, self._parts = cloud_id, name, parts
        self._objects, self._puller, self._collector, self._places = objects, puller, collector, places
        self._moves: dict[int, asyncio.Task[None]] = {}
        self._came: defaultdict[int, int] = defaultdict(int)

    async def tend(self) -> None:
        """Take turns until nothing is left, or until another process has the lock."""
        async with self._parts.locks.held(data_lock(self._cloud_id)) as hold:
            try:
                while hold is not None and await self._turn():
                    await hold.check()
                    await asyncio.sleep(_TURN_S)
                if hold is not None:
                    self._sweep()
            finally:
                await self._collector.end(self._cloud_id)
                for move in self._moves.values():
                    move.cancel()
                await asyncio.gather(*self._moves.values(), return_exceptions=True)

    def _sweep(self) -> None:
        """Remove files that nothing is pulled into any more."""
        for part in self._parts.spool.glob(f"{self._cloud_id}.*.part"):
            part.unlink(missing_ok=True)

    async def _turn(self) -> bool:
        """Do what is due; return False if nothing is left."""
        came = {name: self._came[name] for name in [*self._came]}
        await self._parts.transfers.came(came)
        for name in [name for name, move in self._moves.items() if move.done()]:
            self._came.pop(name, None)
            if not (move := self._moves.pop(name)).cancelled():  # as one is whose attempt is over
                move.result()
        rows = await self._parts.transfers.of_cloud(self._cloud_id)
        cloud = await self._parts.states.current(self._cloud_id)
        # What is due is found before anything is waited for: a moment later the state may have events that fail.
        due = [
            self._due(cloud, Direction(direction), key, [*found])
            for (direction, key), found in groupby(sorted(rows, key=_group), key=_group)
        ]
        for attend in due:
            await attend()
        cloud = await self._parts.states.current(self._cloud_id)
        return bool(await self._collector.collect((self._cloud_id, self._name), cloud, rows, self._append) or rows)

    def _due(self, cloud: Cloud, direction: Direction, key: AttemptKey, rows: list[Transfer]) -> Attend:
        match direction:
            case Direction.IN:
                return partial(self._stage, cloud.jobs.host.word_on(key), key, rows)
            case Direction.SEAL:
                return partial(self._seal, cloud.jobs.host.word_on(key), key, rows)
            case Direction.OUT if key.job in cloud.jobs.collecting:
                return partial(self._collect, rows)
            case Direction.SENT if key.job not in cloud.jobs.by_id:
                return partial(self._parts.transfers.forget, [one.id for one in rows])
        return _nothing

    async def _collect(self, rows: list[Transfer]) -> None:
        self._begin(rows, self._pull)

    async def _stage(self, word: Word, key: AttemptKey, rows: list[Transfer]) -> None:
        """Bring the inputs of an attempt here, and start it once all are; remove them once it is over."""
        match word:
            case Word.STAGING:
                failed = next((DataFault(one.fault) for one in rows if one.state == "failed" and one.fault), None)
                if failed is not None:
                    logger.warning("inputs of a peer's job cannot be had: %s", failed, extra={"peer": key.origin})
                    await self._append(lambda cloud, at_us: decide_unstaged(cloud, key, failed, at_us))
                elif all(one.state == "stored" for one in rows):
                    await self._start(key)
                else:
                    self._begin(rows, self._pull)
            case Word.HELD | Word.RUNNING:
                return
            case _:
                await self._remove(rows, lambda one: input_place(self._name, key, one.key))

    async def _start(self, key: AttemptKey) -> None:
        table = await self._parts.quotes(self._cloud_id)

        def decide(cloud: Cloud, at_us: int) -> Sequence[Event]:
            quotes = None if table is None else quotes_in_force(table, cloud, cloud.flavors, at_us)
            return decide_staged(cloud, key, quotes, at_us)

        await self._append(decide, key)

    async def _seal(self, word: Word, key: AttemptKey, rows: list[Transfer]) -> None:
        """Read the outputs of an attempt that finished; remove them once nobody needs them."""
        is_wanted = word is Word.FINISHED and all(one.state != "over" for one in rows)
        if is_wanted:
            self._begin(rows, self._digest)
        elif word not in {Word.HELD, Word.STAGING, Word.RUNNING}:
            await self._remove(rows, lambda one: output_place(self._name, key, one.key))

    def _begin(self, rows: list[Transfer], move: MoveObject) -> None:
        for one in rows:
            if one.state == "waiting" and one.is_due and one.id not in self._moves:
                self._moves[one.id] = asyncio.create_task(self._moved(one, move))

    async def _moved(self, one: Transfer, move: MoveObject) -> None:
        """Move an object, and enter what became of it."""
        async with self._places[one.peer]:
            link = await self._parts.links.of(one.peer, Direction(one.direction))
            began_s = monotonic()
            try:
                came = await move(one)
            except PullFault as error:
                fault = error.fault
            except NoSuchObject:
                fault = DataFault.MISSING
            except StoreUnavailable:
                fault = DataFault.STORE
            except OSError:
                fault = DataFault.SPOOL
            else:
                await self._measured(one, came, round((monotonic() - began_s) * SECOND_US), link)
                return
        TRANSFER_FAULTS.labels(one.peer, one.direction, fault.value).inc()
        if fault.is_final:
            self._part(one).unlink(missing_ok=True)
        await self._parts.transfers.faulted(one.id, fault, pause_s(one.faults))

    async def _measured(self, one: Transfer, came: int, took_us: int, link: PeerLink) -> None:
        """Enter how long an object took, what that tells of its link, and of what was known of that when it began."""
        TRANSFER_S.labels(one.direction).observe(took_us / SECOND_US)
        if came < LEAST_SAMPLE_BYTES:
            return
        sharing = min(max(link.active, 1), max(self._parts.at_once - 1, 1))  # itself too; no more come than have places
        await self._parts.links.came(one.peer, Direction(one.direction), alone(came, sharing), took_us)
        if link.rate is not None:
            expected_us = shared_us(link.rate, came, sharing)
            TRANSFER_RATIO.labels(one.peer, one.direction).observe(took_us / expected_us)

    async def _pull(self, one: Transfer) -> int:
        """Bring an object into a file, compare its digest, and put it into the store.

        Returns how many bytes came in the time that this took: none of one that was resumed, of which all is read and
        put for the few that were left.
        """
        part = self._part(one)
        part.parent.mkdir(parents=True, exist_ok=True)
        had = part.stat().st_size if part.exists() else 0
        self._came[one.id] = had

        def came(count: int) -> None:
            self._came[one.id] += count
            TRANSFER_BYTES.labels(one.peer, one.direction).inc(count)

        await self._puller.pull(Pull(one.url or "", part, one.bytes), came)
        digest = await asyncio.to_thread(_digest_of, part)
        if digest != one.sha256:
            part.unlink()
            raise PullFault(DataFault.UNREACHABLE if had else DataFault.DIGEST)  # once more, and from its beginning
        await self._objects.put_file(self._place(one), part)
        await self._parts.transfers.stored(one.id, one.bytes, digest)
        part.unlink()
        return 0 if had else one.bytes

    async def _digest(self, one: Transfer) -> int:
        """Read an output of a job here for its size and its digest."""
        size, digest = 0, hashlib.sha256()
        async for piece in self._objects.read(output_place(self._name, one.of, one.key)):
            size += len(piece)
            if size > one.bytes:
                raise PullFault(DataFault.SIZE)
            await asyncio.to_thread(digest.update, piece)
        await self._parts.transfers.stored(one.id, size, digest.hexdigest())
        return 0

    async def _remove(self, rows: list[Transfer], place: Callable[[Transfer], str]) -> None:
        """Remove objects, what has come of them, and their entries; what cannot be removed now is later."""
        for one in rows:
            move = self._moves.get(one.id)
            if move is not None:
                move.cancel()
                continue
            try:
                await self._objects.delete(place(one))
            except StoreUnavailable:
                logger.warning("the object store does not remove an object; it is tried again")
                return
            self._part(one).unlink(missing_ok=True)
            await self._parts.transfers.forget([one.id])

    async def _append(self, decide: DecideNow, starts: AttemptKey | None = None) -> int:
        """Write down what follows. `starts`: what it starts, which ends instead if its instance's name is taken."""

        async def decided(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            now_us = cloud.present_us(self._parts.now_us())
            if starts is not None and await log.starts(self._cloud_id, [run_name(starts)]):
                return [cloud.apply(event) for event in decide_taken(cloud, starts, now_us)]
            return [cloud.apply(event) for event in decide(cloud, now_us)]

        recorded = await self._parts.states.appender(self._cloud_id).append_decided(decided)
        count_jobs(self._name, recorded)
        return len(recorded)

    def _part(self, one: Transfer) -> Path:
        return self._parts.spool / f"{self._cloud_id}.{one.id}.part"

    def _place(self, one: Transfer) -> str:
        if one.direction == Direction.IN:
            return input_place(self._name, one.of, one.key)
        return delivered_place(self._name, one.job, one.key)


def _group(one: Transfer) -> tuple[str, AttemptKey]:
    return one.direction, one.of


async def _nothing() -> None:
    return


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
