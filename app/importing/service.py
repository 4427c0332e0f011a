"""Imports a past: writes the beginning of a cloud's log from recorded files (docs/import.md).

The events are a function of the files and the options alone, so the log itself tells how far an import has come. The
log must hold the beginning of those events, and the import appends what is missing. An import that was killed continues
where it stood, and a finished one changes nothing. The cloud stays hidden until its import is finished, so no live
event can come between, and no table is computed from half a past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import monotonic, perf_counter

from app.domain.errors import CloudExists
from app.domain.events import Recorded
from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.times import MAX_TIME_US, to_datetime
from app.domain.values import Clock, Policy
from app.forecasts.rules import Run, RunStatus
from app.forecasts.store.runs import Runs
from app.importing.decide_past import PastDecider
from app.importing.errors import CloudNotImported, ImportRefused, ImportRunning, OtherPast
from app.importing.past import Past, Span
from app.importing.rules.otheroptions import begins_live, is_of_an_earlier_version, options_that_differ
from app.importing.store.imports import ImportedClouds
from app.platform.database.lockids import import_lock
from app.platform.database.locks import Locks
from app.scheduling.store.conflicts import PredecessorMissing, SeqConflict
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots

BATCH = 2_000
_LOOK_EVERY_S = 0.2
_TAKEN_UP_S = 15.0
"""A worker that has compiled takes a request up within five seconds."""


@dataclass(frozen=True, slots=True)
class Import:
    """The past to import, and its options. With `as_recorded` times stay; otherwise the past ends now."""

    cloud: str
    past: Past
    span: Span
    policy: Policy
    as_recorded: bool


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the cloud that lived through the past, and how many events were there before.

    `run` is the request for the first table; None unless this import made the cloud visible.
    """

    decider: PastDecider
    there_count: int
    written_count: int
    wall_s: float
    run: Run | None = None


class Imports:
    """Imports pasts into new clouds. `now_us` is the server's clock."""

    def __init__(
        self,
        clouds: ImportedClouds,
        log: EventLog,
        snapshots: Snapshots,
        runs: Runs,
        locks: Locks,
        now_us: Callable[[], int],
    ) -> None:
        self._clouds = clouds
        self._log = log
        self._snapshots = snapshots
        self._runs = runs
        self._locks = locks
        self._now_us = now_us

    async def run(self, wanted: Import, progress: Progress | None = None) -> Imported:
        """Import, or continue an import.

        1. Decide the beginning, and create the cloud with it if there is none. 2. Compare the events with those that
        the log holds. 3. Append what is missing. 4. Make the cloud visible, and ask for its first table.
        """
        began = perf_counter()
        found = await self._clouds.find(wanted.cloud)
        shift_us = await self._shift_us(wanted, found)
        decider = PastDecider(wanted.past, wanted.span, wanted.policy, shift_us)
        events = decider.events()
        first = await _next(events)
        if found is None:
            cloud_id, importing = await self._enter(wanted.cloud, first), True
        else:
            cloud_id, importing = found
        async with self._locks.held(import_lock(cloud_id)) as hold:
            if hold is None:
                raise ImportRunning(f"another process imports cloud {wanted.cloud!r} now")
            writing = _Writing(self._log, wanted.cloud, cloud_id, importing=importing)
            if found is None:
                writing.entered(first)
                first = await _next(events)
            await writing.write(first, events, decider, progress)
            requested = await self._finish(cloud_id, decider) if importing else None
        return Imported(decider, writing.there_count, writing.written_count, perf_counter() - began, requested)

    async def wait_for_table(self, imported: Imported, wait_s: float) -> Run | None:
        """Return the request for the first table once it has ended, nobody is there for it, or time is up.

        One that was disturbed or failed has not ended while it is tried again. A worker that was just installed takes
        it up once it has compiled.
        """
        run, began = imported.run, monotonic()
        while run is not None and (run.status in (RunStatus.PENDING, RunStatus.RUNNING) or run.retry_at is not None):
            waited_s = monotonic() - began
            is_late = run.status == RunStatus.PENDING and waited_s > _TAKEN_UP_S
            if waited_s > wait_s or (is_late and not await self._clouds.anyone_serves()):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
            run = await self._runs.get(run.cloud_id, run.number)
        return run

    async def abandon(self, name: str) -> bool:
        """Remove what an unfinished import of this name has written; return False if there is none."""
        found = await self._clouds.find(name)
        if found is None or not found[1]:
            return False
        async with self._locks.held(import_lock(found[0])) as hold:
            if hold is None:
                raise ImportRunning(f"another process imports cloud {name!r} now")
            await self._clouds.abandon(found[0], await self._log.last_seq(found[0]))
        return True

    async def _finish(self, cloud_id: int, decider: PastDecider) -> Run:
        await self._snapshots.save(cloud_id, decider.cloud)
        return await self._clouds.finish(cloud_id)

    async def _shift_us(self, wanted: Import, found: tuple[int, bool] | None) -> int:
        """Return the time to add to recorded times. A continued import keeps that of its first attempt."""
        if found is not None and not wanted.as_recorded:
            (first,) = await self._log.tail(found[0], 0, 1)
            return first.event.at_us - wanted.span.begin_us
        return choose_shift_us(wanted, self._now_us())

    async def _enter(self, name: str, first: list[Recorded]) -> int:
        try:
            return await self._clouds.begin(name, first)
        except CloudExists as error:
            raise ImportRunning(f"another process began cloud {name!r} at this moment") from error


