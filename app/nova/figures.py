"""Metrics of the daemon, in a registry of its own."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from app.nova.serving import serve_metrics


class NovaFigures:
    """Figures of one daemon: how it stands with both sides, and what it did. No label names a server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        gauge, counter = partial(Gauge, registry=self.registry), partial(Counter, registry=self.registry)
        self.answers = gauge(
            "tenure_nova_answering",
            "1 while a side answers, by side: `nova` with Placement and Keystone, `tenure`.",
            ["side"],
        )
        self.steps = counter(
            "tenure_nova_steps_total",
            "Steps, by kind and outcome: `done`, `refused` by the other side, `unanswered`, `needless`: it had ended.",
            ["step", "outcome"],
        )
        self.notifications = counter("tenure_nova_notifications_total", "Notifications of Nova that were read.")
        self.requests = counter("tenure_nova_requests_total", "Requests to Nova and Placement.")
        self.servers = gauge("tenure_nova_servers", "Servers that Nova has.")
        self.disagreements = gauge(
            "tenure_nova_disagreements", "Servers about which something was to be done when all were last compared."
        )
        self.diff_s = gauge("tenure_nova_diff_duration_seconds", "Time that the last comparison of all servers took.")
        self.diff_at = gauge("tenure_nova_diff_timestamp_seconds", "Time at which the last comparison of all began.")
        self.fresh_at = gauge("tenure_nova_fresh_timestamp_seconds", "Time to which all changes in Nova are known.")
        self.building_s = gauge(
            "tenure_nova_building_seconds",
            "For how long the server that Nova has been building longest without a node has not changed.",
        )
        self.waiting = gauge("tenure_nova_waiting_servers", "Servers whose look is due.")
        self.late_s = gauge("tenure_nova_waiting_seconds", "For how long the first of them has been due.")

    def serve(self, host: str, port: int) -> int:
        """Answer `GET /metrics` in a thread of its own; return the port, which is a free one for 0."""
        return serve_metrics(self.registry, host, port)
