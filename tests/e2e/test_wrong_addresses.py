"""A URL that leads to something else than Tenure, and changes whose answer is lost: a sentence, and exit code 3."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from processes import TOKEN, tenure_here

from app.commands.changing import changing
from app.domain.errors import LogUnavailable
from tenure_client import NotConnected, ServiceUnreachable


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Elsewhere(BaseHTTPRequestHandler):
    """Sends every caller elsewhere, as pages do that want a sign-in."""

    def do_GET(self) -> None:
        self.send_response(303)
        self.send_header("Location", "/sign-in")
        self.send_header("Content-Length", "0")
        self.end_headers()


class Broken(BaseHTTPRequestHandler):
    """Takes every change, and answers that it does not know what became of it. Breaks off where something is read."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = (
            b'{"errors": [{"code": "preemptible.log.unavailable", "status": 503, "title": "t", "detail": "no answer"}]}'
        )
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST  # noqa: N815 - the library's name


def status(url: str) -> str:
    done = tenure_here("status", "--url", url, "--token", TOKEN)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "make run" not in done.stderr, "something does run there"
    return done.stderr


@pytest.mark.parametrize("handler", [SimpleHTTPRequestHandler, Elsewhere])
def test_another_web_server(handler: type[BaseHTTPRequestHandler]) -> None:
    with serving(handler) as there:
        said = status(f"http://{there}")
    assert "what answers there is no Tenure" in said
    assert "http://host:port" in said


def test_https_where_http_is_spoken() -> None:
    with serving(SimpleHTTPRequestHandler) as there:
        assert "write its URL with http://" in status(f"https://{there}")


def test_an_answer_that_breaks_off_is_told_with_what_to_do() -> None:
    with serving(Broken) as there:
        assert status(f"http://{there}").endswith(
            "; the service did not answer to the end: try again, and if it stays so, look into its log\n"
        )


@pytest.mark.parametrize(
    ("command", "look"),
    [
        (["handover", "confirm", "i-1"], "tenure handover list --cloud north"),
        (["webhook", "create", "http://127.0.0.1:1/x"], "tenure webhook list --cloud north"),
        (["webhook", "delete", "1"], "tenure webhook list --cloud north"),
        (["webhook", "pause", "1"], "tenure webhook list --cloud north"),
        (["webhook", "resume", "1"], "tenure webhook list --cloud north"),
        (["webhook", "replay", "1"], "tenure webhook dead 1 --cloud north"),
    ],
)
def test_a_change_may_have_been_made(command: list[str], look: str) -> None:
    with serving(Broken) as there:
        done = tenure_here(*command, "--url", f"http://{there}", "--token", TOKEN, "--cloud", "north")
    assert done.returncode == 3, done.stderr
    assert f"it may have been done all the same: look with `{look}`" in done.stderr


@pytest.mark.parametrize(
    ("error", "notes"), [(ServiceUnreachable("x"), 1), (LogUnavailable("x"), 1), (NotConnected("x"), 0)]
)
def test_only_a_lost_answer_leaves_it_open(error: Exception, notes: int) -> None:
    with pytest.raises(type(error)) as raised, changing("token list"):
        raise error
    assert len(getattr(raised.value, "__notes__", ())) == notes
