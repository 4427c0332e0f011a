"""The only way to write a cloud's log: catch up, decide, append, then keep the decision or leave no trace of it.

A writer decides over the in-memory state, the log folded up to a seq, and appends the events that follow. The log's key
proves that no other writer was faster. If there is nothing to append, the state's seq is compared with the log's last
one instead. If another process was faster, the tail is read and everything is decided again. After a second conflict in
a row this process takes turns for a while, so that two busy processes do not overtake each other for ever. After a
fourth it asks the others to take turns, too: one that is always the faster has no conflicts, and would not know. A
process stops waiting for a turn that does not come soon, because the holder may be stopped.

Signals tell of what other processes write (scheduling/log_heads.py). A writer that heard of some reads it before it
decides, instead of finding out by a conflict. A signal is a hint; nothing rests on it.

If the log does not contain the state's last event, it was restored from a backup: the state is dropped and loaded anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from math import inf
from time import monotonic, perf_counter

from app.domain.errors import LogContended, LogUnavailable
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.platform.asked import Askers, CommonTurns, counted_since, for_all, waiting_since
from app.platform.telemetry.metrics import APPEND_S
from app.platform.telemetry.tracing import TRACES
from app.platform.turns import COLLECTOR
from app.scheduling.log_heads import LogHeads
from app.scheduling.states import MarkedState, catch_up, load_state
from app.scheduling.store.conflicts import InstanceTaken, PredecessorMissing, SeqConflict, TurnLost
from app.scheduling.store.log import EventLog, EventMark, LogAccess
from app.scheduling.store.snapshots import Snapshots

_TRIES = 20
_TAKE_TURNS_S = 5.0
_CONFLICTS = 2
"""After so many in a row a process takes turns. One alone is mostly that of a worker, which writes now and then."""
_ASKS_FOR_TURNS = 4
"""After so many in a row a process asks the others to take turns."""
_KEEPS_UP_S = 5.0
"""The time after a decision in which a process reads what others write before it is asked to."""

Decide = Callable[[Cloud, LogAccess], Awaitable[Sequence[Recorded]]]
"""Applies events to the state and returns them. It reads the log only through its argument. It may be called again, on
a state without the events that it applied before.
"""


class StateBehind(Exception):
    """The state was not the newest one, and the decision over it wrote nothing that would have shown this."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The needs of appenders: the log, its snapshots, and the listener for every commit."""

    log: EventLog
    snapshots: Snapshots
    heads: LogHeads


