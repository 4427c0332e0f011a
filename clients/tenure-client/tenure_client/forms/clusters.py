"""Answers on clusters: what each one is meant to be, and what its manager told of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Json, Link, Moment, Seconds, one_of

_HourPrice = Annotated[float, Meta(description="Of an hour of one node, in the currency that all prices are in.")]
_HourOnDemand = Annotated[
    float | None, Meta(description="Of an hour of the same machine on demand; null: nobody said.")
]
_NodeStageWord = Annotated[
    str,
    one_of(
        ("booting", "idle", "busy", "evicted", "gone"),
        "`booting`: bought, and not in Slurm yet; `idle`, `busy`: without a job, with one; `evicted`: its eviction is "
        "announced; `gone`: given back or lost.",
    ),
]
_JobStageWord = Annotated[
    str, one_of(("waiting", "running", "ended"), "A job that lost its node waits again, under the same number.")
]


class ClusterPoolAnswer(Answer, kw_only=True):
    """A pool: nodes of one kind, which are bought at one cloud or venue."""

    name: str
    cloud: Annotated[str, Meta(description="Of the market `bid`: a venue.")]
    flavor: Annotated[str, Meta(description="Of the market `bid`: a machine type.")]
    market: Annotated[str, one_of(("spot", "on_demand", "bid"), "`bid`: bought at a venue, at its price.")]
    zone: Annotated[str | None, Meta(description="Of the market `bid`; else null.")] = None
    product: Annotated[str | None, Meta(description="Of the market `bid`; else null.")] = None
    max_nodes: int
    price_per_hour: _HourPrice
    on_demand_price_per_hour: _HourOnDemand


class ClusterAnswer(Answer, kw_only=True):
    name: str
    version: Annotated[int, Meta(description="Rises by 1 with each change of the description.")]
    created_at: Moment
    changed_at: Annotated[Moment, Meta(description="The time of the last change of the description.")]
    max_nodes: Annotated[int, Meta(description="Of all pools together.")]
    pools: Annotated[list[ClusterPoolAnswer], Meta(description="In the order in which they are asked for nodes.")]
    is_managed: Annotated[bool, Meta(description="True if a manager has told of a look in the last 30 s.")]
    deleted_at: Annotated[
        Moment | None, Meta(description="When `tenure cluster delete` ended it; null: it is there, or was made again.")
    ] = None
    reported_at: Annotated[Moment | None, Meta(description="The last time that a manager told of a look; null: never.")]
    loop_s: Annotated[Seconds | None, Meta(description="How long that look took, with what was done then.")]
    orphan_count: Annotated[
        int | None, Meta(description="Machines without an instance that it saw; the manager destroys them.")
    ]
    last_seq: Annotated[int, Meta(description="The last event.")]
    node_count: Annotated[int, Meta(description="Nodes that are not gone.")]
    waiting_count: Annotated[int, Meta(description="Jobs that wait.")]
    running_count: Annotated[int, Meta(description="Jobs that run.")]
    links: list[Link]


class ClustersAnswer(Answer, kw_only=True):
    clusters: Annotated[list[ClusterAnswer], Meta(description="By name.")]
    links: list[Link]


class ClusterNodeAnswer(Answer, kw_only=True):
    """A node of a cluster, as its manager told it."""

    name: str
    pool: str
    stage: _NodeStageWord
    bought_at: Moment
    why: Annotated[str, Meta(description="The reason for which it was bought.")]
    ready_at: Annotated[Moment | None, Meta(description="When it joined Slurm.")]
    evicted_at: Annotated[Moment | None, Meta(description="When its eviction was announced.")]
    gone_at: Moment | None
    gone_why: str | None


class ClusterNodesAnswer(Answer, kw_only=True):
    nodes: Annotated[list[ClusterNodeAnswer], Meta(description="By name.")]
    links: list[Link]


class ClusterMarkAnswer(Answer, kw_only=True):
    at: Moment
    kind: Annotated[str, Meta(description="The kind of the event.")]


class ClusterJobAnswer(Answer, kw_only=True):
    """A job of a cluster, as its manager told it."""

    job: Annotated[str, Meta(description="Its number in Slurm.")]
    name: str
    stage: _JobStageWord
    pools: Annotated[str, Meta(description="Where it may run, in this order, with commas.")]
    nodes: Annotated[list[str], Meta(description="Where it runs.")]
    seen_at: Moment
    started_at: Annotated[Moment | None, Meta(description="Its last start.")]
    ended_at: Moment | None
    end: Annotated[str | None, Meta(description="Slurm's word for how it ended, such as `completed`.")]
    checkpoint_count: int
    requeue_count: Annotated[int, Meta(description="How often it lost its node and was queued again.")]
    misfit: Annotated[
        str | None, Meta(description="Why no pool can ever hold it, and what would be accepted; null: one can.")
    ] = None
    lost_s: Annotated[
        Seconds, Meta(description="Work that was done again: since the last checkpoint, or since the start.")
    ]
    marks: Annotated[list[ClusterMarkAnswer], Meta(description="The last 200 events of its life, in order.")]


class ClusterJobsAnswer(Answer, kw_only=True):
    jobs: Annotated[list[ClusterJobAnswer], Meta(description="Those that are not over first; then by number.")]
    links: list[Link]


class ClusterCheckpointAnswer(Answer, kw_only=True):
    seq: int
    at: Moment
    job: str
    node: str
    result: Annotated[
        str,
        one_of(
            ("written", "failed", "asked"),
            "`asked`: the job was asked to save itself, and does not say when it has done so.",
        ),
    ]
    why: Annotated[str, Meta(description="`hazard`, `notice`, and so on.")]
    size_bytes: int | None
    pause_s: Annotated[Seconds | None, Meta(description="How long the job stood.")]
    write_s: Annotated[Seconds | None, Meta(description="After this it was written and counted.")]


class ClusterCheckpointsAnswer(Answer, kw_only=True):
    checkpoints: Annotated[list[ClusterCheckpointAnswer], Meta(description="In the order in which they were told.")]
    links: list[Link]


class PoolCostAnswer(Answer, kw_only=True):
    pool: Annotated[str, Meta(description="`other`: pools that the description does not name any more.")]
    instance_count: int
    used_s: Annotated[Seconds, Meta(description="The time of its instances together.")]
    cost: Annotated[float, Meta(description="Exact to a millionth; of `other` it is not known, and 0.")]
    on_demand_cost: Annotated[float | None, Meta(description="The same time on demand; null: the price is not known.")]


class ClusterCostAnswer(Answer, kw_only=True):
    cluster: str
    pools: list[PoolCostAnswer]
    used_s: Seconds
    cost: Annotated[float, Meta(description="The sum of the pools.")]
    on_demand_cost: Annotated[
        float | None, Meta(description="What all of it would have cost on demand; null: of a pool it is not known.")
    ]


class ClusterEventAnswer(Answer, kw_only=True):
    seq: int
    at: Annotated[Moment, Meta(description="By the manager's clock.")]
    kind: Annotated[str, Meta(description="See docs/clusters.md; there may be kinds that are not there.")]
    key: Annotated[str, Meta(description="An event that is told again has the same key, and stands here once.")]
    facts: Json


class ClusterEventsAnswer(Answer, kw_only=True):
    events: Annotated[list[ClusterEventAnswer], Meta(description="In the order in which the service heard of them.")]
    links: list[Link]


class ToldEventsAnswer(Answer, kw_only=True):
    new_count: Annotated[int, Meta(description="Events that were not known before.")]
    last_seq: int
