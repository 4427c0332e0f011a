"""Nodes that are servers of OpenStack's Nova, in a cloud that sells its spot capacity with Tenure.

There a server and its instance are one: Nova's scheduler asks Tenure before it builds the server, and the daemon beside
Nova tells Tenure what becomes of it (docs/openstack.md). So Nova is the only place that is asked and told. A server has
its node's name, and says in its metadata whose it is; whoever is killed between an order and the record of it leaves a
server that the next look finds.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from math import inf
from pathlib import Path
from shutil import rmtree

from app.clusters.rules.deciding import SeenInstance, pool_of
from app.clusters.rules.wanted import ClusterWanted, PoolWanted
from app.domain.inputs import InputError
from app.managing.buying import Buyer, Purchase, RefusedNode
from app.managing.files import put
from app.managing.programs import ProgramFailed
from app.managing.slurm import Slurm
from app.nova.owned import OwnServers
from app.nova.rules.marks import DEADLINE, EVICT_AT
from app.nova.rules.owned import OwnServer, OwnStage, ServerOrder, stage_of, why_refused
from app.nova.session import OpenStackFailed, OpenStackRefused
from tenure_client import TenureClient

CLUSTER = "tenure:cluster"
CONTROLLER = "tenure:controller"
LIFETIME_HINT = "tenure:lifetime"
PROBABILITY_HINT = "tenure:probability"
_KEPT_S = 2.0
_USER_DATA = "#!/bin/sh\n{join}\n"
_MOST_USER_DATA = 48_000
_JOIN = """\
#!/bin/sh
# Makes this machine a node of the cluster {name}: NODE and its CONF (docs/clusters.md).
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p {local}/munge
chmod 755 {local} {local}/munge
munged --force --socket={local}/munge/socket --key-file={folder}/munge/key --pid-file={local}/munge/pid \\
    --log-file={local}/munge/log --seed-file={local}/munge/seed
