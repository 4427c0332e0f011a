"""A way to a store that counts what comes over it, is slow, and is cut in the middle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 16 * 1024


class Link:
    """A port of this machine that leads to another one. `cut_after`: the bytes of answers after which it is cut, once.

    `bytes_per_s`: what it lets through to all askers together; 0: all.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.cut_after: int | None = None
        self.bytes_per_s = 0
        self.came = 0
        self.connections = 0
        self._pacing, self._free_at_s = threading.Lock(), 0.0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                asker, _ = self._server.accept()
                self.connections += 1
                store = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._there, args=(asker, store), daemon=True).start()
                threading.Thread(target=self._back, args=(store, asker), daemon=True).start()

    def _there(self, asker: socket.socket, store: socket.socket) -> None:
        with suppress(OSError):
            while data := asker.recv(_PIECE):
                store.sendall(data)
            store.shutdown(socket.SHUT_WR)

    def _back(self, store: socket.socket, asker: socket.socket) -> None:
        with suppress(OSError):
            while data := store.recv(_PIECE):
                self._pass(len(data))
                asker.sendall(data)
                self.came += len(data)
                if self.cut_after is not None and self.came >= self.cut_after:
                    self.cut_after = None
                    break
        for one in (store, asker):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _pass(self, size: int) -> None:
        """Wait until so many bytes are through."""
        if not self.bytes_per_s:
            return
        with self._pacing:
            now_s = time.monotonic()
            self._free_at_s = max(self._free_at_s, now_s) + size / self.bytes_per_s
            wait_s = self._free_at_s - now_s
        time.sleep(wait_s)


@contextmanager
def link_to(port: int) -> Iterator[Link]:
    link = Link(port)
    try:
        yield link
    finally:
        link.close()
