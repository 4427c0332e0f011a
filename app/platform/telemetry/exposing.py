"""Metrics as text."""

from __future__ import annotations

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


def exposed(metrics: Collector, accept: str) -> tuple[bytes, str]:
    """Return the metrics as text and their content type, Prometheus' format or OpenMetrics by the Accept header."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = choose_encoder("")
    return encode(metrics), content_type
