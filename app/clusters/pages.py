"""The pages of clusters: all of them, and one with its nodes over time, jobs and cost. Tokens of one cloud see none."""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.clusters.costing import ClusterCosts
from app.clusters.foreseeing import Foreseeing
from app.clusters.keeping import ClusterKeeper, KnownCluster
from app.clusters.rules.costs import MICRO
from app.clusters.rules.deciding import pool_of
from app.clusters.rules.steps import node_steps
from app.clusters.rules.strips import strip_of
from app.clusters.rules.told import JobStage, NodeStage, Refusal, ToldJob, ToldNode
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.platform.http.errors import Forbidden
from app.platform.http.reached import reached
from app.platform.pages.asking import choice, number
from app.platform.pages.rendering import render, render_in_turns

_CLUSTERS_ON_PAGE, _NODES_ON_PAGE, _JOBS_ON_PAGE, _TOLD_ON_PAGE = 100, 50, 50, 20
_POINTS = 240
_COLOURS = ("on-demand", "spot", "line-3", "line-4", "line-5", "free")
RANGES = {"hour": HOUR_US, "6 hours": 6 * HOUR_US, "day": DAY_US, "week": 7 * DAY_US}
DEFAULT_RANGE = "6 hours"


async def show_all(request: Request) -> Response:
    """Show all clusters by name."""
    _refuse_scoped(request)
    clusters = (await reached(request, ClusterKeeper).list(None, _CLUSTERS_ON_PAGE)).items
    rows = [(one, stages(one), await reached(request, ClusterCosts).read(one)) for one in clusters]
    return render(request, "clusters.html", rows=rows, money=money)


async def show(request: Request) -> Response:
    """Show one cluster."""
    _refuse_scoped(request)
    cluster = await reached(request, ClusterKeeper).show(request.path_params["cluster"])
    over = choice(request, "over", tuple(RANGES)) or DEFAULT_RANGE
    begin_us = cluster.now_us - RANGES[over]
    jobs, nodes = jobs_shown(cluster), sorted(cluster.past.there(), key=lambda node: node.bought_us)
    first = number(request, "from", len(nodes)) or 0
    return await render_in_turns(
        request,
        "cluster.html",
        cluster=cluster,
        stages=stages(cluster),
        over=over,
        ranges=tuple(RANGES),
        chart=nodes_chart(cluster, begin_us),
        nodes=nodes[first : first + _NODES_ON_PAGE],
        first=first,
        more=first + _NODES_ON_PAGE if first + _NODES_ON_PAGE < len(nodes) else None,
        jobs=jobs,
        begin_us=begin_us,
        strips=[strip_of(job, begin_us, cluster.now_us) for job in jobs],
        foreseen=await reached(request, Foreseeing).checkpoints(cluster),
        cost=await reached(request, ClusterCosts).read(cluster),
        told=told_last(cluster),
        money=money,
        live=f"/ui/clusters/{cluster.stored.name}/live",
    )


async def look(request: Request) -> dict[str, Any]:
    """Return what changes when the page of a cluster does."""
    _refuse_scoped(request)
    cluster = await reached(request, ClusterKeeper).show(request.path_params["cluster"])
    return {"seq": cluster.stored.last_seq, "version": cluster.stored.version, "is_managed": cluster.is_managed}


def stages(cluster: KnownCluster) -> dict[str, int]:
    """Return how many nodes and jobs are at which stage."""
    nodes = [node.stage for node in cluster.past.there()]
    jobs = [job.stage for job in cluster.past.jobs.values()]
    found = {str(stage): nodes.count(stage) for stage in NodeStage}
    return found | {str(stage): jobs.count(stage) for stage in JobStage}


def nodes_chart(cluster: KnownCluster, begin_us: int) -> dict[str, object]:
    """Draw the nodes of each pool over time, stacked: the paper's figure 6."""
    pools = [pool.name for pool in cluster.spec.pools]
    moments, counts = node_steps(cluster.past.nodes.values(), pools, begin_us, cluster.now_us, _POINTS)
    series = [
        {"label": pool, "colour": _COLOURS[at % len(_COLOURS)], "stack": True, "values": counts[pool]}
        for at, pool in enumerate(pools)
    ]
    return {
        "x": {"kind": "time", "name": "UTC", "values": [at_us / SECOND_US for at_us in moments]},
        "y": {"kind": "number", "label": "nodes"},
        "series": series,
    }


def jobs_shown(cluster: KnownCluster) -> list[ToldJob]:
    """Return the jobs of the page: those that run, those that wait, then those that ended last."""
    order = (JobStage.RUNNING, JobStage.WAITING, JobStage.ENDED)
    jobs = cluster.past.jobs.values()
    return nsmallest(_JOBS_ON_PAGE, jobs, key=lambda job: (order.index(job.stage), -(job.ended_us or 0), job.seen_us))


def told_last(cluster: KnownCluster) -> list[dict[str, object]]:
    """Return the last purchases and refusals, the newest first, with their reasons."""
    clouds = {pool.name: pool.cloud for pool in cluster.spec.pools}
    told: list[ToldNode | Refusal] = [*cluster.past.nodes.values(), *cluster.past.refusals]
    return [
        {"at_us": one.at_us, "is_bought": False, "what": one.pool, "cloud": one.cloud, "why": one.why}
        if isinstance(one, Refusal)
        else {
            "at_us": one.bought_us,
            "is_bought": True,
            "what": one.name,
            "cloud": clouds.get(pool_of(one.name), ""),
            "why": one.why,
        }
        for one in nlargest(_TOLD_ON_PAGE, told, key=_told_us)
    ]


def _told_us(one: ToldNode | Refusal) -> int:
    return one.at_us if isinstance(one, Refusal) else one.bought_us


def money(micro: int | None) -> str:
    """Return an amount to the cent; where it is not known, a dash."""
    return "\N{EN DASH}" if micro is None else f"{micro / MICRO:.2f}"


def _refuse_scoped(request: Request) -> None:
    if request.scope["state"]["caller"].cloud is not None:
        raise Forbidden("your token is for one cloud, and clusters are of no cloud")
