"""Handlers for clusters. Their managers describe them and tell what they do; no decision of the service rests on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.clusters.costing import ClusterCosts
from app.clusters.keeping import ClusterKeeper, KeyedEvent, KnownCluster
from app.clusters.metrics import collected_clusters
from app.clusters.wire.clusters import (
    ClusterBody,
    ClusterEventsQuery,
    ClusterJobsQuery,
    ClusterNodesQuery,
    ToldEventsBody,
    checkpoint_answer,
    cluster_answer,
    cost_answer,
    event_answer,
    job_answer,
    jobs_of,
    name_in_path,
    node_answer,
    nodes_of,
)
from app.domain.paging import Page
from app.platform.http.bodies import read_body, read_query
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import PageQuery, next_link, page_after
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.platform.http.scrapes import scraped
from tenure_client.forms.answer import Answer, Link
from tenure_client.forms.clusters import (
    ClusterCheckpointsAnswer,
    ClusterEventsAnswer,
    ClusterJobsAnswer,
    ClusterNodesAnswer,
    ClustersAnswer,
    ToldEventsAnswer,
)


async def put_cluster(request: Request) -> Response:
    """Describe a cluster, which is made if it is not there. Its manager does so. Repeating the request changes nothing.

    New prices are those of all its past, too.
    """
    name, body = name_in_path(request.path_params["cluster"]), await read_body(request, ClusterBody)
    cluster = await reached(request, ClusterKeeper).put(name, body.spec())
    return respond(cluster_answer(cluster))


async def show_cluster(request: Request) -> Response:
    """Show a cluster: its pools, its manager, nodes and jobs counted."""
    return respond(cluster_answer(await _cluster(request)))


async def list_clusters(request: Request) -> Response:
    """List all clusters by name."""
    query = read_query(request, PageQuery)
    page = await reached(request, ClusterKeeper).list(query.marker, query.limit)
    clusters = await first_answers(page.items, cluster_answer)
    marker = marker_after(page.items, len(clusters), lambda known: known.stored.name, page.marker)
    return respond(ClustersAnswer(clusters=clusters, links=next_link(request, marker)))


async def delete_cluster(request: Request) -> Response:
    """Remove a cluster with all that was told of it. Its nodes are not touched.

    A manager that runs describes it again.
    """
    await reached(request, ClusterKeeper).delete(request.path_params["cluster"])
    return Response(status_code=204)


async def list_cluster_nodes(request: Request) -> Response:
    """List a cluster's nodes by name: those that are there, or those of one stage."""
    query, cluster = read_query(request, ClusterNodesQuery), await _cluster(request)
    page, marker = page_after(nodes_of(cluster, query.stage), query.marker, query.limit, lambda node: node.name)
    nodes = await first_answers(page, node_answer)
    marker = marker_after(page, len(nodes), lambda node: node.name, marker)
    return respond(ClusterNodesAnswer(nodes=nodes, links=next_link(request, marker)))


async def list_cluster_jobs(request: Request) -> Response:
    """List a cluster's jobs: those that are not over first, then by number. Of the others the last 2,000 are known."""
    query, cluster = read_query(request, ClusterJobsQuery), await _cluster(request)
    page, marker = page_after(jobs_of(cluster, query.stage), query.marker, query.limit, lambda job: job.job)
    jobs = await first_answers(page, job_answer)
    marker = marker_after(page, len(jobs), lambda job: job.job, marker)
    return respond(ClusterJobsAnswer(jobs=jobs, links=next_link(request, marker)))


async def list_cluster_checkpoints(request: Request) -> Response:
    """List the checkpoints that a cluster's manager told of, after an event."""
    query, name = read_query(request, ClusterEventsQuery), request.path_params["cluster"]
    page = await reached(request, ClusterKeeper).checkpoints(name, query.after_seq, query.limit)
    answers, links = await _told(request, page, checkpoint_answer)
    return respond(ClusterCheckpointsAnswer(checkpoints=answers, links=links))


async def read_cluster_cost(request: Request) -> Response:
    """Add up what a cluster's instances cost up to now, from the logs of its clouds, and would have cost on demand.

    An instance's time is from its start to its stop or eviction. Prices are those of the description now.
    """
    cluster = await _cluster(request)
    return respond(cost_answer(cluster, await reached(request, ClusterCosts).read(cluster)))


async def list_cluster_events(request: Request) -> Response:
    """List what a cluster's manager told after an event. Of very many events the newest 100,000 are kept."""
    query, name = read_query(request, ClusterEventsQuery), request.path_params["cluster"]
    page = await reached(request, ClusterKeeper).events(name, query.after_seq, query.limit)
    answers, links = await _told(request, page, event_answer)
    return respond(ClusterEventsAnswer(events=answers, links=links))


async def report_cluster_events(request: Request) -> Response:
    """Tell what a manager did, and how its newest look went. An event whose key is known is not written again."""
    body = await read_body(request, ToldEventsBody)
    events = [told.event() for told in body.events]
    new, last_seq = await reached(request, ClusterKeeper).report(request.path_params["cluster"], events, body.look())
    return respond(ToldEventsAnswer(new_count=new, last_seq=last_seq))


async def read_cluster_metrics(request: Request) -> Response:
    """Metrics of all clusters. Every process returns the same values, so scrape one process only."""
    keeper, costs = reached(request, ClusterKeeper), reached(request, ClusterCosts)
    return await scraped(request, lambda: collected_clusters(keeper, costs))


async def _told(
    request: Request, page: Page[KeyedEvent], answer_of: Callable[[KeyedEvent], Answer]
) -> tuple[list[Any], list[Link]]:
    """Return the answers to the first events of a page, and the link to what follows them."""
    answers = await first_answers(page.items, answer_of)
    marker = marker_after(page.items, len(answers), lambda keyed: str(keyed.event.seq), page.marker)
    return answers, next_link(request, marker, "after_seq")


async def _cluster(request: Request) -> KnownCluster:
    return await reached(request, ClusterKeeper).show(request.path_params["cluster"])
