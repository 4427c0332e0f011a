"""Measures what rate limits and the bounds of a connection cost, as a ratio to the same request without them.

Method: one process, no socket. The real application, with empty services so that there is nothing else to measure, runs
behind uvicorn's connection and is fed with the bytes of `GET /v1/clouds` with a token; the answer's bytes end the
request. Rounds of the two kinds alternate; the medians are compared. The absolute difference is what a start or a stop
pays, which takes some ten times as long as this request.

    bare      uvicorn's own connection, and nothing counted
    bounded   the service's connection, and requests counted by token

    python -m benchmarks.door [--requests 5000] [--rounds 15]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.domain.values import Caller, Role
from app.platform.http.addresses import Addresses
from app.platform.http.application import Application
from app.platform.http.connection import BoundedConnection, ConnectionLimits
from app.platform.http.install import install
from app.platform.http.openapi import DESCRIPTION
from app.platform.http.rates import Rates
from app.processes.endpoints import ENDPOINTS
from app.scheduling.scheduler import Scheduler

REQUEST = b"GET /v1/clouds HTTP/1.1\r\nHost: x\r\nX-Auth-Token: tnr_benchmark\r\nAccept: */*\r\n\r\n"


class Uncounted(Rates):
    """Rates that count nothing."""

    def count_token(self, token_id: int, cost: int = 1) -> None:
        """Count nothing."""


class Empty:
    """Services with one token and no cloud."""

    async def find(self, _: bytes) -> Caller:
        return Caller(1, "benchmark", Role.READER, None)

    async def names(self) -> list[str]:
        return []


class Transport(asyncio.Transport):
    """Takes an answer, and tells when it is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        if bytes(data).startswith(b'{"clouds"'):
            self.answered.set()

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else default


def application(rates: Rates) -> Application:
    """Return the real application with these rates."""
    app = Application(**DESCRIPTION)
    install(app, ENDPOINTS, rates, 1 << 20)
    app.state.services, app.state.tokens = {Scheduler: Empty()}, Empty()
    return app


async def measure(protocol: HttpToolsProtocol, count: int) -> float:
    """Return microseconds per request."""
    transport = Transport()
    protocol.connection_made(transport)
    begun = time.perf_counter()
    for _ in range(count):
        transport.answered.clear()
        protocol.data_received(REQUEST)
        await transport.answered.wait()
    us = (time.perf_counter() - begun) / count * 1e6
    protocol.connection_lost(None)
    return us


async def main_loop(requests: int, rounds: int) -> dict[str, list[float]]:
    """Run all measurements, round after round."""
    bare = uvicorn.Config(application(Uncounted(1, 1)), lifespan="off", access_log=False, log_config=None, ws="none")
    bounded = uvicorn.Config(
        application(Rates(1_000_000_000, 1)), lifespan="off", access_log=False, log_config=None, ws="none"
    )
    for config in (bare, bounded):
        config.load()
    results: dict[str, list[float]] = {"bare": [], "bounded": []}
    for _ in range(rounds):
        results["bare"].append(await measure(HttpToolsProtocol(bare, ServerState(), {}), requests))
        connection = BoundedConnection(ConnectionLimits(30.0, 1000, 800, Addresses()), bounded, ServerState(), {})
        results["bounded"].append(await measure(connection, requests))
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    results = uvloop.run(main_loop(options.requests, options.rounds))
    median = {name: statistics.median(found) for name, found in results.items()}
    for name, found in results.items():
        print(f"{name:8} {median[name]:6.1f} us a request ({min(found):.1f} to {max(found):.1f})")
    print(f"bounded / bare {median['bounded'] / median['bare']:.3f}, {median['bounded'] - median['bare']:+.2f} us")


if __name__ == "__main__":
    main()
