"""Handlers for Prometheus: metrics of this process, and metrics of all clouds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.observing.metrics import CloudCollector
from app.observing.service import CloudWatch
from app.platform.http.reached import reached
from app.platform.http.scrapes import scraped
from app.platform.telemetry.exposing import Exposable
from app.platform.telemetry.metrics import PROCESS


async def read_process_metrics(request: Request) -> Response:
    """Metrics of this process. Scrape every process."""
    return await scraped(request, _process)


async def read_cloud_metrics(request: Request) -> Response:
    """Metrics of all clouds. Every process returns the same values, so scrape one process only."""

    async def collect() -> Exposable:
        seen = await reached(request, CloudWatch).clouds()
        return CloudCollector(seen.clouds, seen.silent)

    return await scraped(request, collect)


async def _process() -> Exposable:
    return PROCESS
