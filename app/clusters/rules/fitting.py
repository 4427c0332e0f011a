"""The jobs that no pool can ever hold. Nothing is bought or kept for them; people are told what would be accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.clusters.rules.deciding import SeenInstance, SeenJob, View, pool_of
from app.clusters.rules.wanted import ClusterWanted, PoolWanted

NodeSizes = Mapping[str, tuple[int, int]]
"""The cores and the memory in MiB of a node, by pool; of a pool that is not in it they are not known."""


def possible(wanted: ClusterWanted, view: View) -> View:
    """Return what was observed without the jobs that no pool can ever hold."""
    jobs = [job for job in view.jobs if not misfit(wanted, view.instances, view.sizes, job)]
    return view if len(jobs) == len(view.jobs) else replace(view, jobs=jobs)


def misfit(wanted: ClusterWanted, instances: Mapping[str, SeenInstance], sizes: NodeSizes, job: SeenJob) -> str:
    """Return why no pool can ever hold a job, with what would be accepted; empty: one can.

    instances: those that run; they count also where the file allows fewer by now.
    """
    pools = [pool for name in job.pools if (pool := wanted.pool(name)) is not None]
    rooms = {pool.name: _room(wanted, instances, pool) for pool in pools}
    if any(_holds(job, rooms[pool.name], sizes.get(pool.name)) for pool in pools):
        return ""
    if not pools:
        return f"its pool {','.join(job.pools)} is not in the cluster file: submit it with -p {_names(wanted)}"
    asked, offered = _asked(job), [_offered(pool, rooms[pool.name], sizes.get(pool.name)) for pool in pools]
    if job.is_anywhere and job.node_count > 1:
        return f"{asked}, and a job of several nodes must name its pool (sbatch -p): {'; '.join(offered)}"
    told = f"{asked}, and no pool holds that: {'; '.join(offered)}"
    more = [(pool.name, count) for pool in pools if (count := _spread(job, rooms[pool.name], sizes.get(pool.name)))]
    return f"{told}: say how many nodes it wants (sbatch -p {more[0][0]} -N {more[0][1]})" if more else told


def _room(wanted: ClusterWanted, instances: Mapping[str, SeenInstance], pool: PoolWanted) -> int:
    """Return how many nodes of a pool there may ever be."""
    there = sum(pool_of(name) == pool.name for name in instances)
    return max(min(pool.max_nodes, wanted.scale.max_nodes), there)


def _holds(job: SeenJob, room: int, size: tuple[int, int] | None) -> bool:
    if job.node_count > (min(room, 1) if job.is_anywhere else room):
        return False
    if size is None:
        return True
    cores, memory_mib = size
    return job.cores <= cores and job.memory_mib <= memory_mib and job.cores_in_all <= cores * job.node_count


def _spread(job: SeenJob, room: int, size: tuple[int, int] | None) -> int:
    """Return on how many nodes of a pool a job would find its cores, if it said so; 0: on none that there may be."""
    if size is None or job.is_anywhere or job.cores > size[0] or job.memory_mib > size[1]:
        return 0
    count = -(-job.cores_in_all // size[0])
    return count if job.node_count < count <= room else 0


def _asked(job: SeenJob) -> str:
    words = [f"{job.node_count} {_plural('node', job.node_count)}"]
    each = [f"{job.cores} cores"] if job.cores > 1 else []
    each += [f"{job.memory_mib} MiB"] if job.memory_mib else []
    words += [f"of {' and '.join(each)}" + (" each" if job.node_count > 1 else "")] if each else []
    words += [f"and {job.cores_in_all} cores in all"] if job.cores_in_all > job.cores * job.node_count else []
    return f"it wants {' '.join(words)}"


def _offered(pool: PoolWanted, room: int, size: tuple[int, int] | None) -> str:
    of_size = "" if size is None else f" of {size[0]} {_plural('core', size[0])} and {size[1]} MiB"
    return f"{pool.name} has up to {room} {_plural('node', room)}{of_size}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _names(wanted: ClusterWanted) -> str:
    return " or ".join(pool.name for pool in wanted.pools)
