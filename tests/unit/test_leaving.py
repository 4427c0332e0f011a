"""Work for callers that go away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.platform.http.leaving import while_there


class Connection:
    """A connection that may be closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def request(self) -> Request:
        async def receive() -> dict[str, Any]:
            await self.closed.wait()
            return {"type": "http.disconnect"}

        return Request({"type": "http", "method": "POST", "headers": []}, receive)


@pytest.mark.anyio
async def test_who_stays_gets_what_the_work_returns_or_raises() -> None:
    async def answer(error: Exception | None) -> int:
        await asyncio.sleep(0.3)
        if error:
            raise error
        return 7

    assert await while_there(Connection().request(), answer(None)) == 7
    with pytest.raises(ValueError, match="wrong"):
        await while_there(Connection().request(), answer(ValueError("wrong")))


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["leaves", "is cancelled"])
async def test_the_work_of_who_has_gone_is_over_before_the_request(how: str) -> None:
    ended = list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append("work")

    connection = Connection()
    task = asyncio.create_task(while_there(connection.request(), work()))
    await asyncio.sleep(0.05)
    if how == "leaves":
        connection.closed.set()
        with pytest.raises(ClientDisconnect):
            await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended == ["work"]
