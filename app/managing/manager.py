"""The manager: an ordinary controller that looks at the cluster, decides, and acts, each second anew.

It keeps no journal. After any death it finds everything again in three places that survive: the clouds' logs, Slurm's
state, and the machines. If one of them does not answer, nothing is done in that round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import inf

from app.clusters.rules.deciding import (
    LEASE_ENDS,
    Action,
    Deed,
    NodeState,
    SeenJob,
    SeenNode,
    View,
    pool_of,
)
from app.clusters.rules.fitting import misfit
from app.clusters.rules.reconciling import decide
from app.clusters.rules.saving import saving_of
from app.clusters.rules.wanted import PoolWanted
from app.managing.asking import Asking
from app.managing.batch import BatchCluster
from app.managing.buying import Purchase
from app.managing.checkpointing.keeper import CheckpointKeeper
from app.managing.declared import Declared
from app.managing.ending import Ends
from app.managing.joining import Joining
from app.managing.logs import BoundedLogs
from app.managing.lost import put_right
from app.managing.programs import ProgramFailed
from app.managing.slurm import QueuedJob, SlurmSilent
from app.managing.telling import Telling
from tenure_client import ClientError, ServiceUnreachable

ROUND_S = 1.0
MOST_RELEASES = 3
_HELD = "launch_failed_requeued_held"
_NOT_ELIGIBLE = ("dependency", "jobheld", "job_requeued_in_held_state", "begintime", "jobarraytasklimit", "reservation")
_UNAVAILABLE_AGAIN_S = 10.0
_TROUBLES = (ClientError, ProgramFailed, OSError)


class Manager:
    """Keeps a cluster as its file wants it."""

    def __init__(
        self, cluster: BatchCluster, declared: Declared, looked: Callable[[float, int], None] | None = None
    ) -> None:
        self._cluster, self._declared, self._looked = cluster, declared, looked
        self._telling, self._joining = Telling(Ends(cluster.slurm).of, cluster.events), Joining()
        self._idle_since_s: dict[str, float] = {}
        self._not_before_s: dict[str, float] = {}
        self._releases: dict[str, int] = {}
        self._said: dict[str, str] = {}
        self._is_complete = False
        self._failures: dict[tuple[Deed, str], str] = {}
        self._jobs: list[QueuedJob] = []
        self._asking = Asking(cluster.wanted, cluster.slurm, cluster.buyer, cluster.events)
        self._keeper = CheckpointKeeper(cluster.wanted, cluster.machines, cluster.buyer, cluster.events)
        self._logs = BoundedLogs(cluster.slurm.folder / "log")
        self._deeds: dict[Deed, Callable[[Action], None]] = {
            Deed.BUY: self._buy,
            Deed.MAKE: self._make,
            Deed.EXTEND: self._extend,
            Deed.DRAIN: self._drain,
            Deed.CLOSE: lambda action: cluster.slurm.drain(action.name, action.why),
            Deed.MOVE: self._move,
            Deed.RETIRE: self._retire,
            Deed.DROP: self._drop,
            Deed.DESTROY: lambda action: cluster.machines.destroy(action.name),
            Deed.STOP: lambda action: cluster.buyer.stop(action.name),
            Deed.CONFIRM: self._confirm,
            Deed.RELEASE: self._release,
        }

    def run(self, is_over: Callable[[], bool]) -> None:
        """Take a round each second until it is over."""
        self._cluster.events.write("manager_started")
        while not is_over():
            began_s = time.monotonic()
            self.round()
            time.sleep(max(0.0, ROUND_S - (time.monotonic() - began_s)))

    def round(self) -> None:
        """Look, decide, act. An action that fails is told; the next round decides anew."""
        began_s = time.monotonic()
        self._cluster.wanted = self._declared.now()
        with self._telling_of("logs"):
            self._logs.look()
        view = self._seen()
        if view is None:
            return
        is_true = self._act(decide(self._cluster.wanted, view))
        if self._looked is not None:
            self._looked(time.monotonic() - began_s, len(view.machines - view.instances.keys()))
        if not is_true:
            return
        with self._telling_of("checkpoints"):
            self._asking.as_advised(view, self._jobs)
            self._keeper.look(view, self._jobs)

    @contextmanager
    def _telling_of(self, task: str) -> Iterator[None]:
        """Do a task without which the manager goes on. Why it failed is told once, until it succeeds again."""
        try:
            yield
        except _TROUBLES as error:
            if self._said.get(task) != str(error):
                self._said[task] = str(error)
                self._cluster.events.write("no_answer", task=task, error=str(error))
        else:
            self._said.pop(task, None)

    def _act(self, actions: list[Action]) -> bool:
        """Do one after the other. Where one fails, the later ones on the same node wait for the next round.

        Return False if Slurm or the service cannot be reached any more: what was seen may not be so now, and all waits.
        A failure that was told in the round before is not told again.
        """
        told, self._failures = self._failures, {}
        failed = set[str]()
        for action in actions:
            if action.name in failed or self._not_before_s.get(action.name, 0.0) > time.monotonic():
                continue
            try:
                self._deeds[action.deed](action)
                if action.deed not in {Deed.BUY, Deed.MAKE, Deed.EXTEND, Deed.RETIRE, Deed.RELEASE}:
                    self._told(action)
            except _TROUBLES as error:
                key = action.deed, action.name
                self._failures[key] = str(error)
                if told.get(key) != str(error):
                    self._cluster.events.write("action_failed", deed=action.deed, name=action.name, error=str(error))
                if isinstance(error, ServiceUnreachable | SlurmSilent):
                    return False
                if action.deed is not Deed.CONFIRM:
                    failed.add(action.name)
        return True

    def _told(self, action: Action) -> None:
        names = {
            Deed.DROP: "node_lost",
            Deed.STOP: "node_released",
            Deed.CONFIRM: "eviction_confirmed",
            Deed.CLOSE: "node_closed",
            Deed.MOVE: "lease_ended",
        }
        kind = names.get(action.deed, f"node_{action.deed}")
        self._cluster.events.write(kind, node=action.name, why=action.why)

    def _seen(self) -> View | None:
        """Return what is there; None if a place does not answer."""
        with self._telling_of("looking"):
            return self._look()
        return None

    def _look(self) -> View:
        """Return what is there. A daemon of Slurm's that died is started."""
        cluster = self._cluster
        self._mend_slurm()
        self._keeper.tell()
        cluster.buyer.market.settle(cluster.events)
        cluster.buyer.market.follow_prices(cluster.events)
        for node, pool, why in cluster.buyer.refused():
            self._refused(pool, why, node=node)
        instances, machines = cluster.buyer.instances(), cluster.machines.there()
        if not self._is_complete:
            put_right(cluster.slurm, cluster.machines, self._telling)
            self._is_complete = True
        nodes, jobs = cluster.slurm.nodes(), cluster.slurm.jobs()
        alive = frozenset(name for name, runs in machines.items() if runs)
        if dead := machines.keys() - alive:
            self._bury(dead)
        self._jobs = jobs
        self._telling.look(nodes, jobs)
        queue = [seen for job in jobs if (seen := waiting(job)) is not None]
        sizes = cluster.sizes() if queue else {}
        misfits = {job.job_id: misfit(cluster.wanted, instances, sizes, job) for job in queue}
        self._telling.look_at_misfits({job: why for job, why in misfits.items() if why})
        return View(
            instances,
            alive,
            self._with_idle(nodes),
            queue,
            self._refusing(),
            _free_in_s(jobs),
            _saving_s(jobs),
            self._joining.forgotten(alive, nodes.keys()),
            sizes,
        )

    def _mend_slurm(self) -> None:
        """Start what died of Slurm, or hangs: its controller, or munged, without which nobody can speak to it."""
        cluster = self._cluster
        if hung := cluster.slurm.end_hung():
            cluster.events.write("slurm_hung", daemon=hung)
        if not cluster.slurm.runs():
            cluster.mend()
            cluster.events.write("slurm_started")
            self._is_complete = False
            self._joining.controller_began({name for name, runs in cluster.machines.there().items() if runs})
        elif not cluster.slurm.has_munge():
            cluster.slurm.start_munge()
            cluster.events.write("munge_started")

    def _bury(self, dead: set[str]) -> None:
        """Remove what a machine that died leaves behind."""
        for name in dead:
            with suppress(ProgramFailed):
                self._cluster.machines.destroy(name)

    def _with_idle(self, nodes: dict[str, tuple[NodeState, bool]]) -> dict[str, SeenNode]:
        """Return the nodes with the time for which each has been idle, as far as this process has seen it."""
        now_s = time.monotonic()
        safe = self._keeper.safe_nodes(self._jobs)
        idle = {name for name, (state, _) in nodes.items() if state is NodeState.IDLE}
        self._idle_since_s = {name: self._idle_since_s.get(name, now_s) for name in idle}
        return {
            name: SeenNode(state, now_s - self._idle_since_s.get(name, now_s), is_draining, name in safe)
            for name, (state, is_draining) in nodes.items()
        }

    def _refusing(self) -> frozenset[str]:
        now_s = time.monotonic()
        return frozenset(
            pool.name for pool in self._cluster.wanted.pools if self._not_before_s.get(pool.name, 0) > now_s
        )

    def _pool(self, node: str) -> PoolWanted:
        pool = self._cluster.wanted.pool(pool_of(node))
        if pool is None:
            raise ProgramFailed(f"{node} belongs to a pool that the file does not have any more: give it back by hand")
        return pool

    def _buy(self, action: Action) -> None:
        """Buy a node of the first pool that sells one. One that refuses is left alone for a while."""
        for name in action.pools:
            pool = self._cluster.wanted.pool(name)
            if pool is None or name in self._refusing():
                continue
            node = self._cluster.buyer.new_node(pool)
            try:
                purchase = self._cluster.buyer.start(node, pool, action.lifetime_s)
            except ServiceUnreachable:  # that is no refusal; if it was bought all the same, the next look finds it
                raise
            except ClientError as error:
                purchase = Purchase(is_bought=False, why=str(error))
            if purchase.is_bought:
                self._cluster.events.write("node_bought", node=node, why=action.why, cloud=pool.cloud, **purchase.facts)
                self._make(action._replace(name=node))
                return
            self._refused(name, purchase.why)

    def _refused(self, name: str, why: str, **facts: str) -> None:
        """Tell of a pool's refusal, and leave it alone for a while."""
        self._not_before_s[name] = time.monotonic() + self._cluster.wanted.scale.retry_s
        pool = self._cluster.wanted.pool(name)
        self._cluster.events.write("node_refused", pool=name, cloud=pool and pool.cloud, why=why, **facts)

    def _make(self, action: Action) -> None:
        pool = self._pool(action.name)
        self._cluster.machines.create(action.name, pool.name, *self._cluster.buyer.size(pool))
        self._cluster.events.write("node_made", node=action.name, why=action.why)

    def _drain(self, action: Action) -> None:
        """Ask the jobs of a node to save themselves, and let it take no more. Done twice it only asks twice."""
        why = "lease" if action.why == LEASE_ENDS else "notice"
        self._asking.before_the_end(action.name, self._jobs, why)
        self._cluster.slurm.drain(action.name, action.why)

    def _extend(self, action: Action) -> None:
        self._not_before_s[action.name] = time.monotonic() + self._cluster.wanted.scale.retry_s
        kind = (
            "node_extended" if self._cluster.buyer.extend(action.name, self._pool(action.name)) else "node_not_extended"
        )
        self._cluster.events.write(kind, node=action.name, why=action.why)

    def _move(self, action: Action) -> None:
        """Queue the jobs of a drained node again. Slurm calls it drained then, and it is given back."""
        for job in self._jobs:
            if job.state == "RUNNING" and job.nodes == action.name:
                self._cluster.slurm.requeue(job.job_id)

    def _drop(self, action: Action) -> None:
        """Forget a node. Its jobs need not wait as Slurm wants it for those that could come back to the same node."""
        self._cluster.slurm.drop(action.name, action.why)
        for job in self._jobs:
            if job.state == "RUNNING" and job.nodes == action.name:
                self._hasten(job.job_id)

    def _hasten(self, job: str) -> None:
        try:
            self._cluster.slurm.hasten(job)
        except SlurmSilent:
            raise
        except ProgramFailed:  # Slurm does it, and complains that there is no node for it yet
            return

    def _retire(self, action: Action) -> None:
        """Give an idle node back, unless it got a job in the meantime: only a drained node has none."""
        slurm = self._cluster.slurm
        slurm.drain(action.name, action.why)
        state, is_draining = slurm.nodes().get(action.name, (NodeState.BAD, False))
        if is_draining or state is NodeState.BUSY:
            slurm.resume(action.name)
            return
        slurm.drop(action.name, action.why)
        self._cluster.machines.destroy(action.name)
        self._cluster.buyer.stop(action.name)
        self._cluster.events.write("node_released", node=action.name, why=action.why)

    def _confirm(self, action: Action) -> None:
        self._not_before_s[action.name] = time.monotonic() + _UNAVAILABLE_AGAIN_S
        self._cluster.buyer.confirm(action.name)

    def _release(self, action: Action) -> None:
        """Release a held job, three times at most: then something is wrong with it, and it stays held."""
        done = self._releases.get(action.name, 0)
        if done < MOST_RELEASES:
            self._releases[action.name] = done + 1
            self._cluster.slurm.release(action.name)
            self._cluster.events.write("job_released", job=action.name, why=action.why)


