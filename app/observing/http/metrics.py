"""Metrics for whoever watches the service: this process's, and those of the clouds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.observing.metrics import CloudCollector
from app.observing.service import CloudWatch
from app.platform.http.reached import reached
from app.platform.telemetry.exposition import exposed
from app.platform.telemetry.metrics import PROCESS


async def read_process_metrics(request: Request) -> Response:
    """What this process counted: to be scraped of every process."""
    return _respond(exposed(PROCESS, _accepted(request)))


async def read_cloud_metrics(request: Request) -> Response:
    """What is so of the clouds. Every process says the same: to be scraped of the service as a whole."""
    seen = await reached(request, CloudWatch).clouds()
    return _respond(exposed(CloudCollector(seen.clouds, seen.silent), _accepted(request)))


def _accepted(request: Request) -> str:
    return request.headers.get("accept", "")


def _respond(exposition: tuple[bytes, str]) -> Response:
    content, content_type = exposition
    return Response(content, headers={"Content-Type": content_type})
