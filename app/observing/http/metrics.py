"""Handlers for Prometheus: metrics of this process, and metrics of all clouds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.observing.metrics import CloudCollector
from app.observing.service import CloudWatch
from app.platform.http.reached import reached
from app.platform.telemetry.exposing import exposed
from app.platform.telemetry.metrics import PROCESS


async def read_process_metrics(request: Request) -> Response:
    """Metrics of this process. Scrape every process."""
    return _respond(exposed(PROCESS, _accepted(request)))


async def read_cloud_metrics(request: Request) -> Response:
    """Metrics of all clouds. Every process returns the same values, so scrape one process only."""
    seen = await reached(request, CloudWatch).clouds()
    return _respond(exposed(CloudCollector(seen.clouds, seen.silent), _accepted(request)))


def _accepted(request: Request) -> str:
    return request.headers.get("accept", "")


def _respond(exposition: tuple[bytes, str]) -> Response:
    content, content_type = exposition
    return Response(content, headers={"Content-Type": content_type})
