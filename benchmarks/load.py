"""A lean HTTP/1.1 load client: a few dozen kept connections, one request at a time on each.

It parses just enough of an answer to find its end and its status, so that on a two-core machine the server is measured
and not the client. Run as a process of its own; prints one JSON object.

    python -m benchmarks.load --port 8080 --connections 32 --seconds 5 < requests.bin

The requests come on standard input, each as 4 bytes of big-endian length and the raw request.
Each connection takes the next request of the list; the run ends when time or the list is over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import uvloop


class Connection(asyncio.Protocol):
    """Sends a request, waits for its whole answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], statuses: Counter[int], latencies: list[float]) -> None:
        self.requests, self.statuses, self.latencies = requests, statuses, latencies
        self.buffer = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        header = self.buffer[:head].lower()
        at = header.find(b"content-length:")
        length = int(header[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.buffer) < head + 4 + length:
            return
        self.latencies.append(time.perf_counter() - self.sent)
        self.statuses[int(header[9:12])] += 1
        self.buffer = self.buffer[head + 4 + length :]
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def _send(self) -> None:
        request = next(self.requests, None)
        if request is None:
            if not self.finished.done():
                self.finished.set_result(None)
            return
        self.sent = time.perf_counter()
        self.transport.write(request)  # type: ignore[attr-defined]


def until(requests: list[bytes], deadline: float) -> Iterator[bytes]:
    """Yield the requests in order, until they or the time are over."""
    for request in requests:
        if time.perf_counter() > deadline:
            return
        yield request


def read_frames(data: bytes) -> list[bytes]:
    """Read the framed requests of standard input."""
    frames, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        frames.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return frames


def frame(request: bytes) -> bytes:
    """Return one framed request."""
    return struct.pack(">I", len(request)) + request


async def drive(port: int, connections: int, seconds: float, requests: list[bytes]) -> dict[str, object]:
    """Send the requests and measure: rate, latencies in milliseconds, statuses."""
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    source = until(requests, start + seconds)
    made = [
        await loop.create_connection(lambda: Connection(source, statuses, latencies), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.finished for _, protocol in made))
    wall_s = time.perf_counter() - start
    for transport, _ in made:
        transport.close()
    p50, p99 = (np.percentile(latencies, [50, 99]) * 1000).round(2).tolist()
    return {
        "requests": len(latencies),
        "per_second": round(len(latencies) / wall_s, 1),
        "p50_ms": p50,
        "p99_ms": p99,
        "statuses": dict(statuses),
        "ran_out": len(latencies) >= len(requests),
    }


def main() -> None:
    """Read requests, drive, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    requests = read_frames(sys.stdin.buffer.read())
    print(json.dumps(uvloop.run(drive(options.port, options.connections, options.seconds, requests))))


if __name__ == "__main__":
    main()
