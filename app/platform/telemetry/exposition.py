"""Metrics in the format that the scraper asks for."""

from __future__ import annotations

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def exposed(metrics: Collector, accept: str) -> tuple[bytes, str]:
    """Return the metrics as text and their content type, Prometheus' format or OpenMetrics by the Accept header."""
    encode, content_type = choose_encoder(accept)
    return encode(metrics), content_type
