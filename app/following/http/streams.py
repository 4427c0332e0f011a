"""Streams of server-sent events as answers. They end soon after their token is revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

from fastapi.sse import EventSourceResponse, format_sse_event
from msgspec.json import encode
from starlette.types import Message, Receive, Scope, Send

from app.domain.errors import LogPutBack, TenureError
from app.following.feed import Feed
from app.platform.http.errors import RequestError, entries_of
from app.platform.http.streams import Check, send_while
from tenure_client.forms.errors import ErrorsAnswer
from tenure_client.forms.events import PUT_BACK

logger = logging.getLogger(__name__)

_STALLED_S = 30.0
"""A reader that takes nothing for this long is dropped; it resumes when it can."""
_RETRY_MS = 1000
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_OPENING = format_sse_event(comment="events follow", retry=_RETRY_MS)
_HEARTBEAT = format_sse_event(comment="heartbeat")


class EventStream(EventSourceResponse):
    """The answer with a log's events after a seq, at most `limit`. It ends once `may_go_on` raises."""

    def __init__(
        self,
        feed: Feed,
        cloud_id: int,
        after_seq: int,
        limit: int | None,
        *,
        owner: int,
        request_id: str,
        may_go_on: Check,
    ) -> None:
        super().__init__(self._frames(feed, cloud_id, after_seq, limit), headers=_HEADERS)
        self._request_id = request_id
        self._feed = feed
        self._owner = owner
        self._may_go_on = may_go_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events as fast as the reader takes them. Raises TooManyStreams before the first byte."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_STALLED_S):
                await send(message)

        with self._feed.place(self._owner):
            if scope["state"].get("is_head"):
                await self._send_head(send)
                return
            try:
                await send_while(self._may_go_on, super().__call__(scope, receive, send_in_time), send)
            except TimeoutError:
                logger.info("%s: the reader of a stream took nothing for %g s", scope["path"], _STALLED_S)

    async def _send_head(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b""})

    async def _frames(self, feed: Feed, cloud_id: int, after_seq: int, limit: int | None) -> AsyncIterator[bytes]:
        yield _OPENING
        left = limit
        async with aclosing(feed.follow(cloud_id, after_seq)) as pages:
            try:
                async for page in pages:
                    shown = page[:left]
                    yield b"".join(event.content for event in shown) or _HEARTBEAT
                    if left is not None:
                        left -= len(shown)
                        if not left:
                            return
            except LogPutBack as error:
                answer = ErrorsAnswer(errors=entries_of(self._request_id, error))
                yield format_sse_event(data_str=encode(answer).decode(), event=PUT_BACK)
            except (TenureError, RequestError) as error:  # too late for a status: the reader comes back and is told
                logger.info("a stream of events ended: %s", error)
