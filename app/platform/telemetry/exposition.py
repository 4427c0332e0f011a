"""Metrics in the format that whoever scrapes asks for."""

from __future__ import annotations

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def exposed(metrics: Collector, accept: str) -> tuple[bytes, str]:
    """The metrics as text and its content type, as the Accept header prefers: Prometheus' format or OpenMetrics."""
    encode, content_type = choose_encoder(accept)
    return encode(metrics), content_type
