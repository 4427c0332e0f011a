"""Writes to a connection that are joined: a head goes out together with the start of its body."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Transport

_STATUS = b"HTTP/1.1 "


class Joined:
    """The transport that answers are written to. It delays a head and sends it together with the start of the body.

    A write is a system call and may wake the reader. Small answers take one instead of two.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write the data; a head may wait a moment for its body."""
        if data.startswith(_STATUS):
            self._head += data
            self._loop.call_soon(self._flush)
        else:
            head, self._head = self._head, b""
            if not self.is_closing():  # the caller may have gone meanwhile
                self._transport.write(head + data if head else data)

    def close(self) -> None:
        """Close the connection after everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            if not self.is_closing():
                self._transport.write(head)
