"""A webhook receiver for the tests: a real server, of HTTP or HTTPS, that verifies what it gets with the library's own
verifier."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks.webhooks import Webhook


@dataclass
class Received:
    """One request that was taken."""

    webhook_id: str
    event: BaseCloudEvent
    at: float

    @property
    def seq(self) -> int:
        return int(self.event.get_id())


@dataclass
class Receiver:
    """Answers as `answer` says, given the id of the message; keeps what it took, and the first byte of each connection.

    With `tls` over HTTPS, as localhost, and it keeps the names that it was asked to be. `cookie` goes with every
    answer; `cookies` are those that came.
    """

    answer: Callable[[str], int] = lambda _: 204
    secret: str = ""
    tls: ssl.SSLContext | None = None
    cookie: str | None = None
    cookies: list[str] = field(default_factory=list)
    first_bytes: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    taken: list[Received] = field(default_factory=list)
    tries: list[tuple[str, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._server = _Server(self)
        if self.tls is not None:
            self.tls.sni_callback = lambda _, name, __: self.names.append(name)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        place = "http://127.0.0.1" if self.tls is None else "https://localhost"
        return f"{place}:{self._server.server_address[1]}/hook?kind=all"

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> int:
        if not self.secret:  # whoever has made the webhook has not been told it yet
            return 503
        with self._lock:
            self.cookies.extend(value for name, value in headers.items() if name == "cookie")
            status = self.answer(headers.get("webhook-id", ""))
            self.tries.append((headers.get("webhook-id", ""), status))
            try:
                assert path == "/hook?kind=all"
                Webhook(self.secret).verify(body, headers)
                assert headers["content-type"] == "application/cloudevents+json"
                event = from_http_event(HTTPMessage(headers, body))
                if 200 <= status < 300:
                    self.taken.append(Received(headers["webhook-id"], event, time.time()))
            except Exception as error:  # noqa: BLE001 - whatever it was, the test is to see it
                self.wrong.append(f"{type(error).__name__}: {error}: {body!r}")
        return status

    def seqs(self) -> list[int]:
        """The events taken, in the order of their arrival, without those that came again."""
        return list(dict.fromkeys(one.seq for one in self.taken))

    def wait_for(self, holds: Callable[[], bool], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, (self.seqs(), self.tries[-5:], self.wrong[:3])
            time.sleep(0.02)


class _Server(ThreadingHTTPServer):
    def __init__(self, receiver: Receiver) -> None:
        super().__init__(("127.0.0.1", 0), _handler(receiver))
        self._receiver = receiver

    def finish_request(self, request: socket.socket, client_address: Any) -> None:
        """In the connection's own thread; a handshake that fails is for the sender to tell of."""
        self._receiver.first_bytes.append(request.recv(1, socket.MSG_PEEK))
        if self._receiver.tls is None:
            super().finish_request(request, client_address)
            return
        with suppress(OSError), self._receiver.tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) < length:  # the sender has died over it
                self.close_connection = True
                return
            status = receiver.receive(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if receiver.cookie is not None:
                self.send_header("Set-Cookie", receiver.cookie)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler


def data_of(received: Received) -> dict[str, Any]:
    data = received.event.get_data()
    return data if isinstance(data, dict) else json.loads(data or "null")
