"""A batch cluster as a whole: how its Slurm and its machines are made, who manages it, and how all of it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from app.clusters.rules.deciding import SeenInstance
from app.clusters.rules.wanted import ClusterWanted
from app.domain.inputs import InputError
from app.managing.buying import Buyer
from app.managing.checkpointing.placing import place_launcher
from app.managing.ending import Ends
from app.managing.events import Events
from app.managing.machines import MachineDriver, Namespaces
from app.managing.openstack import Fleet, NovaBuyer, NovaMachines
from app.managing.programs import ProgramFailed
from app.managing.slurm import Slurm, SlurmSilent
from app.managing.telling import Telling
from tenure_client import ClientError, TenureClient

DELETED = "the cluster is deleted"
_CANCELLED = "cancelled"


class ManagerRuns(Exception):
    """Another manager of this cluster runs."""


class BatchCluster:
    """The parts of a cluster, and what is seen of it."""

    def __init__(self, wanted: ClusterWanted, client: TenureClient) -> None:
        self.wanted, self.slurm = wanted, Slurm(wanted, wanted.machines.address)
        fleet = Fleet(wanted) if wanted.machines.is_openstack else None
        self.buyer = Buyer(wanted, client) if fleet is None else NovaBuyer(wanted, client, fleet)
        self.machines: MachineDriver = (
            Namespaces(wanted, self.slurm) if fleet is None else NovaMachines(wanted, self.slurm, fleet)
        )
        self.events = Events(self.slurm.folder / "events.jsonl")

    def create(self) -> None:
        """Make the folder, the network and the configuration, and start Slurm. What is there stays.

        Raise ProgramFailed if Slurm cannot start; what was started and made for it goes then.
        """
        had_munge, had_controller, is_new = self.slurm.has_munge(), self.slurm.runs(), not self.slurm.conf.exists()
        try:
            self.mend()
        except ProgramFailed:
            if not had_controller:
                self.slurm.stop(is_with_munge=not had_munge)
            if is_new:
                self.slurm.conf.unlink(missing_ok=True)
                with suppress(ProgramFailed):  # the network of another cluster of this name stays
                    self.machines.remove()
            raise

    def mend(self) -> None:
        """Make what is missing of the folder, the network and Slurm. Raise ProgramFailed if that fails."""
        self.machines.prepare()  # first: it refuses a second cluster of this name on this host
        if lacks := self.slurm.lacks():
            raise ProgramFailed(lacks)
        self.slurm.configure()
        place_launcher(self.wanted)
        self.slurm.start()

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return the cores and the memory in MiB of a node of each pool whose cloud tells them."""
        found = {}
        for pool in self.wanted.pools:
            with suppress(ClientError):
                found[pool.name] = self.buyer.size(pool)
        return found

    def check_there(self) -> None:
        """Raise InputError if the cluster was never created, or is deleted."""
        if not self.slurm.conf.exists():
            raise InputError("there is no cluster yet: make one with tenure cluster create FILE")

    @contextmanager
    def managed(self, *, stands_by: bool = False) -> Iterator[None]:
        """Be the one manager of the cluster. If there is another, wait until it is gone, or raise ManagerRuns.

        Raise InputError if there is no cluster.
        """
        self.check_there()
        with (self.slurm.folder / "manager.lock").open("a") as lock:
            os.fchmod(lock.fileno(), 0o600)  # who may open it may hold it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if stands_by else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ManagerRuns(f"another manager of {self.wanted.name!r} runs") from None
            yield

    def delete(self) -> None:
        """Cancel all jobs, give all nodes back, end Slurm and its network, and tell all of it. Files stay.

        Only the configuration goes, so that a cluster is there if and only if its configuration is. Slurm is started
        if it does not run, to forget its nodes and jobs; if it cannot be, the state of its nodes is removed.
        """
        self.buyer.refused()
        instances = self.buyer.instances()  # before all else: without the clouds nothing is ended
        self._clear()
        for name in sorted(instances.keys() | self.machines.there().keys()):
            self.machines.destroy(name)
            if name in instances:
                self.give_back(name, instances[name])
            self.events.write("node_released", node=name, why=DELETED)
        self.buyer.market.settle(self.events)
        ends = Ends(self.slurm)
        telling = Telling(ends.of, self.events)
        telling.close(ends.recorded(telling.jobs), _CANCELLED)
        self.slurm.stop()
        self.slurm.forget_nodes()
        self.machines.remove()
        self.events.write("cluster_deleted")
        self.slurm.conf.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Cancel all jobs and forget all nodes, if Slurm can be brought to it. One that hangs is ended and started."""
        try:
            self._cleared()
        except SlurmSilent:
            self.slurm.stop()
            with suppress(ProgramFailed):
                self._cleared()
        except ProgramFailed:
            return

    def _cleared(self) -> None:
        if not (self.slurm.runs() and self.slurm.has_munge()):
            self.mend()
        self.slurm.clear(DELETED)

    def give_back(self, name: str, instance: SeenInstance) -> None:
        """Stop a node's instance, or confirm its eviction."""
        if instance.notice_s is None:
            self.buyer.stop(name)
            return
        with suppress(ClientError):  # then its deadline does
            self.buyer.confirm(name)
