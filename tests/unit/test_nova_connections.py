"""Connections with OpenStack and with Tenure: as many are kept as threads ask at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Thread

import pytest

from app.nova.keeping import _WORKERS
from app.nova.session import OpenStackSession
from tenure_client import TenureClient

ASKING = _WORKERS + 4
"""The workers, the thread of rounds with the one beside it, the one that follows, and one that asks for a token."""


class Answers(BaseHTTPRequestHandler):
    """Keeps connections open. Nobody is answered before everybody has asked."""

    protocol_version = "HTTP/1.1"
    asked: Barrier
    connections: int

    def setup(self) -> None:
        super().setup()
        type(self).connections += 1

    def do_GET(self) -> None:
        self.asked.wait(30)
        body = b'{"clouds": [], "links": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Takes up what everybody asks at once. A connection that waits for its turn too long is asked for again."""

    daemon_threads = True
    request_queue_size = 4 * ASKING


@pytest.fixture
def url() -> Iterator[str]:
    with answering() as url:
        yield url


@contextmanager
def answering() -> Iterator[str]:
    Answers.asked, Answers.connections = Barrier(ASKING), 0
    server = Server(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_no_connection_with_openstack_is_thrown_away(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OS_AUTH_TYPE", "none")
    monkeypatch.setenv("OS_ENDPOINT", url)
    opened = OpenStackSession()  # its connections are closed when nobody holds it any more
    session = opened._connection.session
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(ASKING) as threads:
        for _ in range(2):
            assert all(threads.map(lambda _: session.get(url).ok, range(ASKING)))
    assert "pool is full" not in caplog.text
    assert Answers.connections == ASKING, "the second time all are used again"


def test_no_connection_with_tenure_is_thrown_away(url: str) -> None:
    with TenureClient(url, "x", retry_s=0) as client, ThreadPoolExecutor(ASKING) as threads:
        for _ in range(2):
            assert list(threads.map(lambda _: [*client.clouds()], range(ASKING))) == [[]] * ASKING
    assert Answers.connections == ASKING
