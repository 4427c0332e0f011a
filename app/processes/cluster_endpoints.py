"""The endpoints of clusters with their handlers, a part of the table of all endpoints."""

from __future__ import annotations

from app.clusters.http import clusters
from app.clusters.wire import clusters as cluster_wire
from app.domain import errors
from app.domain.values import Role
from app.platform.http.page_forms import PageQuery
from app.platform.http.serving import Served
from tenure_client import endpoints

_POOL = {"name": "spot", "cloud": "north", "flavor": "small", "max_nodes": 4, "price_per_hour": 0.0081}
_EVENT = {
    "key": "node_bought-lab-spot-1",
    "at": "2026-01-01T00:00:00Z",
    "kind": "node_bought",
    "facts": {"node": "lab-spot-1", "why": "job 1 waits"},
}

CLUSTERS = (
    Served(
        endpoints.PUT_CLUSTER,
        clusters.put_cluster,
        role=Role.SERVICE,
        body=cluster_wire.ClusterBody,
        errors=(errors.CloudNotFound, errors.VenueNotFound, errors.TooManyClusters),
        example={"max_nodes": 4, "pools": [_POOL]},
    ),
    Served(endpoints.CLUSTERS, clusters.list_clusters, role=Role.READER, query=PageQuery, query_example={"limit": 100}),
    Served(endpoints.CLUSTER, clusters.show_cluster, role=Role.READER),
    Served(
        endpoints.REPORT_CLUSTER_EVENTS,
        clusters.report_cluster_events,
        role=Role.SERVICE,
        body=cluster_wire.ToldEventsBody,
        example={"events": [_EVENT], "loop_s": 0.08},
    ),
    Served(
        endpoints.CLUSTER_EVENTS,
        clusters.list_cluster_events,
        role=Role.READER,
        query=cluster_wire.ClusterEventsQuery,
        query_example={"after_seq": 0, "limit": 100},
    ),
    Served(
        endpoints.CLUSTER_NODES,
        clusters.list_cluster_nodes,
        role=Role.READER,
        query=cluster_wire.ClusterNodesQuery,
        errors=(errors.MarkerInvalid,),
        query_example={"stage": "booting"},
    ),
    Served(
        endpoints.CLUSTER_JOBS,
        clusters.list_cluster_jobs,
        role=Role.READER,
        query=cluster_wire.ClusterJobsQuery,
        errors=(errors.MarkerInvalid,),
        query_example={"stage": "running"},
    ),
    Served(
        endpoints.CLUSTER_CHECKPOINTS,
        clusters.list_cluster_checkpoints,
        role=Role.READER,
        query=cluster_wire.ClusterEventsQuery,
        query_example={"after_seq": 0, "limit": 100},
    ),
    Served(endpoints.CLUSTER_COST, clusters.read_cluster_cost, role=Role.READER),
    Served(endpoints.DELETE_CLUSTER, clusters.delete_cluster, role=Role.ADMIN),
)
CLUSTER_METRICS = Served(endpoints.CLUSTER_METRICS, clusters.read_cluster_metrics, role=Role.READER)