exec slurmd -b -Z -N "$1" --conf "$2" -f {conf}
"""


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except OpenStackFailed as error:
        raise ProgramFailed(f"OpenStack: {error}") from None


class Fleet:
    """The servers of a cluster. What Nova said is kept for two seconds, unless something was changed here."""

    def __init__(self, wanted: ClusterWanted, connect: Callable[[], OwnServers] = OwnServers) -> None:
        self._wanted, self._connect = wanted, connect
        self._controller = f"{wanted.machines.controller}:{wanted.slurm.port}"
        self._seen: dict[str, OwnServer] = {}
        self._seen_s = -inf

    @cached_property
    def _nova(self) -> OwnServers:
        return self._connect()

    def look(self) -> Mapping[str, OwnServer]:
        """Return the servers by node. Raise ProgramFailed if Nova does not answer, or another cluster has our name."""
        if time.monotonic() - self._seen_s > _KEPT_S:
            with _asking():
                found = self._nova.servers(f"{self._wanted.name}-")
                self._seen = self._one_each([one for one in found if one.metadata.get(CLUSTER) == self._wanted.name])
            self._seen_s = time.monotonic()
        return self._seen

    def _one_each(self, found: Sequence[OwnServer]) -> dict[str, OwnServer]:
        """Return a server for each name: of two the elder one that is not about to go. The other is deleted."""
        there: dict[str, OwnServer] = {}
        for one in found:
            if (other := one.metadata.get(CONTROLLER)) != self._controller:
                raise ProgramFailed(
                    f"there is another cluster {self._wanted.name!r} in this project, of {other}: give this one "
                    f"another name, or delete that one first"
                )
            if stage_of(one, _now()) is OwnStage.LEAVING:
                continue
            if one.name in there:
                self._nova.delete(one.id)
            else:
                there[one.name] = one
        return there

    def of_stage(self, stage: OwnStage) -> dict[str, OwnServer]:
        """Return the servers of a stage by node."""
        now = _now()
        return {name: one for name, one in self.look().items() if stage_of(one, now) is stage}

    def order(self, node: str, pool: PoolWanted, size: tuple[int, int], hints: Mapping[str, str]) -> str:
        """Ask for a server; return its id. Raise OpenStackRefused, or OpenStackFailed without an answer."""
        machines, nova = self._wanted.machines, self._nova
        self._seen_s = -inf  # first: whether it was ordered may stay unknown
        return nova.order(
            ServerOrder(
                name=node,
                image=nova.image_id(str(machines.image)),
                flavor=nova.flavor_id(pool.flavor, spot=pool.market == "spot"),
                network=nova.network_id(machines.network),
                user_data=self._user_data(node, pool, size),
                key=machines.key,
                metadata={CLUSTER: self._wanted.name, CONTROLLER: self._controller},
                hints=hints,
            )
        )

    def _user_data(self, node: str, pool: PoolWanted, size: tuple[int, int]) -> str:
        """Return the first words to a server: how it becomes a node. There is no secret in them."""
        path = self._wanted.machines.user_data
        try:
            text = _USER_DATA if path is None else Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProgramFailed(f"machines.user_data: {error}") from None
        order = [one.name for one in self._wanted.pools].index(pool.name) + 1
        conf = f"CPUs={size[0]} RealMemory={size[1]} Feature={pool.name} Weight={order}"
        join = shlex.join([str(join_of(self._wanted)), node, conf])
        return text.replace("{join}", join).replace("{node}", node)

    def delete(self, node: str) -> None:
        """Delete a node's server, if there is one. Done twice it is done once."""
        server = self.look().get(node)
        if server is not None:
            self._seen_s = -inf
            with _asking():
                self._nova.delete(server.id)

    def lacks(self) -> str:
        """Return what the file names and the project does not have; empty: nothing."""
        try:
            self.look()
            with _asking():
                self._nova.image_id(str(self._wanted.machines.image))
                self._nova.network_id(self._wanted.machines.network)
                for pool in self._wanted.pools:
                    self._nova.flavor_id(pool.flavor, spot=pool.market == "spot")
            length = max(len(self._user_data("x" * 50, pool, (1, 1))) for pool in self._wanted.pools)
        except (ProgramFailed, InputError) as error:
            return str(error)
        return "" if length <= _MOST_USER_DATA else f"machines.user_data has more than {_MOST_USER_DATA} bytes"


class NovaBuyer(Buyer):
    """Buys nodes by ordering servers. Tenure is asked for advice, quotes and extensions as ever."""

    def __init__(self, wanted: ClusterWanted, client: TenureClient, fleet: Fleet) -> None:
        super().__init__(wanted, client)
        self._fleet = fleet

    def instances(self) -> dict[str, SeenInstance]:
        """Return the servers that run or are being built, with what their metadata tell of their end."""
        return {name: _seen(one) for name, one in self._fleet.of_stage(OwnStage.ALIVE).items()}

    def instance_id(self, node: str) -> str:
        """Return the id of a node's server: that of its instance, too."""
        server = self._fleet.look().get(node)
        if server is None:
            raise ProgramFailed(f"{node} has no server")
        return server.id

    def refused(self) -> list[RefusedNode]:
        """Return the nodes whose servers were not built, which are deleted."""
        found = []
        for name, one in self._fleet.of_stage(OwnStage.REFUSED).items():
            self._fleet.delete(name)
            found.append(RefusedNode(name, pool_of(name), why_refused(one.fault)))
        return found

    def start(self, node: str, pool: PoolWanted, lifetime_s: float | None = None) -> Purchase:
        """Order a server. A refusal that does not come at once is among the refused, some seconds later."""
        hints = {}
        if pool.market == "spot":
            hints[LIFETIME_HINT] = str(self._lifetime_s(pool, lifetime_s))
            if pool.eviction_probability is not None:
                hints[PROBABILITY_HINT] = f"{pool.eviction_probability:g}"
        size = self.size(pool)
        try:
            with _asking():
                try:
                    server = self._fleet.order(node, pool, size, hints)
                except OpenStackRefused as error:
                    return Purchase(is_bought=False, why=str(error))
        except InputError as error:
            raise ProgramFailed(str(error)) from None
        return Purchase(is_bought=True, facts={"instance": server})

    def _lifetime_s(self, pool: PoolWanted, lifetime_s: float | None) -> int:
        """Return the lifetime to ask for. Nova's hint is all or nothing, so of a lease the quote says how long."""
        wanted_s = self.wanted_s(pool, lifetime_s)
        if pool.min_lease_s is None or self._client.cloud(pool.cloud).policy.guarantee == "none":
            return wanted_s
        (quote,) = self._client.quotes(
            pool.cloud, flavor=pool.flavor, eviction_probability=pool.eviction_probability
        ).quotes
        return max(min(wanted_s, int(quote.lifetime_s or 0) - 1), pool.min_lease_s)

    def stop(self, node: str) -> None:
        """Delete a node's server. The daemon beside Nova tells Tenure, of an eviction's end as well."""
        self._fleet.delete(node)

    confirm = stop


