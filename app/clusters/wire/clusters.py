"""Bodies, queries and answers of clusters."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from app.clusters.described import ClusterSpec, PoolSpec
from app.clusters.keeping import KeyedEvent, KnownCluster, ManagerLook
from app.clusters.rules.bids import BID
from app.clusters.rules.costs import MICRO, ClusterCost
from app.clusters.rules.told import (
    CHECKPOINTS,
    JobStage,
    ToldEvent,
    ToldJob,
    ToldNode,
)
from app.clusters.rules.wanted import MOST_NODES, MOST_POOLS, NAME
from app.domain.inputs import NO_TEXT
from app.domain.times import seconds, to_datetime
from app.platform.http.errors import FieldInvalid
from app.platform.http.fields import WHOLE, Body, Name, Query, Time
from app.platform.http.page_forms import Limit, PageQuery
from app.venues.wire import PoolWord
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.clusters import (
    ClusterAnswer,
    ClusterCheckpointAnswer,
    ClusterCostAnswer,
    ClusterEventAnswer,
    ClusterJobAnswer,
    ClusterMarkAnswer,
    ClusterNodeAnswer,
    ClusterPoolAnswer,
    PoolCostAnswer,
)

MOST_TOLD = 500
"""Events in one body."""
_MOST_FACTS = 16
_LONGEST_FACT = 500
_CLUSTER_NAME = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
_PRINTABLE = rf"^[^{NO_TEXT}]{{0,{_LONGEST_FACT}}}$"
_HUGE = 1e15
_PriceOfHour = Annotated[float, Field(ge=0, le=1_000_000, description="Of an hour of one node; exact to a millionth.")]
_FactName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
_FactValue = (
    bool
    | Annotated[int, Field(ge=-(10**15), le=10**15)]
    | Annotated[float, Field(ge=-_HUGE, le=_HUGE)]
    | Annotated[str, Field(pattern=_PRINTABLE)]
    | None
)


def name_in_path(name: str) -> str:
    """Return the name of a cluster to describe. Raise FieldInvalid for one that no cluster file can have."""
    if NAME.fullmatch(name) is None:
        raise FieldInvalid(f"{name[:32]!r}: the name of a cluster is a letter and up to 15 letters and digits")
    return name


def _check_apart(pools: tuple[ClusterPoolBody, ...]) -> tuple[ClusterPoolBody, ...]:
    if len({pool.name for pool in pools}) < len(pools):
        raise PydanticCustomError("pools", "must not have two pools of one name")
    return pools


class ClusterPoolBody(Body):
    """A pool of nodes."""

    name: _CLUSTER_NAME = Field(description="The Slurm partition, and the second word of its nodes' names.")
    cloud: Name = Field(description="Of the market `bid`: a venue.")
    flavor: Name = Field(description="Of the market `bid`: a machine type.")
    market: Literal["spot", "on_demand", "bid"] = "spot"
    max_nodes: Annotated[int, Field(ge=0, le=MOST_NODES), WHOLE] = 1
    price_per_hour: _PriceOfHour = 0.0
    on_demand_price_per_hour: _PriceOfHour | None = Field(
        None, description="Of the same machine on demand; of an on-demand pool by default its price."
    )

    zone: PoolWord | None = Field(None, description="Of the market `bid` alone, which needs it.")
    product: PoolWord | None = Field(None, description="Of the market `bid` alone; by default `Linux/UNIX`.")

    @model_validator(mode="after")
    def _check_zone(self) -> Self:
        if (self.market == BID) != (self.zone is not None) or (self.product is not None and self.market != BID):
            raise PydanticCustomError("zone", "zone must be told of the market bid, and it and product of no other")
        return self

    def spec(self) -> PoolSpec:
        return PoolSpec(**self.model_dump())


class ClusterBody(Body):
    """The description of a cluster, as far as the service needs to know it."""

    max_nodes: Annotated[int, Field(ge=0, le=MOST_NODES), WHOLE] = Field(MOST_NODES, description="Of all pools.")
    pools: Annotated[
        tuple[ClusterPoolBody, ...],
        Field(min_length=1, max_length=MOST_POOLS, strict=False),
        AfterValidator(_check_apart),
    ] = Field(description="In the order in which they are asked for nodes.")

    def spec(self) -> ClusterSpec:
        return ClusterSpec(self.max_nodes, tuple(pool.spec() for pool in self.pools))


class ToldEventBody(Body):
    """An event of a cluster. The service keeps facts that it does not know."""

    key: Annotated[str, Field(pattern=r"^[!-~]{1,100}$", description="An event told again has the same key.")]
    at_us: Time
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]
    facts: dict[_FactName, _FactValue] = Field(
        default_factory=dict, max_length=_MOST_FACTS, json_schema_extra={"additionalProperties": False}
    )

    def event(self) -> KeyedEvent:
        return KeyedEvent(self.key, ToldEvent(0, self.at_us, self.kind, self.facts))


class ToldEventsBody(Body):
    """The doings of a manager, and how its newest look went."""

    most_bytes: ClassVar[int] = 1 << 19
    most_values: ClassVar[int] = 12_000
    events: Annotated[list[ToldEventBody], Field(max_length=MOST_TOLD)] = Field(default_factory=list)
    loop_s: Annotated[float, Field(ge=0, le=86_400)] | None = Field(
        None, description="How long the newest look took, with what was done then; without it there was none."
    )
    orphan_count: Annotated[int, Field(ge=0, le=100_000), WHOLE] = Field(
        0, description="Machines without an instance that the look found."
    )

    def look(self) -> ManagerLook | None:
        return None if self.loop_s is None else ManagerLook(self.loop_s, self.orphan_count)


class ClusterNodesQuery(PageQuery):
    stage: Literal["booting", "idle", "busy", "evicted", "gone"] | None = Field(
        None, description="Only nodes of this stage; by default all that are not gone."
    )


class ClusterJobsQuery(PageQuery):
    stage: Literal["waiting", "running", "ended"] | None = Field(None, description="Only jobs of this stage.")


class ClusterEventsQuery(Query):
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63, description="The last event that the caller knows.")] = 0
    limit: Limit = 100


def cluster_answer(cluster: KnownCluster) -> ClusterAnswer:
    """Return the wire form of a cluster."""
    stages = [job.stage for job in cluster.past.jobs.values()]
    return answer_of(
        ClusterAnswer,
        cluster.stored,
        max_nodes=cluster.spec.max_nodes,
        pools=[answer_of(ClusterPoolAnswer, pool) for pool in cluster.spec.pools],
        is_managed=cluster.is_managed,
        deleted_at=_moment(cluster.past.deleted_us),
        node_count=sum(1 for _ in cluster.past.there()),
        waiting_count=stages.count(JobStage.WAITING),
        running_count=stages.count(JobStage.RUNNING),
        links=[Link(rel="self", href=f"/v1/clusters/{cluster.stored.name}")],
    )


def nodes_of(cluster: KnownCluster, stage: str | None) -> list[ToldNode]:
    """Return the nodes of a stage, or all that are not gone, by name."""
    found = cluster.past.there() if stage is None else cluster.past.nodes.values()
    return sorted((node for node in found if stage in (None, node.stage)), key=lambda node: node.name)


def node_answer(node: ToldNode) -> ClusterNodeAnswer:
    """Return the wire form of a node."""
    times = {name: _moment(getattr(node, f"{name}_us")) for name in ("bought", "ready", "evicted", "gone")}
    return answer_of(ClusterNodeAnswer, node, **{f"{name}_at": at for name, at in times.items()})


def jobs_of(cluster: KnownCluster, stage: str | None) -> list[ToldJob]:
    """Return the jobs of a stage, or all: first those that are not over, then by number."""
    return [job for job in cluster.past.in_order() if stage in (None, job.stage)]


def job_answer(job: ToldJob) -> ClusterJobAnswer:
    """Return the wire form of a job."""
    times = {name: _moment(getattr(job, f"{name}_us")) for name in ("seen", "started", "ended")}
    return answer_of(
        ClusterJobAnswer,
        job,
        nodes=[*job.nodes],
        checkpoint_count=job.checkpoints,
        requeue_count=job.requeues,
        marks=[ClusterMarkAnswer(at=to_datetime(mark.at_us), kind=mark.kind) for mark in job.marks],
        **{f"{name}_at": at for name, at in times.items()},
    )


def checkpoint_answer(keyed: KeyedEvent) -> ClusterCheckpointAnswer:
    """Return the wire form of an event that tells of a checkpoint."""
    event = keyed.event
    size = event.number("bytes")
    return ClusterCheckpointAnswer(
        seq=event.seq,
        at=to_datetime(event.at_us),
        job=event.text("job"),
        node=event.text("node"),
        result=CHECKPOINTS[event.kind],
        why=event.text("why"),
        size_bytes=None if size is None else int(size),
        pause_s=event.number("pause_s"),
        write_s=event.number("write_s"),
    )


def cost_answer(cluster: KnownCluster, cost: ClusterCost) -> ClusterCostAnswer:
    """Return the wire form of a cluster's cost."""
    return ClusterCostAnswer(
        cluster=cluster.stored.name,
        pools=[
            PoolCostAnswer(
                pool=row.pool,
                instance_count=row.instance_count,
                used_s=seconds(row.used_us),
                cost=row.cost_micro / MICRO,
                on_demand_cost=_money(row.on_demand_micro),
            )
            for row in cost.pools
        ],
        used_s=seconds(cost.used_us),
        cost=cost.cost_micro / MICRO,
        on_demand_cost=_money(cost.on_demand_micro),
    )


def event_answer(keyed: KeyedEvent) -> ClusterEventAnswer:
    """Return the wire form of an event."""
    event, facts = keyed.event, dict[str, Any](keyed.event.facts)
    return ClusterEventAnswer(seq=event.seq, at=to_datetime(event.at_us), kind=event.kind, key=keyed.key, facts=facts)


def _moment(at_us: int | None) -> Any:  # noqa: ANN401 - a time or nothing
    return None if at_us is None else to_datetime(at_us)


def _money(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO
