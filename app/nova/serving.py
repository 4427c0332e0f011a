"""Answers `GET /metrics` of a program that serves nothing else."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

_MOST_OPEN = 20
_SILENCE_S = 10.0


class _MetricsHandler(WSGIRequestHandler):
    """Gives up a connection that is silent, and tells nothing of requests."""

    timeout = _SILENCE_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Tell nothing."""


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection. One too many ends the oldest: who keeps connections open keeps out nobody."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], application: Callable[..., Any]) -> None:
        self._changing, self._open = Lock(), list[socket.socket]()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _MetricsHandler)
        self.set_app(application)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's types
        """Answer in a thread of its own."""
        with self._changing:
            if len(self._open) >= _MOST_OPEN:
                with suppress(OSError):
                    self._open.pop(0).shutdown(socket.SHUT_RDWR)
            self._open.append(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as above
        """End a connection."""
        with self._changing, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Tell nothing of a connection that was cut."""


def serve_metrics(registry: CollectorRegistry, host: str, port: int) -> int:
    """Answer in a thread of its own; return the port, which is a free one for 0. Raises OSError if it is taken."""
    server = _MetricsServer((host, port), make_wsgi_app(registry))
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_port)