def _free_in_s(jobs: Iterable[QueuedJob]) -> dict[str, float]:
    """Return by when the limits of the jobs on a node end them all, of the nodes whose jobs all have one."""
    left_s: dict[str, float] = {}
    for job in jobs:
        if job.state == "RUNNING" and job.node_count == 1:
            of_job_s = inf if job.left_s is None else job.left_s
            left_s[job.nodes] = max(left_s.get(job.nodes, 0.0), of_job_s)
    return {node: of_node_s for node, of_node_s in left_s.items() if of_node_s < inf}


def _saving_s(jobs: Iterable[QueuedJob]) -> dict[str, float]:
    """Return for how long saving stops the jobs of a node, of the nodes whose jobs can all save themselves."""
    found_s: dict[str, float] = {}
    for job in jobs:
        if job.state == "RUNNING":
            saving = saving_of(job.comment) if job.node_count == 1 else None
            found_s[job.nodes] = max(found_s.get(job.nodes, 0.0), inf if saving is None else saving.pause_s)
    return {node: of_node_s for node, of_node_s in found_s.items() if of_node_s < inf}


def waiting(job: QueuedJob) -> SeenJob | None:
    """Return a job that waits for nodes or was held by Slurm; None for one that waits for something else, or runs."""
    reason = job.reason.lower().replace(" ", "_")
    if job.state != "PENDING" or (reason != _HELD and reason.startswith(_NOT_ELIGIBLE)):
        return None
    size = job.cores, job.memory_mib, job.cores_in_all, job.is_anywhere
    return SeenJob(job.job_id, job.pools, job.node_count, reason == _HELD, job.limit_s, *size)
