"""A server that speaks the wire of Amazon's EC2 as far as spot prices go, with what can go wrong at its side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

Price = tuple[str, str, str, str]
"""Zone, machine type, time, price."""
Answer = tuple[int, str]
_NAMES = ("availabilityZone", "instanceType", "timestamp", "spotPrice")


@dataclass
class SpotStub:
    """`answer` gives status and body for a request's token; `asked` holds the requests' fields."""

    url: str = ""
    answer: Callable[[str | None], Answer] = lambda _: page([])
    asked: list[dict[str, str]] = field(default_factory=list)


def page(prices: list[Price], token: str = "") -> Answer:
    """Return a page of prices in the wire's form."""
    rows = [
        "".join(f"<{name}>{escape(word)}</{name}>" for name, word in zip(_NAMES, one, strict=True)) for one in prices
    ]
    items = "".join(f"<item>{row}<productDescription>Linux/UNIX</productDescription></item>" for row in rows)
    inner = f"<requestId>r</requestId><spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken>{token}</nextToken>"
    name, space = "DescribeSpotPriceHistoryResponse", "http://ec2.amazonaws.com/doc/2016-11-15/"
    return 200, f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{space}">{inner}</{name}>'


def refusal(code: str, status: int, message: str = "no") -> Answer:
    """Return an error in the wire's form."""
    told = f"<Code>{code}</Code><Message>{message}</Message>"
    return status, f"<Response><Errors><Error>{told}</Error></Errors><RequestID>r</RequestID></Response>"


@contextmanager
def spot_stub() -> Iterator[SpotStub]:
    """Serve until the block ends."""
    stub = SpotStub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked = {name: values[0] for name, values in parse_qs(text).items()}
            stub.asked.append(asked)
            status, body = stub.answer(asked.get("NextToken"))
            self.send_response(status)
            self.send_header("Content-Type", "text/xml;charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
