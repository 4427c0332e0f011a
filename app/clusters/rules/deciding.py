"""Decides on the next actions of a cluster: the observed one against the wanted one.

The rule is level-triggered: it knows what is there now and nothing of what was done before. A node is one name in three
places: an instance of a Tenure cloud, a machine, and a node of Slurm. What stands in one place and not in the others is
completed or cleared away; what a place did not answer for is not in the view at all, and then nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.clusters.rules.wanted import ClusterWanted, PoolWanted

KILL_MARGIN_S = 3.0
"""A node under notice is given back so long before its deadline, whatever runs on it."""
EXTEND_S = 120.0
"""A busy node asks for a longer lifetime when so little of it is left."""


class NodeState(StrEnum):
    """The state of a node in Slurm. `bad`: down, or drained by nobody that we know."""

    IDLE = "idle"
    BUSY = "busy"
    BAD = "bad"


class Deed(StrEnum):
    """The kinds of actions."""

    BUY = "buy"
    MAKE = "make"
    EXTEND = "extend"
    DRAIN = "drain"
    RETIRE = "retire"
    DROP = "drop"
    DESTROY = "destroy"
    STOP = "stop"
    CONFIRM = "confirm"
    RELEASE = "release"


class SeenInstance(NamedTuple):
    """An instance that runs, or runs on under the notice of an eviction until notice_s from now.

    left_s: of its lifetime; None: on demand.
    """

    age_s: float
    left_s: float | None = None
    notice_s: float | None = None


class SeenNode(NamedTuple):
    """A node of Slurm, and for how long it has been seen idle. is_safe: its jobs stand, each with its checkpoint."""

    state: NodeState
    idle_s: float = 0.0
    is_draining: bool = False
    is_safe: bool = False


class SeenJob(NamedTuple):
    """A job that waits for nodes of one of these pools, in this order, or that Slurm holds after a failed launch."""

    job_id: str
    pools: tuple[str, ...]
    node_count: int = 1
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """All that was observed, by the name of the node. jobs: those that wait, in the order of the queue."""

    instances: Mapping[str, SeenInstance]
    machines: frozenset[str]
    nodes: Mapping[str, SeenNode]
    jobs: Sequence[SeenJob]
    refusing: frozenset[str] = frozenset()


class Action(NamedTuple):
    """A deed on a node, on a job (release), or on behalf of a job: buy one node of the first of these pools."""

    deed: Deed
    name: str
    why: str
    pools: tuple[str, ...] = ()


def pool_of(node: str) -> str:
    """Return the pool in the name of a node, cluster-pool-number."""
    return node.split("-")[1] if node.count("-") == 2 else ""


def decide(wanted: ClusterWanted, view: View) -> list[Action]:
    """Return what to do now, in this order. A cluster that is as it should be needs nothing."""
    return [*_mended(wanted, view), *_released(view), *_shrunk(wanted, view), *_grown(wanted, view)]


def _mended(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    for name in sorted(view.instances.keys() | view.machines | view.nodes.keys()):
        instance = view.instances.get(name)
        if instance is None:
            yield from _cleared(view, name, "no instance runs for it")
        elif instance.notice_s is not None:
            yield from _noticed(view, name, instance.notice_s)
        else:
            yield from _completed(wanted, view, name, instance)


def _cleared(view: View, name: str, why: str) -> Iterator[Action]:
    """Yield the end of a node in Slurm, whose jobs are queued again, and of its machine."""
    if name in view.nodes:
        yield Action(Deed.DROP, name, why)
    if name in view.machines:
        yield Action(Deed.DESTROY, name, why)


def _noticed(view: View, name: str, notice_s: float) -> Iterator[Action]:
    """Yield what a notice asks for: no new jobs; and before its deadline, or once no job runs on, the node goes."""
    node = view.nodes.get(name)
    is_busy = node is not None and node.state is NodeState.BUSY and name in view.machines
    if not is_busy or notice_s <= KILL_MARGIN_S or (node is not None and node.is_safe):
        yield from _cleared(view, name, "evicted")
        yield Action(Deed.CONFIRM, name, "evicted")
    elif node is not None and not node.is_draining:
        yield Action(Deed.DRAIN, name, "evicted")


def _completed(wanted: ClusterWanted, view: View, name: str, instance: SeenInstance) -> Iterator[Action]:
    is_late = instance.age_s > wanted.scale.boot_timeout_s
    node = view.nodes.get(name)
    if name not in view.machines and node is not None:
        yield Action(Deed.DROP, name, "its machine is gone")
    elif name not in view.machines:
        is_awaited = any(pool_of(name) in job.pools for job in view.jobs)
        if is_awaited and not is_late and wanted.pool(pool_of(name)) is not None:
            yield Action(Deed.MAKE, name, "bought")
        else:
            yield Action(Deed.STOP, name, "it has no machine in time" if is_late else "no job waits for it any more")
    elif node is None and is_late:
        yield Action(Deed.DESTROY, name, "it did not join Slurm in time")
        yield Action(Deed.STOP, name, "it did not join Slurm in time")
    elif node is not None and node.state is NodeState.BAD:
        yield from _given_back(view, name, "Slurm says that it is down or drained")
    elif node is not None and _ends_soon(instance):
        yield Action(Deed.EXTEND if node.state is NodeState.BUSY else Deed.RETIRE, name, "its lifetime ends")


def _ends_soon(instance: SeenInstance) -> bool:
    return instance.left_s is not None and instance.left_s < min(EXTEND_S, instance.age_s)


def _given_back(view: View, name: str, why: str) -> Iterator[Action]:
    yield from _cleared(view, name, why)
    yield Action(Deed.STOP, name, why)


def _released(view: View) -> Iterator[Action]:
    for job in view.jobs:
        if job.is_held:
            yield Action(Deed.RELEASE, job.job_id, "a launch failed, and Slurm holds it")


def _shrunk(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield nodes that have been idle long enough while no job waits. Busy ones are never among them."""
    if view.jobs:
        return
    for name, node in sorted(view.nodes.items()):
        instance = view.instances.get(name)
        if instance is None or instance.notice_s is not None or _ends_soon(instance) or name not in view.machines:
            continue
        if node.state is NodeState.IDLE and node.idle_s >= wanted.scale.idle_s:
            yield Action(Deed.RETIRE, name, f"idle for {wanted.scale.idle_s} s")