class Appender:
    """Keeps one cloud's state in step with its log, and appends to it.

    `lost` is called with the reason if a decision did not reach the log, `grew` if another process wrote. `find`
    returns the number of the cloud, anew for each load: a restored database may know the cloud by another one.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[int]],
        logs: Logs,
        lost: Callable[[str], None] = lambda _: None,
        grew: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = MarkedState()
        self.cloud_id = 0
        self.looks_up_starts = False
        """True if a decision did not look up a start or an end that the log contained."""
        self.loads = 0
        """The number of times the state was loaded. Copies of the log made before the last time may be of another log.
        """
        self._find = find
        self._logs = logs
        self._lost = lost
        self._grew = grew
        self._in_sync = False
        self._seen_s = -inf
        """The state has all that the log had at this moment of the monotonic clock."""
        self._decided_s = 0.0
        self._take_turns_until = 0.0
        self._loading: asyncio.Task[MarkedState] | None = None
        self._not_loaded_s, self._not_loaded = -inf, ""
        """The moment at which the database last let no state be loaded, and the reason."""
        self._alone = CommonTurns()
        self.askers = Askers()
        """Those who wait for the state, or for a decision: a connection for the log has the turn of any of them."""

    @property
    def cloud(self) -> Cloud:
        """The state, also of events that are decided and not yet in the log."""
        return self.state.cloud

    async def current(self) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        asked_s = monotonic()
        with self.askers.joined(), waiting_since(asked_s):
            async with self._alone.taken(self.askers):
                if self._seen_s <= asked_s:  # else the log was read for another who waited, or written, since
                    self._in_sync = False
                    await self._catch_up()
                return self.cloud

    async def keep_up(self) -> None:
        """Read what others wrote, if this process decided something lately: the next decision then need not."""
        if self._in_sync or monotonic() > self._decided_s + _KEEPS_UP_S:
            return
        with waiting_since(monotonic()):
            async with self._alone.taken(self.askers):
                await self._catch_up()

    async def close(self) -> None:
        """Stop loading."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    async def append_decided(self, decide: Decide) -> Sequence[Recorded]:
        """Decide, make the events durable, and return them. Raise LogContended if others are always faster.

        Errors of `decide` are passed on, and the events that it applied are forgotten.
        """
        async with self._alone.taken(self.askers):
            conflicts = 0
            for _ in range(_TRIES):
                try:
                    return await self._decide_once(decide)
                except SeqConflict:
                    self._lost("conflict")
                    conflicts += 1
                    if conflicts >= _CONFLICTS:
                        self._take_turns()
                    if conflicts == _ASKS_FOR_TURNS:
                        await self._logs.heads.want_turns(self.cloud_id)
                except TurnLost:
                    self._lost("turn_lost")
                    self._take_turns_until = 0.0
                except InstanceTaken:
                    self._lost("instance_taken")
                    self.looks_up_starts = True
                except (PredecessorMissing, StateBehind):
                    continue
                except LogUnavailable:
                    self._lost("unavailable")
                    raise
            raise LogContended(f"other writers were first {_TRIES} times in a row; nothing was decided")

    async def _decide_once(self, decide: Decide) -> Sequence[Recorded]:
        try:
            await self._catch_up()
            async with self._turn() as log:
                recorded = await decide(self.cloud, log)
                began_s = monotonic()
                mark = await self._append(log, recorded)
        except BaseException:
            # The outcome may be unknown; the log will tell.
            self.cloud.rollback()
            self._in_sync = False
            raise
        self.cloud.commit()
        self.state.mark = mark
        self._seen_s, self._decided_s = began_s, monotonic()
        self.looks_up_starts = False
        if recorded:
            self._logs.heads.tell(self.cloud_id, self.cloud.seq)
        return recorded

    async def _append(self, log: LogAccess, recorded: Sequence[Recorded]) -> EventMark:
        """Append, and return the mark of the log's end. Raise StateBehind if nothing would have shown that it moved."""
        if not recorded:
            if await log.last_mark(self.cloud_id) != self.state.mark:
                raise StateBehind
            return self.state.mark
        began = perf_counter()
        with TRACES.span("append", events=len(recorded)):
            mark = await log.append(self.cloud_id, recorded, self.state.mark)
        APPEND_S.observe(perf_counter() - began)
        return mark

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[LogAccess]:
        """Yield the log to read and append to: directly, or for a while after a conflict under a turn."""
        if monotonic() >= self._take_turns_until:
            yield self._logs.log
            return
        async with self._logs.log.locked(self.cloud_id) as turn:
            await catch_up(self.state, self.cloud_id, turn)
            yield turn

    async def _catch_up(self) -> None:
        """Fold the log's events beyond the state: at first use, after a signal, a conflict, or a failed append."""
        if self._in_sync:
            return
        self._in_sync = True  # a signal that comes while the log is read may tell of what the read misses
        began_s = monotonic()
        try:
            await self._read()
        except BaseException:
            self._in_sync, self._seen_s = False, -inf
            raise
        self._seen_s = began_s

    async def _read(self) -> None:
        is_old = self._loading is not None  # begun for a caller before, so it may miss what came since
        if not self.cloud.seq:
            await self._load()
            if not is_old:
                return
        try:
            await catch_up(self.state, self.cloud_id, self._logs.log)
        except PredecessorMissing:
            self._forget()
            await self._load()

    async def _load(self) -> None:
        """Load the state. If a caller stops waiting for it, the next caller does not start over.

        Whoever asked before a load failed for want of the database fails with it: the waits for one after another would
        add up.
        """
        if (counted_since() or inf) < self._not_loaded_s:
            raise LogUnavailable(self._not_loaded)
        old = self._loading
        if old is not None and old.done() and (old.cancelled() or old.exception() is not None):
            self._loading = None  # nobody waited for it, and its error is an old one
        self._loading = self._loading or asyncio.create_task(self._loaded(), context=Context())
        try:
            self.state = await asyncio.shield(self._loading)
        finally:
            if self._loading.done():
                self._loading = None
        self._logs.heads.call_writer(self.cloud_id, self._heard, self._take_turns)

    async def _loaded(self) -> MarkedState:
        try:
            with for_all(self.askers):
                self.cloud_id = await self._find()
                self.loads += 1
                return await load_state(self.cloud_id, self._logs.log, self._logs.snapshots)
        except LogUnavailable as error:
            self._not_loaded_s, self._not_loaded = monotonic(), str(error)
            raise

    def _heard(self, seq: int) -> None:
        """Note that the log reaches to `seq` at least."""
        if seq > self.state.mark.seq:
            self._in_sync = False
            self._grew()

    def _take_turns(self) -> None:
        self._take_turns_until = monotonic() + _TAKE_TURNS_S

    def _forget(self) -> None:
        self._lost("rewound")
        self.state, self._seen_s = MarkedState(), -inf
        COLLECTOR.looks_again()
        self._logs.heads.forget(self.cloud_id)


class States:
    """The states that a worker follows. Each is caught up when it is asked for, and can be appended to."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._appenders: dict[int, Appender] = {}

    async def current(self, cloud_id: int) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        return await self.appender(cloud_id).current()

    def appender(self, cloud_id: int) -> Appender:
        """Return the appender of the cloud's log."""
        if cloud_id not in self._appenders:

            async def same() -> int:
                return cloud_id

            self._appenders[cloud_id] = Appender(same, self._logs)
        return self._appenders[cloud_id]
