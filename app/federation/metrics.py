"""Metrics of peers, from the folded logs of all clouds, at scrape time.

Every process returns the same values, so one process is scraped for the whole service. There are at most 64 peers; a
peer has rows for the clouds that know it, and no label names a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.federation.rules.foreignside import PeerQuota
from app.federation.rules.standings import preempted
from app.federation.standings import CloudStanding, PeerStanding

_PeerValues = Mapping[tuple[str, ...], float]
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class PeerFamily(NamedTuple):
    """One metric of a peer at a cloud: its name after `tenure_peer_`, its labels after both, and its values by them."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    what: str
    labels: tuple[str, ...]
    values: Callable[[CloudStanding, PeerQuota], _PeerValues]


def _promised(found: CloudStanding, _: PeerQuota) -> _PeerValues:
    promised = found.standing.promised_ratio
    return {} if promised is None else {(): promised}


def _preempted_low(found: CloudStanding, _: PeerQuota) -> _PeerValues:
    return {(): preempted(found.standing).low}


def _quota_used(found: CloudStanding, quota: PeerQuota) -> _PeerValues:
    limit = found.use.limit(quota.cores_share)
    most = {"offers": (found.use.holding, quota.offers), "cores": (found.use.cores, limit)}
    return {(what,): used / of for what, (used, of) in most.items() if of}


PEER_FAMILIES = (
    PeerFamily(
        _COUNTER,
        "offered_total",
        "Attempts to run jobs of this cloud that were offered to the peer.",
        (),
        lambda found, _: {(): found.standing.offered},
    ),
    PeerFamily(
        _COUNTER,
        "declined_total",
        "Those of them that came to nothing before an award, by reason.",
        ("reason",),
        lambda found, _: {(reason,): count for reason, count in found.standing.declined},
    ),
    PeerFamily(
        _COUNTER,
        "awarded_total",
        "Attempts that were awarded to the peer.",
        (),
        lambda found, _: {(): found.standing.awarded},
    ),
    PeerFamily(
        _COUNTER,
        "ended_total",
        "Awards by their ends; `lapsed`: the peer had let the room go, or knew of no offer.",
        ("end",),
        lambda found, _: {(end,): count for end, count in found.standing.ended},
    ),
    PeerFamily(
        _GAUGE,
        "promised_ratio",
        "The mean probability of preemption that the peer promised; absent where it promised none.",
        (),
        _promised,
    ),
    PeerFamily(
        _GAUGE,
        "preempted_ratio_low",
        "The lower end of the 95 % interval of the share of awards that it preempted.",
        (),
        _preempted_low,
    ),
    PeerFamily(
        _COUNTER,
        "hosted_total",
        "Attempts of the peer's jobs here, by each word that was said of them.",
        ("word",),
        lambda found, _: {(word,): count for word, count in found.standing.hosted},
    ),
    PeerFamily(
        _GAUGE,
        "attempts",
        "Attempts of the peer's jobs here now: `held` or `running`.",
        ("state",),
        lambda found, _: {("held",): found.use.holding, ("running",): found.use.running},
    ),
    PeerFamily(
        _GAUGE,
        "quota_used_ratio",
        "What it has of its quota: of `offers` with held room, of `cores`.",
        ("what",),
        _quota_used,
    ),
)


class PeerCollector(Collector):
    """All metrics of the peers."""

    def __init__(self, peers: Iterable[PeerStanding]) -> None:
        self._peers = tuple(peers)

    def collect(self) -> Iterator[Metric]:
        """Yield one metric after the other."""
        paused = GaugeMetricFamily(
            "tenure_peer_paused", "1 while a peer is paused by an operator or the breaker.", labels=["peer", "by"]
        )
        for one in self._peers:
            for by in ("breaker", "operator"):
                paused.add_metric([one.peer.name, by], float(one.peer.paused_by == by))
        yield paused
        for family in PEER_FAMILIES:
            metric = family.kind(f"tenure_peer_{family.name}", family.what, labels=["cloud", "peer", *family.labels])
            for one in self._peers:
                for found in one.clouds:
                    for labels, value in family.values(found, one.quota).items():
                        metric.add_metric([found.cloud, one.peer.name, *labels], value)
            yield metric