def rehearse(wanted: Import, now_us: int, progress: Progress | None = None) -> Imported:
    """Decide the past without a database; nothing is kept."""
    began = perf_counter()
    decider, count = PastDecider(wanted.past, wanted.span, wanted.policy, choose_shift_us(wanted, now_us)), 0
    for count, _ in enumerate(decider.events(), 1):
        if progress is not None and count % BATCH == 0:
            progress(decider.steps_done, decider.step_count)
    return Imported(decider, 0, count, perf_counter() - began)


def choose_shift_us(wanted: Import, now_us: int) -> int:
    """Return the time to add to recorded times. Raises InputError if the past is not between 1970 and now."""
    begin_us, end_us = wanted.span.begin_us, wanted.span.begin_us + wanted.span.length_us
    shift_us = 0 if wanted.as_recorded else now_us - end_us
    if begin_us + shift_us < 0:
        raise InputError(f"{', '.join(wanted.past.files)}: the past is longer than the time since 1970")
    if wanted.policy.clock is Clock.SYSTEM and end_us + shift_us > now_us:
        end = to_datetime(min(end_us, MAX_TIME_US)).isoformat()
        raise InputError(f"the past ends at {end}, after now: leave --times recorded out, or take --clock external")
    return shift_us


async def _next(events: Iterator[Recorded]) -> list[Recorded]:
    """Return the next events, decided by a second thread; none at the end."""
    return await asyncio.to_thread(lambda: list(islice(events, BATCH)))


class _Writing:
    """Makes a cloud's log hold the events of a past: compares those that it has and appends the others."""

    def __init__(self, log: EventLog, cloud: str, cloud_id: int, *, importing: bool) -> None:
        self.there_count = 0
        self.written_count = 0
        self._log = log
        self._cloud = cloud
        self._cloud_id = cloud_id
        self._importing = importing
        self._at_end = False
        self._options: list[str] = []

    def entered(self, first: list[Recorded]) -> None:
        """Note that the cloud was created with these events and has no others."""
        self.written_count = len(first)
        self._at_end = True

    async def write(
        self, batch: list[Recorded], events: Iterator[Recorded], decider: PastDecider, progress: Progress | None
    ) -> None:
        """Write this batch and all events that follow. The next batch is decided while one is being written."""
        while batch:
            done = decider.steps_done
            ahead = asyncio.create_task(_next(events))
            try:
                await self._keep(batch)
            finally:
                await asyncio.wait([ahead])
            if progress is not None:
                progress(done, decider.step_count)
            batch = ahead.result()
        if self._options:
            differs = ", ".join(self._options)
            raise CloudNotImported(
                f"cloud {self._cloud!r} has this past already, imported with other options ({differs}): "
                f"PATCH /v1/clouds/{self._cloud} changes all of a cloud's policy but its clock"
            )

    async def _keep(self, batch: list[Recorded]) -> None:
        there = [] if self._at_end else await self._logged(batch)
        for ours, logged in zip(batch, there, strict=False):
            if ours != logged:
                self._compare(ours, logged)
        missing = batch[len(there) :]
        self.there_count += len(there)
        if not missing:
            return
        if not self._importing:
            raise self._other(missing[0].seq)
        self._at_end = True
        try:
            await self._log.append(self._cloud_id, missing)
        except (SeqConflict, PredecessorMissing) as conflict:
            raise ImportRunning(f"another process writes the log of cloud {self._cloud!r}") from conflict
        self.written_count += len(missing)

    async def _logged(self, batch: list[Recorded]) -> list[Recorded]:
        """Return what the log has at the places of these events, read in parts."""
        there, before, is_cut = list[Recorded](), batch[0].seq - 1, True
        while is_cut:
            part = await self._log.tail(self._cloud_id, before + len(there), len(batch) - len(there))
            there += part
            is_cut = part.is_cut
        return there

    def _compare(self, ours: Recorded, logged: Recorded) -> None:
        """Refuse an event that differs. If it is of a finished import and only options do, the others come first."""
        if not self._importing and begins_live(logged.event):
            raise CloudNotImported(f"cloud {self._cloud!r} exists and was not made by this import; give another name")
        options = options_that_differ(ours.event, logged.event)
        if self._importing or options is None:
            self._options += options or []
            raise self._other(logged.seq)
        if not is_of_an_earlier_version(ours.event, logged.event):
            self._options += (one for one in options if one not in self._options)

    def _other(self, seq: int) -> ImportRefused:
        differs = ", ".join([*self._options, f"event {seq} differs"])
        if self._importing:
            return OtherPast(
                f"an import of cloud {self._cloud!r} was begun with other files or options ({differs}): "
                "give those again, or --restart to throw away what it wrote"
            )
        return CloudNotImported(
            f"cloud {self._cloud!r} exists, and its log does not begin with this past ({differs}): "
            "a log begins with its past or has none, so give another name"
        )
