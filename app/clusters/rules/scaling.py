"""The number of nodes: those that are bought for the jobs that wait, and the idle ones that go.

Jobs are looked at in the order of the queue. Nodes that are idle or on their way are counted off for each, so a node
that is booting belongs to the job that it was bought for, and none is bought for two jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from app.clusters.rules.deciding import EXTEND_S, Action, Deed, NodeState, SeenJob, View, ends_soon, pool_of
from app.clusters.rules.wanted import ClusterWanted, PoolWanted

BLOCK_MARGIN_S = 60.0
"""A node that is paid by blocks of time goes in this last part of a block, or in the block's last quarter."""
FREE = "keep_free"
"""The name on behalf of which nodes are bought that are kept free."""


def shrunk(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield the idle nodes that go. Busy ones are never among them."""
    if wanted.scale.drain:
        yield from _emptied(view)
    elif not view.jobs:
        yield from _idled(wanted, view)


def _emptied(view: View) -> Iterator[Action]:
    """Yield the end of a cluster's work: idle nodes go, and busy ones take no new job."""
    for name, node in sorted(view.nodes.items()):
        if not _is_whole(view, name):
            continue
        if node.state is NodeState.IDLE:
            yield Action(Deed.RETIRE, name, "the cluster is drained")
        elif node.state is NodeState.BUSY and not node.is_draining:
            yield Action(Deed.CLOSE, name, "the cluster is drained")


def _idled(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield the nodes that have been idle long enough, of the last pools first, but for those that are kept free."""
    idle = [name for name, node in view.nodes.items() if node.state is NodeState.IDLE and _is_whole(view, name)]
    surplus = len(idle) - wanted.scale.free
    order = {pool.name: at for at, pool in enumerate(wanted.pools)}
    idle.sort(key=lambda name: (-order.get(pool_of(name), len(order)), name))
    for name in idle[: max(surplus, 0)]:
        if why := _is_over(wanted, view, name):
            yield Action(Deed.RETIRE, name, why)


def _is_whole(view: View, name: str) -> bool:
    """Tell if a node of Slurm has a machine, and an instance that neither is under notice nor ends soon."""
    instance = view.instances.get(name)
    return instance is not None and instance.notice_s is None and not ends_soon(instance) and name in view.machines


def _is_over(wanted: ClusterWanted, view: View, name: str) -> str:
    """Return why an idle node goes now; empty: it stays."""
    block_s = wanted.scale.block_s
    if block_s is None:
        idle_s = wanted.scale.idle_after_s
        return f"idle for {idle_s} s" if view.nodes[name].idle_s >= idle_s else ""
    left_s = block_s - view.instances[name].age_s % block_s
    return f"idle, and a block of {block_s} s ends" if left_s <= min(BLOCK_MARGIN_S, block_s / 4) else ""


@dataclass(slots=True)
class _PoolRoom:
    """A pool while purchases are counted off. spare: nodes that are free for a job; more: that may still be bought."""

    pool: PoolWanted
    spare: int
    more: int
    is_refusing: bool


def grown(wanted: ClusterWanted, view: View) -> Iterator[Action]:
    """Yield a purchase for each node that a waiting job lacks. All nodes of a job are of one pool."""
    if wanted.scale.drain:
        return
    rooms = _rooms(wanted, view)
    left = wanted.scale.max_nodes - len(view.instances)
    of_pools: dict[tuple[str, ...], list[_PoolRoom]] = {}
    for job in view.jobs:
        if not _has_any(rooms.values(), left):
            return
        if job.pools not in of_pools:
            of_pools[job.pools] = [rooms[name] for name in job.pools if name in rooms]
        count = 0
        for action in _for_job(job, of_pools[job.pools], left, wanted.scale.group):
            count += 1
            yield action
        left -= count
    yield from _kept_free(wanted.scale.free, list(rooms.values()), left)


def _has_any(rooms: Iterable[_PoolRoom], left: int) -> bool:
    """Tell if a pool has a node for any job, or may buy one."""
    return any(room.spare > 0 or (left > 0 and room.more > 0 and not room.is_refusing) for room in rooms)


def _rooms(wanted: ClusterWanted, view: View) -> dict[str, _PoolRoom]:
    """Return the pools, with their nodes that are idle, on their way, or free within the file's patience."""
    rooms = {pool.name: _PoolRoom(pool, 0, pool.max_nodes, pool.name in view.refusing) for pool in wanted.pools}
    for name, instance in view.instances.items():
        room = rooms.get(pool_of(name))
        if room is None:
            continue
        room.more -= 1
        if instance.notice_s is None and not ends_soon(instance):
            room.spare += _is_spare(view, name, wanted.scale.patience_s)
    return rooms


def _is_spare(view: View, name: str, patience_s: float) -> bool:
    node = view.nodes.get(name)
    if node is None or node.state is NodeState.IDLE:
        return True
    return node.state is NodeState.BUSY and not node.is_draining and view.free_in_s.get(name, inf) < patience_s


def _for_job(job: SeenJob, rooms: Sequence[_PoolRoom], left: int, group: int) -> Iterator[Action]:
    """Count nodes off for a job, or yield what it lacks of the first pool that has room for all of it.

    A job of one node goes on to the later pools if one refuses. By groups, a multiple is bought as far as it has room.
    """
    count = job.node_count
    for room in rooms:
        if room.spare >= count:
            room.spare -= count
            return
    for at, room in enumerate(rooms):
        lacking, most = count - room.spare, min(left, room.more)
        if lacking > most or room.is_refusing:
            continue
        bought = min(-(-lacking // group) * group, most)
        choices = _choices(rooms[at:] if count == 1 else [room])
        room.spare, room.more = bought - lacking, room.more - bought
        lifetime_s = None if job.limit_s is None else job.limit_s + EXTEND_S
        yield from [Action(Deed.BUY, job.job_id, f"job {job.job_id} waits", choices, lifetime_s)] * bought
        return


def _kept_free(free: int, rooms: Sequence[_PoolRoom], left: int) -> Iterator[Action]:
    """Yield what lacks of the nodes that are kept free, beyond those that jobs wait for."""
    lacking = min(free - sum(room.spare for room in rooms), left)
    for at, room in enumerate(rooms):
        bought = 0 if room.is_refusing else max(min(lacking, room.more), 0)
        yield from [Action(Deed.BUY, FREE, f"{free} nodes are kept free", _choices(rooms[at:]))] * bought
        lacking -= bought


def _choices(rooms: Sequence[_PoolRoom]) -> tuple[str, ...]:
    """Return the pools that may be asked, in order."""
    return tuple(room.pool.name for room in rooms if not room.is_refusing and room.more > 0)
