"""The port on which the daemon beside Nova tells its figures."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack

import httpx2
import pytest

from app.nova.figures import NovaFigures

HALF = b"GET /metrics HTTP/1.1\r\nHost: here\r\n"


def test_connections_that_stay_open_keep_out_nobody() -> None:
    figures = NovaFigures()
    figures.notifications.inc(3)
    port = figures.serve("127.0.0.1", 0)
    before = threading.active_count()
    with ExitStack() as held:
        for _ in range(60):
            idle = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            idle.sendall(HALF)
        told = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
        assert told.status_code == 200
        assert "tenure_nova_notifications_total 3.0" in told.text
        assert threading.active_count() - before <= 21


def test_a_silent_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.nova.serving._MetricsHandler.timeout", 0.2)
    port = NovaFigures().serve("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as silent:
        silent.sendall(HALF)
        assert silent.recv(1) == b""


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        NovaFigures().serve("127.0.0.1", other.getsockname()[1])
