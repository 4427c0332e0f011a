"""Calls about clusters, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.answer import Json
from tenure_client.forms.clusters import (
    ClusterAnswer,
    ClusterCheckpointAnswer,
    ClusterCostAnswer,
    ClusterEventAnswer,
    ClusterJobAnswer,
    ClusterNodeAnswer,
    ToldEventsAnswer,
)


def put_cluster(cluster: str, pools: Sequence[Mapping[str, Any]], max_nodes: int) -> Call[ClusterAnswer]:
    """Describe a cluster, which is made if it is not there. Repeating the call changes nothing."""
    return endpoints.PUT_CLUSTER.call(body={"pools": [*pools], "max_nodes": max_nodes}, cluster=cluster)


def clusters(*, limit: int = PAGE, marker: str | None = None) -> Listing[ClusterAnswer]:
    """List all clusters by name."""
    return Listing(endpoints.CLUSTERS.call(query=_page(limit, marker)), lambda page: page.clusters)


def cluster(cluster: str) -> Call[ClusterAnswer]:
    """Show a cluster: its pools, its manager, nodes and jobs counted."""
    return endpoints.CLUSTER.call(cluster=cluster)


def delete_cluster(cluster: str) -> Call[None]:
    """Remove a cluster with all that was told of it. Its nodes are not touched."""
    return endpoints.DELETE_CLUSTER.call(cluster=cluster)


def cluster_nodes(
    cluster: str, *, stage: str | None = None, limit: int = PAGE, marker: str | None = None
) -> Listing[ClusterNodeAnswer]:
    """List the cluster's nodes that are there, or those of one stage."""
    query = {"stage": stage, **_page(limit, marker)}
    return Listing(endpoints.CLUSTER_NODES.call(query=query, cluster=cluster), lambda page: page.nodes)


def cluster_jobs(
    cluster: str, *, stage: str | None = None, limit: int = PAGE, marker: str | None = None
) -> Listing[ClusterJobAnswer]:
    """List the cluster's jobs, or those of one stage."""
    query = {"stage": stage, **_page(limit, marker)}
    return Listing(endpoints.CLUSTER_JOBS.call(query=query, cluster=cluster), lambda page: page.jobs)


def cluster_checkpoints(cluster: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[ClusterCheckpointAnswer]:
    """List the checkpoints that the cluster's manager told of."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(endpoints.CLUSTER_CHECKPOINTS.call(query=query, cluster=cluster), lambda page: page.checkpoints)


def cluster_cost(cluster: str) -> Call[ClusterCostAnswer]:
    """Add up what the cluster's instances cost so far, and would have cost on demand."""
    return endpoints.CLUSTER_COST.call(cluster=cluster)


def cluster_events(cluster: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[ClusterEventAnswer]:
    """List what the cluster's manager told."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(endpoints.CLUSTER_EVENTS.call(query=query, cluster=cluster), lambda page: page.events)


def report_cluster_events(
    cluster: str,
    events: Sequence[Mapping[str, Any]],
    *,
    loop_s: float | None = None,
    orphan_count: int | None = None,
) -> Call[ToldEventsAnswer]:
    """Tell what a manager did. An event whose key is known is not counted again."""
    body = {"events": [*events], "loop_s": loop_s, "orphan_count": orphan_count}
    return endpoints.REPORT_CLUSTER_EVENTS.call(body=body, cluster=cluster)


def _page(limit: int, marker: str | None) -> Json:
    return {"limit": limit, "marker": marker}


def cluster_metrics() -> Call[str]:
    """Read the metrics of all clusters, in Prometheus' text format."""
    return endpoints.CLUSTER_METRICS.call()
