"""Stores of other organisations that answer so as to keep the event loop busy: a pull from one ends soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.domain.jobs import DataFault
from app.platform.outbound.connection import INFORMATIONAL_MAX
from app.platform.outbound.pulling import Pull, Puller, PullFault

pytestmark = pytest.mark.anyio
SIZE = 1000


async def pulled_from(answer: bytes, path: Path) -> list[int]:
    """Pull an object of SIZE bytes from a store that answers so; return the sizes of the pieces that came."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()  # until the puller has had enough
        writer.close()

    came: list[int] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/object"
        async with Puller(allow_private=True, bytes_per_s=0) as puller:
            await asyncio.wait_for(puller.pull(Pull(url, path, SIZE), came.append), 10)
    finally:
        server.close()
    return came


async def test_an_answer_after_few_informational_ones_is_taken(tmp_path: Path) -> None:
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (SIZE, b"x" * SIZE)
    assert (
        sum(await pulled_from(b"HTTP/1.1 103 Early Hints\r\n\r\n" * INFORMATIONAL_MAX + whole, tmp_path / "part"))
        == SIZE
    )
    assert (tmp_path / "part").read_bytes() == b"x" * SIZE


async def test_endless_informational_answers_are_not_read(tmp_path: Path) -> None:
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (SIZE, b"x" * SIZE)
    with pytest.raises(PullFault) as refused:
        await pulled_from(b"HTTP/1.1 103 Early Hints\r\n\r\n" * (INFORMATIONAL_MAX + 1) + whole, tmp_path / "part")
    assert refused.value.fault is DataFault.UNREACHABLE


@pytest.mark.parametrize("length", [b"", b"content-length: %d\r\n" % SIZE])
async def test_an_object_in_chunks_of_a_byte_is_not_read(tmp_path: Path, length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n%stransfer-encoding: chunked\r\n\r\n" % length
    with pytest.raises(PullFault) as refused:
        await pulled_from(head + b"1\r\nx\r\n" * SIZE + b"0\r\n\r\n", tmp_path / "part")
    assert refused.value.fault is DataFault.UNREACHABLE
    assert (tmp_path / "part").stat().st_size == 0


async def test_the_rest_of_an_object_in_chunks_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"x" * 400)
    ranged = b"content-range: bytes 400-%d/%d\r\n" % (SIZE - 1, SIZE)
    head = b"HTTP/1.1 206 Partial Content\r\n%stransfer-encoding: chunked\r\n\r\n" % ranged
    with pytest.raises(PullFault):
        await pulled_from(head + b"1\r\nx\r\n" * (SIZE - 400) + b"0\r\n\r\n", tmp_path / "part")
    assert (tmp_path / "part").stat().st_size == 400
