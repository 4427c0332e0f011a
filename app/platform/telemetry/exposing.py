"""Metrics as text, made piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy

from prometheus_client import openmetrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

Exposable = Collector
_SAMPLES = 100
"""So many samples take about a millisecond."""
_END = b"# EOF\n"


class GatheredMetrics:
    """The values of metrics at one moment. What makes them and their text yields wherever others may have a turn."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self._texts: dict[str, bytes] = {}

    @classmethod
    def of(cls, metrics: Exposable) -> Generator[None, None, GatheredMetrics]:
        """Gather all values."""
        found = []
        for metric in metrics.collect():
            found.append(metric)
            yield
        return cls(found)

    def text(self, content_type: str) -> Generator[None, None, bytes]:
        """Return them as text, made once for each of the two types of content."""
        if content_type not in self._texts:
            self._texts[content_type] = yield from self._written(is_open=content_type == CONTENT_TYPE_LATEST)
        return self._texts[content_type]

    def _written(self, *, is_open: bool) -> Generator[None, None, bytes]:
        encode: Callable[[Collector], bytes] = openmetrics.exposition.generate_latest if is_open else generate_latest
        written = []
        for metric in self._metrics:
            for begin in range(0, max(1, len(metric.samples)), _SAMPLES):
                piece = copy(metric)
                piece.samples = metric.samples[begin : begin + _SAMPLES]
                text = encode(_OneMetric(piece)).removesuffix(_END)
                written.append(_without_head(text) if begin else text)
                yield
        return b"".join([*written, _END] if is_open else written)


class _OneMetric(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def content_type_for(accept: str) -> str:
    """Return Prometheus' type or that of OpenMetrics by an Accept header.

    It is one of these two, whatever else is asked for: all names are plain, so no escaping changes them.
    """
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        return CONTENT_TYPE_PLAIN_0_0_4
    return CONTENT_TYPE_LATEST if content_type.startswith("application/openmetrics-text") else CONTENT_TYPE_PLAIN_0_0_4


def _without_head(text: bytes) -> bytes:
    while text.startswith(b"# "):
        text = text.partition(b"\n")[2]
    return text
