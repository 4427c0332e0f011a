"""Prometheus metrics of this process's own work.

Each process counts for itself and is scraped by itself, so sums over processes are correct. Figures of a cloud are read
from the log and the database instead (observing/metrics.py), because every process would count them again. Labels are
operations, statuses, clouds, markets and reasons: few, and never the name of an instance or of a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from app import __version__
from app.domain.events import (
    ExtensionRejected,
    InstanceEvicted,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    JobCollected,
    JobEnded,
    JobOutputsLost,
    Recorded,
)

PROCESS = CollectorRegistry()
"""The registry of everything that this process counts."""

_REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_TRANSFER_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_RATIO = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
_APPEND_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RECOMPUTATION_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_BATCH = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series of counters, and nothing reads them

for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=PROCESS)

_counter = partial(Counter, registry=PROCESS)
_gauge = partial(Gauge, registry=PROCESS)
_histogram = partial(Histogram, registry=PROCESS)

BUILD = _gauge("tenure_build_info", "The version that runs, as a label; always 1.", ["version"])
BUILD.labels(__version__).set(1)

REQUESTS = _counter(
    "tenure_http_requests_total",
    "Requests answered, by operation (`page` of the operator's pages, `other` where the path is none) and HTTP status.",
    ["operation", "status"],
)
REQUEST_S = _histogram(
    "tenure_http_request_duration_seconds",
    "Time from a request's arrival to the beginning of its answer.",
    ["operation"],
    buckets=_REQUEST_S,
)
DECISIONS = _counter(
    "tenure_decisions_total",
    "Starts decided and committed by this process; accepted ones have the reason `none`.",
    ["cloud", "market", "outcome", "reason"],
)
EXTENSIONS = _counter(
    "tenure_extensions_total",
    "Longer lifetimes decided and committed by this process; accepted ones have the reason `none`.",
    ["cloud", "outcome", "reason"],
)
STOPS = _counter("tenure_stops_total", "Stops committed by this process.", ["cloud"])
EVICTIONS = _counter(
    "tenure_evictions_total", "Evictions committed by this process, by what they made room for.", ["cloud", "reason"]
)
NOTICES = _counter(
    "tenure_notices_total",
    "Notices that this worker has written, by kind: `eviction_overdue`, `eviction_risk`, `promise_ending`.",
    ["cloud", "kind"],
)
JOBS_ENDED = _counter(
    "tenure_jobs_total",
    "Jobs of the cloud's own users whose end this process committed: where, at a `peer`, else `home`; and how.",
    ["cloud", "where", "outcome"],
)
OUTPUTS = _counter(
    "tenure_job_outputs_total",
    "Jobs that completed at peers, by what became of their outputs: `collected`, or `lost` with the reason.",
    ["cloud", "outcome", "reason"],
)
OFFERS = _counter(
    "tenure_offers_total",
    "Messages of this worker about jobs at peers: `offer`, `award`, `cancel`; and the words that came back.",
    ["cloud", "peer", "wish", "word"],
)
OFFER_S = _histogram(
    "tenure_offer_duration_seconds",
    "Time of messages of this worker to a peer about jobs, until its answer, or until none was waited for any more.",
    ["peer"],
    buckets=_REQUEST_S,
)
TRANSFER_BYTES = _counter(
    "tenure_transfer_bytes_total",
    "Bytes of jobs' data that this worker pulled from a peer: `in` as a host, `out` as an origin.",
    ["peer", "direction"],
)
TRANSFER_S = _histogram(
    "tenure_transfer_duration_seconds",
    "Time of one try that brought an object: `in`, `out`, or `seal`, the reading of an output for its digest.",
    ["direction"],
    buckets=_TRANSFER_S,
)
TRANSFER_RATIO = _histogram(
    "tenure_transfer_estimate_ratio",
    "Time of an object that came from a peer, over what its link let expect when it began; above 1: too late.",
    ["peer", "direction"],
    buckets=_RATIO,
)
TRANSFER_FAULTS = _counter(
    "tenure_transfer_faults_total",
    "Tries that did not bring an object, by reason; most are tried again.",
    ["peer", "direction", "reason"],
)
EXTENDED = _counter(
    "tenure_automatic_extensions_total",
    "Instances that this worker has extended because their starts wanted more, each time.",
    ["cloud"],
)
DELIVERIES = _counter(
    "tenure_webhook_deliveries_total",
    "Tries of this worker to deliver to webhooks: `delivered`, `failed`; and `dead` for events that were given up.",
    ["cloud", "outcome"],
)
APPENDS = _counter(
    "tenure_log_appends_total",
    "Batches that this process wrote or tried to write: `committed`; `conflict` where another process was first,"
    " `instance_taken` where the log knew an id, `turn_lost` where this process stood still in its turn or waited too"
    " long for one, `rewound` where the log was put back, all decided again; `unavailable` where the database did not"
    " answer.",
    ["cloud", "outcome"],
)
APPEND_S = _histogram(
    "tenure_log_append_duration_seconds", "Time that the statement of an append took.", buckets=_APPEND_S
)
BATCH_EVENTS = _histogram("tenure_log_append_events", "Events of a committed batch.", buckets=_BATCH)
QUEUE = _gauge("tenure_queue_operations", "Operations that wait for a cloud's log.", ["cloud"])
STREAMS = _gauge("tenure_event_streams", "Streams of events that are open.")
VENUE_QUOTES = _counter(
    "tenure_venue_quotes_total", "Quotes of pools of venues that this process answered with.", ["venue"]
)
PLANNED_JOBS = _counter("tenure_planned_jobs_total", "Jobs of plans that this process has made.")
VENUE_REFITS = _counter(
    "tenure_venue_refits_total", "Fits of venues' models that this worker ended, by how.", ["outcome"]
)
FEED_AGE_S = _gauge(
    "tenure_venue_feed_age_seconds",
    "How long ago a poll of a venue's feed last succeeded; before the first, how old the venue is.",
    ["venue"],
)
FEED_FAILURES = _gauge(
    "tenure_venue_feed_failures", "Polls of a venue's feed that failed since the last that succeeded.", ["venue"]
)
LEFT_ALONE = _gauge(
    "tenure_left_alone",
    "What this process leaves alone because a newer version wrote it: `clouds`, how many; `database`, 1 where it is all"
    " of them, also because the schema is an older version's.",
    ["what"],
)
TASK_FAILURES = _counter(
    "tenure_task_failures_total",
    "Failures of this process's background tasks; each was started again. Losses of the database are not counted.",
    ["task"],
)
RECOMPUTATIONS = _counter(
    "tenure_recomputations_total", "Attempts at runs that this worker ended, by how.", ["outcome"]
)
RECOMPUTATION_S = _histogram(
    "tenure_recomputation_duration_seconds",
    "Time that a run took, from the reading of the log to the published table.",
    buckets=_RECOMPUTATION_S,
)
SNAPSHOTS = _counter("tenure_snapshots_total", "Snapshots that this worker took.")
JOBS = _counter(
    "tenure_worker_jobs_total", "Turns of this worker's regular jobs: `done` or `failed`.", ["task", "outcome"]
)

OTHER = "other"
"""The operation of a request that the table of endpoints does not contain."""
PAGE = "page"
"""The operation of every operator's page."""


