"""Dear requests: few of one caller at a time in a cloud, and few that wait, so that all others have their turns.

A rate alone does not do this: what it lets through in a second may come at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from starlette.requests import ClientDisconnect, Request

from app.platform.asked import came_at, reading
from app.platform.http.errors import RateExceeded
from app.platform.http.rates import COSTS, PEER_MESSAGES, address_of

_NO_READS = {"request_table", "test_webhook", "check_readiness", "report_cluster_events"} | PEER_MESSAGES
READS = COSTS.keys() - _NO_READS
"""Operations that read much.

Of the others that cost more, one waits, one is done elsewhere, one is shared, and those of peers have a rate and turns
of their own.
"""
GREAT_BODIES = {"run_batch", "report_cluster_events", "start_instance", "submit_job", "replay_dead_letters"}
"""Operations whose bodies may be large. Other such bodies are of reads or of peers' messages, which have turns."""
_GREAT = 1 << 14
_READS_AT_ONCE = 2
_SHORT_S = 0.05
_BODIES_AT_ONCE = 8
BODIES_OF_ALL_CLOUDS = 4 * _BODIES_AT_ONCE
"""So many large bodies of a token are read at a time, whatever clouds their paths name; of these some may not exist."""
MOST_BODIES = 128
"""So many more of a token wait unread, over all clouds; more are refused."""
MESSAGES_AT_ONCE = 16
"""So many messages of one peer stand in the line of a cloud, as many as an origin sends side by side.

Others wait before their bodies are read. So another peer's message has few before it.
"""
MESSAGES_OF_ALL_CLOUDS = 4 * MESSAGES_AT_ONCE
_MOST_MESSAGES = 1000
MOST_WAITING = 64
"""So many wait for those before them; more are refused."""
_TOO_MANY = "too many dear requests of the token wait for this cloud"
_PLANS, _ALL_CLOUDS = "all plans", "all clouds"
"""No cloud has these names."""
_SIGN_INS_AT_ONCE = 2
_SIGN_INS_OF_ADDRESS = 8
_AGAIN_S = 1

Key = tuple[int | str | None, str, bool]


@dataclass(slots=True)
class _DearQueue:
    places: asyncio.Semaphore
    count: int = 0


class DearQueues:
    """The dear requests that are served and those that wait, by caller and cloud."""

    def __init__(self) -> None:
        self._queues: dict[Key, _DearQueue] = {}

    @asynccontextmanager
    async def place(
        self, key: Key, at_once: int, most: int = MOST_WAITING, refusal: str = _TOO_MANY
    ) -> AsyncIterator[None]:
        """Give one of `at_once` places as soon as it is free, or raise RateExceeded if `most` requests wait."""
        line = self._queues.setdefault(key, _DearQueue(asyncio.Semaphore(at_once)))
        if line.count >= at_once + most:
            raise RateExceeded(refusal, _AGAIN_S)
        line.count += 1
        came_s = monotonic()
        try:
            async with line.places:
                with came_at(came_s):
                    yield
        finally:
            line.count -= 1
            if not line.count:
                self._queues.pop(key, None)


@asynccontextmanager
async def sign_in_turn(request: Request) -> AsyncIterator[None]:
    """Wait for a place to ask another service for the caller of a name and a password.

    That service takes long for it, and is asked for tokens all the time. Few of one address wait, so that others come.
    """
    lines: DearQueues = request.app.state.dear
    refusal = "too many people are signing in; try it again"
    address = (address_of(request.scope), "sign_in", False)
    async with (
        lines.place(address, _SIGN_INS_AT_ONCE, _SIGN_INS_OF_ADDRESS, refusal),
        lines.place((None, "sign_in", False), _SIGN_INS_AT_ONCE, refusal=refusal),
    ):
        yield


@asynccontextmanager
async def read_in_turn(request: Request) -> AsyncIterator[None]:
    """Wait for a place of the caller's dear reads in the cloud that is asked for.

    Raise ClientDisconnect for who has gone away meanwhile: nothing is read for them.
    """
    came_s = monotonic()
    async with request.app.state.dear.place(_key(request, is_read=True), _READS_AT_ONCE):
        has_waited = monotonic() - came_s > _SHORT_S
        if has_waited and request.method == "GET" and await request.is_disconnected():
            raise ClientDisconnect
        with reading():
            yield


@asynccontextmanager
async def body_in_turn(request: Request) -> AsyncIterator[None]:
    """Wait for a place to read and answer a large body in; a small one needs none."""
    if int(request.headers.get("content-length", _GREAT + 1)) <= _GREAT:
        yield
        return
    lines, key = request.app.state.dear, _key(request, is_read=False)
    everywhere = key[0], _ALL_CLOUDS, False
    async with (
        lines.place(key, _BODIES_AT_ONCE),
        lines.place(everywhere, BODIES_OF_ALL_CLOUDS, MOST_BODIES, "too many large bodies of the token wait"),
    ):
        yield


@asynccontextmanager
async def plan_in_turn(request: Request) -> AsyncIterator[None]:
    """Wait for the caller's other plans, so that those of all callers take turns."""
    caller = request.scope["state"].get("caller")
    key = None if caller is None else caller.id, _PLANS, False
    async with request.app.state.dear.place(key, 1, refusal="too many plans of the token wait"):
        yield


@asynccontextmanager
async def message_in_turn(request: Request) -> AsyncIterator[None]:
    """Wait for a place of the peer's messages in the line of the cloud, over all of its tokens."""
    peer = request.scope["state"]["caller"].name.partition(".")[0]
    lines, cloud = request.app.state.dear, request.path_params["cloud"]
    async with (
        lines.place((peer, cloud, False), MESSAGES_AT_ONCE, _MOST_MESSAGES),
        lines.place((peer, _ALL_CLOUDS, False), MESSAGES_OF_ALL_CLOUDS, _MOST_MESSAGES),
    ):
        yield


def _key(request: Request, *, is_read: bool) -> Key:
    caller = request.scope["state"].get("caller")
    who = address_of(request.scope) if caller is None else caller.id
    return who, request.path_params.get("cloud", ""), is_read