def _grown(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield a purchase for each node that a waiting job lacks. All nodes of a job are of one pool.

    Nodes that are idle or on their way are counted off in the order of the queue, so none is bought for two jobs.
    """
    spare = {pool.name: _spare(view, pool) for pool in wanted.pools}
    count = {pool.name: sum(pool_of(name) == pool.name for name in view.instances) for pool in wanted.pools}
    for job in view.jobs:
        pools = [pool for pool in map(wanted.pool, job.pools) if pool is not None]
        ready = next((pool.name for pool in pools if spare[pool.name] >= job.node_count), None)
        if ready is not None:
            spare[ready] -= job.node_count
            continue
        room = wanted.scale.max_nodes - sum(count.values())
        for at, pool in enumerate(pools):
            lacking = job.node_count - spare[pool.name]
            if lacking > min(room, pool.max_nodes - count[pool.name]) or pool.name in view.refusing:
                continue
            others = [other for other in pools[at:] if other.name not in view.refusing]
            choices = tuple(other.name for other in others if count[other.name] < other.max_nodes)
            choices = choices if job.node_count == 1 else (pool.name,)
            yield from (Action(Deed.BUY, job.job_id, f"job {job.job_id} waits", choices) for _ in range(lacking))
            spare[pool.name], count[pool.name] = 0, count[pool.name] + lacking
            break


def _spare(view: View, pool: PoolWanted) -> int:
    """Return the nodes of a pool that are free for a job, or on their way."""
    return sum(
        pool_of(name) == pool.name
        and instance.notice_s is None
        and (name not in view.nodes or view.nodes[name].state is NodeState.IDLE)
        and not _ends_soon(instance)
        for name, instance in view.instances.items()
    )