class NovaMachines:
    """The servers as machines. One that does not run any more is deleted, for its jobs are gone."""

    def __init__(self, wanted: ClusterWanted, slurm: Slurm, fleet: Fleet) -> None:
        self._wanted, self._slurm, self._fleet = wanted, slurm, fleet

    def missing(self) -> list[str]:
        """Return what is not there that the cluster's file names."""
        lacks = self._fleet.lacks()
        return [lacks] if lacks else []

    def prepare(self) -> None:
        """Write the program that makes a server a node into the shared folder. Raise ProgramFailed if Nova is away."""
        self._fleet.look()
        path = join_of(self._wanted)
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = {"local": self._slurm.local, "folder": self._slurm.folder, "conf": self._slurm.conf}
        put(path, _JOIN.format(name=self._wanted.name, **parts), mode=0o755)

    def there(self) -> dict[str, bool]:
        """Return the servers that were not refused, and if each is on its way or runs."""
        dead = dict.fromkeys(self._fleet.of_stage(OwnStage.DEAD), False)
        return dead | dict.fromkeys(self._fleet.of_stage(OwnStage.ALIVE), True)

    def create(self, name: str, pool: str, cores: int, memory_mib: int) -> None:  # noqa: ARG002 - of the protocol
        """Do nothing: the server is what was bought. Raise ProgramFailed if it is gone."""
        if name not in self._fleet.look():
            raise ProgramFailed(f"{name} has no server any more")

    def call(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the call that runs a command on a server, at the address under which it joined Slurm."""
        address = self._slurm.address_of(name)
        reach = shlex.split(self._wanted.machines.reach.replace("{address}", address).replace("{node}", name))
        return [*reach, shlex.join(command)]

    def destroy(self, name: str) -> None:
        """Delete a server."""
        self._fleet.delete(name)

    def remove(self) -> None:
        """Remove what the controller's own munge has left on this host."""
        rmtree(self._slurm.local, ignore_errors=True)


def join_of(wanted: ClusterWanted) -> Path:
    """Return the path of the program that makes a machine a node."""
    return Path(wanted.shared) / "bin" / "tenure-node"


def _now() -> datetime:
    return datetime.now(UTC)


def _seen(server: OwnServer) -> SeenInstance:
    now = _now()
    return SeenInstance(
        (now - server.created_at).total_seconds(), _until(server, DEADLINE, now), _until(server, EVICT_AT, now)
    )


def _until(server: OwnServer, name: str, now: datetime) -> float | None:
    """Return the seconds until a moment that the daemon wrote into the metadata; None if there is none to be read."""
    try:
        return (datetime.fromisoformat(server.metadata[name]) - now).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
