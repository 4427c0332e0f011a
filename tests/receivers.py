"""A webhook receiver for the tests: a real HTTP server that verifies what it gets with the library's own verifier."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
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
    """Answers as `answer` says, given the id of the message; keeps what it took."""

    answer: Callable[[str], int] = lambda _: 204
    secret: str = ""
    taken: list[Received] = field(default_factory=list)
    tries: list[tuple[str, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook?kind=all"

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
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


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.receive(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler


def data_of(received: Received) -> dict[str, Any]:
    data = received.event.get_data()
    return data if isinstance(data, dict) else json.loads(data or "null")