class RequestMeter:
    """Counts requests. It keeps the metrics' children, because looking one up costs more than counting."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def answered(self, operation: str, status: int, duration_s: float) -> None:
        """Count an answer that has begun."""
        counter = self._counters.get((operation, status))
        if counter is None:
            counter = self._counters[operation, status] = REQUESTS.labels(operation, str(status))
            self._times[operation] = REQUEST_S.labels(operation)
        counter.inc()
        self._times[operation].observe(duration_s)


_Counted = InstanceStarted | InstanceStopped | InstanceRejected | InstanceEvicted | InstanceExtended | ExtensionRejected


def _kind(event: _Counted) -> tuple[object, ...]:
    """Return what tells apart the counters of events."""
    if isinstance(event, InstanceStarted):
        return InstanceStarted, event.market
    if isinstance(event, InstanceRejected):
        return InstanceRejected, event.market, event.reason
    if isinstance(event, ExtensionRejected):
        return ExtensionRejected, event.reason
    if isinstance(event, InstanceExtended):
        return (InstanceExtended,)
    return (InstanceStopped,) if isinstance(event, InstanceStopped) else (InstanceEvicted, event.reason)


def count_jobs(cloud: str, recorded: Iterable[Recorded]) -> None:
    """Count the ends of a cloud's jobs, and what became of their outputs, among events that are durable."""
    for item in recorded:
        match item.event:
            case JobEnded(is_last=True) as event:
                JOBS_ENDED.labels(cloud, "peer" if event.attempt else "home", event.end.value).inc()
            case JobCollected():
                OUTPUTS.labels(cloud, "collected", "none").inc()
            case JobOutputsLost() as event:
                OUTPUTS.labels(cloud, "lost", event.reason).inc()


class CloudMeter:
    """Counts events that this process commits to one cloud's log. `waiting` returns how many operations wait for it."""

    def __init__(self, cloud: str, waiting: Callable[[], int]) -> None:
        self._cloud = cloud
        self._counters: dict[tuple[object, ...], Counter] = {}
        APPENDS.labels(cloud, "unavailable")  # from the beginning: an alert tells its first growth, which starts at 0
        QUEUE.labels(cloud).set_function(waiting)

    def committed(self, recorded: Iterable[Recorded]) -> None:
        """Count these events, which are durable."""
        recorded = [*recorded]
        count_jobs(self._cloud, recorded)
        kinds: dict[tuple[object, ...], list[_Counted]] = {}
        count = 0
        for item in recorded:
            count += 1
            event = item.event
            if isinstance(event, _Counted):
                kinds.setdefault(_kind(event), []).append(event)
        for key, events in kinds.items():
            counter = self._counters.get(key)
            if counter is None:
                counter = self._counters[key] = self._counter(events[0])
            counter.inc(len(events))
        if count:
            APPENDS.labels(self._cloud, "committed").inc()
            BATCH_EVENTS.observe(count)

    def lost(self, outcome: str) -> None:
        """Count an uncommitted batch: `conflict`, `instance_taken`, `turn_lost`, `rewound` or `unavailable`."""
        APPENDS.labels(self._cloud, outcome).inc()

    def close(self) -> None:
        """Remove the gauge of operations that wait for this log."""
        QUEUE.remove(self._cloud)

    def _counter(self, event: _Counted) -> Counter:
        if isinstance(event, InstanceStarted):
            return DECISIONS.labels(self._cloud, event.market.value, "accepted", "none")
        if isinstance(event, InstanceRejected):
            return DECISIONS.labels(self._cloud, event.market.value, "rejected", event.reason.value)
        if isinstance(event, InstanceEvicted):
            return EVICTIONS.labels(self._cloud, event.reason.value)
        if isinstance(event, InstanceExtended):
            return EXTENSIONS.labels(self._cloud, "accepted", "none")
        if isinstance(event, ExtensionRejected):
            return EXTENSIONS.labels(self._cloud, "rejected", event.reason.value)
        return STOPS.labels(self._cloud)
