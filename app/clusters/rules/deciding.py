"""The values of an observed cluster, the actions that there are, and the rule for each single node.

The rule is level-triggered: it knows what is there now and nothing of what was done before. A node is one name in three
places: an instance of a Tenure cloud, a machine, and a node of Slurm. What stands in one place and not in the others is
completed or cleared away; what a place did not answer for is not in the view at all, and then nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.clusters.rules.wanted import ClusterWanted

KILL_MARGIN_S = 3.0
"""A node under notice is given back so long before its deadline, whatever runs on it."""
EXTEND_S = 120.0
"""A busy node asks for a longer lifetime when so little of it is left."""
NO_INSTANCE = "no instance runs for it"
"""The reason for which an orphan is destroyed: a machine or a node that nobody pays for any more."""

LEASE_MARGIN_S = 10.0
"""Jobs that save themselves are asked to so long, and the time that saving takes, before their lease ends."""
LEASE_ENDS = "its lease ends"


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
    CLOSE = "close"
    MOVE = "move"
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
    """A job that waits for nodes of one of these pools, in this order, or that Slurm holds after a failed launch.

    limit_s: how long it may run; None: for ever. cores, memory_mib: what it needs of each node at least; cores_in_all:
    of all its nodes together. is_anywhere: it is in the partition of all pools, where a job has one node only.
    """

    job_id: str
    pools: tuple[str, ...]
    node_count: int = 1
    is_held: bool = False
    limit_s: float | None = None
    cores: int = 1
    memory_mib: int = 0
    cores_in_all: int = 1
    is_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """All that was observed, by the name of the node. jobs: those that wait, in the order of the queue.

    free_in_s: by when the time limits of its jobs end a busy node's work; a node whose jobs have none is not in it.
    saving_s: how long saving stops the jobs of a busy node; a node with a job that cannot save itself is not in it.
    forgotten: machines that were nodes of Slurm, and that it does not know any more.
    sizes: the cores and the memory in MiB of a node of each pool of which they are known.
    """

    instances: Mapping[str, SeenInstance]
    machines: frozenset[str]
    nodes: Mapping[str, SeenNode]
    jobs: Sequence[SeenJob]
    refusing: frozenset[str] = frozenset()
    free_in_s: Mapping[str, float] = field(default_factory=dict)
    saving_s: Mapping[str, float] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Action(NamedTuple):
    """A deed on a node, on a job (release), or on behalf of a job: buy one node of the first of these pools.

    lifetime_s: what the job may need of the node; None: what the pool's file says.
    """

    deed: Deed
    name: str
    why: str
    pools: tuple[str, ...] = ()
    lifetime_s: float | None = None


def pool_of(node: str) -> str:
    """Return the pool in the name of a node, cluster-pool-number."""
    return node.split("-")[1] if node.count("-") == 2 else ""


def mended(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield what each node needs to stand in all three places, or in none."""
    awaited = awaited_pools(wanted, view)
    for name in sorted(view.instances.keys() | view.machines | view.nodes.keys()):
        instance = view.instances.get(name)
        if instance is None:
            yield from _cleared(view, name, NO_INSTANCE)
        elif instance.notice_s is not None:
            yield from _noticed(view, name, instance.notice_s)
        else:
            yield from _completed(wanted, view, name, instance, pool_of(name) in awaited)


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
    if is_busy and node is not None and node.is_safe:
        yield Action(Deed.DESTROY, name, "evicted")  # first, so that Slurm does not let its jobs go on for a moment
        yield Action(Deed.DROP, name, "evicted")
        yield Action(Deed.CONFIRM, name, "evicted")
    elif not is_busy or notice_s <= KILL_MARGIN_S:
        yield from _cleared(view, name, "evicted")
        yield Action(Deed.CONFIRM, name, "evicted")
    elif node is not None and not node.is_draining:
        yield Action(Deed.DRAIN, name, "evicted")


def awaited_pools(wanted: ClusterWanted, view: View) -> set[str]:
    """Return the pools whose nodes are waited for."""
    if wanted.scale.drain:
        return set()
    names = {pool.name for pool in wanted.pools}
    return (
        names if wanted.scale.free else {name for pools in {job.pools for job in view.jobs} for name in pools} & names
    )


def _completed(
    wanted: ClusterWanted,
    view: View,
    name: str,
    instance: SeenInstance,
    is_awaited: bool,  # noqa: FBT001 - one of five
) -> Iterator[Action]:
    is_late = instance.age_s > wanted.scale.boot_timeout_s
    node = view.nodes.get(name)
    if name not in view.machines and node is not None:
        yield Action(Deed.DROP, name, "its machine is gone")
    elif name not in view.machines:
        if is_awaited and not is_late:
            yield Action(Deed.MAKE, name, "bought")
        else:
            yield Action(Deed.STOP, name, "it has no machine in time" if is_late else "no job waits for it any more")
    elif node is None and is_late:
        yield Action(Deed.DESTROY, name, "it did not join Slurm in time")
        yield Action(Deed.STOP, name, "it did not join Slurm in time")
    elif node is None and name in view.forgotten:
        yield Action(Deed.DESTROY, name, "Slurm has forgotten it")  # made anew or given back in the next round
    elif node is not None and node.state is NodeState.BAD:
        yield from _given_back(view, name, "Slurm says that it is down or drained")
    elif node is not None and _is_chained(wanted, view, name, instance):
        yield from _moved(name, node, instance)
    elif node is not None and ends_soon(instance):
        yield Action(Deed.EXTEND if node.state is NodeState.BUSY else Deed.RETIRE, name, "its lifetime ends")


def _is_chained(wanted: ClusterWanted, view: View, name: str, instance: SeenInstance) -> bool:
    """Tell if the lease of a node ends whose jobs can go on from where they are on another."""
    pool, saving_s = wanted.pool(pool_of(name)), view.saving_s.get(name)
    return (
        pool is not None
        and pool.min_lease_s is not None
        and saving_s is not None
        and instance.left_s is not None
        and instance.left_s <= saving_s + LEASE_MARGIN_S
    )


def _moved(name: str, node: SeenNode, instance: SeenInstance) -> Iterator[Action]:
    """Yield what brings the jobs of a node under another lease: they save themselves, and wait again at the end."""
    if not node.is_draining:
        yield Action(Deed.DRAIN, name, LEASE_ENDS)
    elif instance.left_s is not None and instance.left_s <= KILL_MARGIN_S:
        yield Action(Deed.MOVE, name, LEASE_ENDS)


def ends_soon(instance: SeenInstance) -> bool:
    """Tell if so little of the promised lifetime is left that no job should begin on it."""
    return instance.left_s is not None and instance.left_s < min(EXTEND_S, instance.age_s)


def _given_back(view: View, name: str, why: str) -> Iterator[Action]:
    yield from _cleared(view, name, why)
    yield Action(Deed.STOP, name, why)


def released(view: View) -> Iterator[Action]:
    """Yield the jobs that Slurm holds after a failed launch."""
    for job in view.jobs:
        if job.is_held:
            yield Action(Deed.RELEASE, job.job_id, "a launch failed, and Slurm holds it")
