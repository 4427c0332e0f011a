"""The cluster file as values: the cluster that is wanted."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import IPv4Network
from typing import Any, TypeVar

from app.clusters.rules.bids import BID
from app.domain.inputs import InputError
from app.domain.values import LEAST_PROBABILITY
from app.venues.rules.poolwords import LINUX, POOL_WORD

MOST_BYTES = 1 << 16
MOST_POOLS = 16
MOST_NODES = 200
NAME = re.compile(r"[a-z][a-z0-9]{0,15}", re.ASCII)
_CLOUD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
_OUT = re.compile(r"per_job|(group|keep_free):[1-9][0-9]{0,4}", re.ASCII)
_BLOCK = re.compile(r"block:[1-9][0-9]{0,5}", re.ASCII)
_DAY_S = 86_400
LONGEST_S = 366 * _DAY_S
_SMALLEST_SUBNET = 24
_DEAREST = 1_000_000
_HOUR_S = 3600
MARKETS = ("spot", "on_demand", BID)
POLICIES = ("auto", "notice", "hazard", "young", "none")
DRIVERS = ("criu", "signal", "none")
OPENSTACK = "openstack"
MACHINE_DRIVERS = ("namespaces", OPENSTACK)
REACH = (
    "ssh -o BatchMode=yes -o ConnectTimeout=5 -o LogLevel=ERROR -o StrictHostKeyChecking=no "
    "-o UserKnownHostsFile=/dev/null root@{address}"
)
"""Addresses are used again and again by new servers, so the keys of hosts that were seen before prove nothing."""
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}", re.ASCII)
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "number"),
    "bool": ((bool,), "true or false"),
    "float | None": ((float, int), "number"),
    "int | None": ((int,), "number"),
    "int | str": ((int, str), "number or text"),
    "float": ((float, int), "number"),
    "float | str": ((float, int, str), "number or text"),
    "str | None": ((str,), "text"),
}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWanted:
    """Nodes of one kind, and the Slurm partition of the same name.

    lifetime_s: asked for with each spot start, unless its job may run longer. min_lease_s: if that is not promised, a
    start takes the longest lifetime that is, but at least this; None: it takes all or nothing. Prices are of a node
    and an hour; on_demand_price_per_hour: of the same machine on demand, None: not known.

    Of the market `bid` cloud is a venue, flavor a machine type, and zone and product name its pool there. bid: an
    amount an hour, on_demand, or quote: what the venue's quote says for lifetime_s at 1 - eviction_probability.
    notice_s: how long before a revocation it is announced. cores, memory_mib: of the machine, which no venue tells.
    """

    name: str
    cloud: str
    flavor: str
    market: str = "spot"
    max_nodes: int = 1
    lifetime_s: int = 3600
    min_lease_s: int | None = None
    eviction_probability: float | None = None
    price_per_hour: float = 0.0
    on_demand_price_per_hour: float | None = None
    zone: str | None = None
    product: str = LINUX
    bid: float | str = "on_demand"
    notice_s: int = 120
    cores: int = 1
    memory_mib: int = 1024

    @property
    def is_bid(self) -> bool:
        """True if its nodes are bought at a venue."""
        return self.market == BID

    def check(self) -> None:
        """Raise InputError if a value makes no sense."""
        _check(NAME.fullmatch(self.name), f"pools.name {self.name!r} is not a letter and up to 15 letters and digits")
        _check(self.name != "any", "pools.name any is the partition of all pools")
        for value in (self.cloud, self.flavor):
            _check(_CLOUD.fullmatch(value), f"pool {self.name!r}: {value!r} is no name of a cloud or flavor")
        _check(self.market in MARKETS, f"pool {self.name!r}: market is none of {', '.join(MARKETS)}")
        self._check_bid()
        _check(0 <= self.max_nodes <= MOST_NODES, f"pool {self.name!r}: max_nodes is not from 0 to {MOST_NODES}")
        _check(60 <= self.lifetime_s <= LONGEST_S, f"pool {self.name!r}: lifetime_s is not from 60 to {LONGEST_S}")
        _check(
            self.min_lease_s is None or (60 <= self.min_lease_s <= self.lifetime_s and self.market == "spot"),
            f"pool {self.name!r}: min_lease_s is for spot, and from 60 to lifetime_s",
        )
        chance = self.eviction_probability
        _check(
            chance is None or (LEAST_PROBABILITY <= chance < 1.0 and self.market != "on_demand"),
            f"pool {self.name!r}: eviction_probability is for spot and bid, between 0 and 1, and not below "
            f"{LEAST_PROBABILITY:g}",
        )
        for price in (self.price_per_hour, self.on_demand_price_per_hour or 0.0):
            _check(0.0 <= price <= _DEAREST, f"pool {self.name!r}: a price is not from 0 to {_DEAREST:,}")

    def _check_bid(self) -> None:
        """Raise InputError if what is said of a bid makes no sense, or stands in a pool of a cloud."""
        where = f"pool {self.name!r}"
        if not self.is_bid:
            others = [name for name in _OF_BID if getattr(self, name) != _BID_DEFAULTS[name]]
            _check(not others, f"{where}: {', '.join(others)} is for market = bid")
            return
        _check(self.zone is not None, f"{where}: market = bid needs a zone")
        for word in (self.zone, self.product):
            _check(re.fullmatch(POOL_WORD, word or ""), f"{where}: {word!r} is no zone or product of a venue")
        is_amount = not isinstance(self.bid, str) and 0.0 < self.bid <= _DEAREST
        is_bid = self.bid in ("on_demand", "quote") or is_amount
        _check(is_bid, f"{where}: bid is neither on_demand, quote nor an amount above 0")
        _check(not self.price_per_hour, f"{where}: price_per_hour is not for bid: the venue's prices count")
        _check(10 <= self.notice_s <= _HOUR_S, f"{where}: notice_s is not from 10 to {_HOUR_S}")
        _check(
            1 <= self.cores <= 4096 and 64 <= self.memory_mib <= 1 << 30, f"{where}: cores or memory_mib make no node"
        )


_OF_BID = ("zone", "product", "bid", "notice_s", "cores", "memory_mib")
_BID_DEFAULTS = {one.name: one.default for one in fields(PoolWanted)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWanted:
    """The rules by which nodes come and go.

    out: per_job, group:N (bought by multiples of N), or keep_free:N. idle_s: seconds, or block:S. retry_s: a pool that
    refused a node is not asked again for so long. patience_s: nothing is bought for a job while a node that it may use
    is free within it, by the time limits of those that run. drain: nothing is bought, and nodes go when they are free.
    """

    max_nodes: int = MOST_NODES
    out: str = "per_job"
    idle_s: int | str = 60
    boot_timeout_s: int = 300
    retry_s: int = 30
    patience_s: int = 0
    drain: bool = False

    def check(self) -> None:
        """Raise InputError if a value makes no sense."""
        _check(0 <= self.max_nodes <= MOST_NODES, f"scale.max_nodes is not from 0 to {MOST_NODES}")
        _check(_OUT.fullmatch(self.out), f"scale.out {self.out!r} is not per_job, group:N or keep_free:N, N from 1 on")
        _check(max(self.group, self.free) <= MOST_NODES, f"scale.out {self.out!r} has more than {MOST_NODES} nodes")
        is_block = isinstance(self.idle_s, str)
        if is_block:
            _check(_BLOCK.fullmatch(str(self.idle_s)), f"scale.idle_s {self.idle_s!r} is neither seconds nor block:S")
            _check(60 <= (self.block_s or 0) <= _DAY_S, f"scale.idle_s: a block is not from 60 to {_DAY_S} s")
        for name in ("boot_timeout_s", "retry_s", *(() if is_block else ("idle_s",))):
            _check(1 <= getattr(self, name) <= _DAY_S, f"scale.{name} is not from 1 to {_DAY_S}")
        _check(0 <= self.patience_s <= _DAY_S, f"scale.patience_s is not from 0 to {_DAY_S}")

    @property
    def group(self) -> int:
        """The nodes that are bought at once."""
        return self._out_number("group", 1)

    @property
    def free(self) -> int:
        """The nodes that are kept free."""
        return self._out_number("keep_free", 0)

    def _out_number(self, word: str, otherwise: int) -> int:
        given, _, number = self.out.partition(":")
        return int(number) if given == word else otherwise

    @property
    def block_s(self) -> int | None:
        """The time that is paid at once; None: nodes go by their idle time."""
        return int(self.idle_s.partition(":")[2]) if isinstance(self.idle_s, str) else None

    @property
    def idle_after_s(self) -> int:
        """The time after which an idle node goes, unless it is paid by blocks."""
        return 0 if isinstance(self.idle_s, str) else self.idle_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmWanted:
    """The place where the controller of Slurm listens."""

    port: int = 6817

    def check(self) -> None:
        """Raise InputError if the port is none."""
        _check(1024 <= self.port <= 65_535, "slurm.port is not from 1024 to 65535")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesWanted:
    """The driver that makes machines: `namespaces` of this host, or `openstack`, servers of Nova.

    subnet: of namespaces, a network of this host's own, whose first address is the controller. Of servers: controller,
    this host's address as nodes reach it; image and network by name or id; key, a key pair of Nova's; user_data, a file
    of this host in place of the usual first words to a server; reach, the words before a command for a node.
    """

    driver: str = "namespaces"
    subnet: str = "10.77.0.0/24"
    controller: str | None = None
    image: str | None = None
    network: str = "auto"
    key: str | None = None
    user_data: str | None = None
    reach: str = REACH

    @property
    def is_openstack(self) -> bool:
        """True if nodes are servers of Nova."""
        return self.driver == OPENSTACK

    @property
    def address(self) -> str:
        """The controller's address."""
        return str(self.controller) if self.is_openstack else str(IPv4Network(self.subnet)[1])

    def check(self) -> None:
        """Raise InputError if there is no such driver or network, or if it lacks something."""
        _check(
            self.driver in MACHINE_DRIVERS,
            f"machines.driver {self.driver!r} is none of {', '.join(MACHINE_DRIVERS)}",
        )
        others = _OF_NAMESPACES if self.is_openstack else _OF_SERVERS
        strange = [name for name in others if getattr(self, name) != _MACHINE_DEFAULTS[name]]
        _check(not strange, f"machines.{', '.join(strange)} is not for driver = {self.driver}")
        if self.is_openstack:
            self._check_servers()
            return
        try:
            network = IPv4Network(self.subnet)
        except ValueError as error:
            raise InputError(f"machines.subnet: {error}") from None
        is_fit = network.is_private and network.prefixlen <= _SMALLEST_SUBNET
        _check(is_fit, f"machines.subnet {self.subnet} is not a private network of at least 256 addresses")

    def _check_servers(self) -> None:
        _check(self.image, "machines.image is missing: the image of the servers")
        _check(
            _HOST.fullmatch(self.controller or ""),
            "machines.controller is missing, or no address: that of this host as nodes reach it",
        )
        _check(self.network, "machines.network is empty")
        is_telling = "{address}" in self.reach or "{node}" in self.reach
        _check(is_telling and _is_words(self.reach), "machines.reach are no words with {address} or {node} in them")


_OF_NAMESPACES = ("subnet",)
_OF_SERVERS = ("controller", "image", "network", "key", "user_data", "reach")
_MACHINE_DEFAULTS = {one.name: one.default for one in fields(MachinesWanted)}


def _is_words(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWanted:
    """The policy and the driver of checkpoints of jobs under `tenure-job`; keep: so many of each job are kept.

    margin_s: one that a notice asks for is to be written so long before the deadline.
    """

    policy: str = "auto"
    driver: str = "criu"
    margin_s: int = 5
    keep: int = 2

    def check(self) -> None:
        """Raise InputError if there is no such policy or driver."""
        _check(self.policy in POLICIES, f"checkpoint.policy {self.policy!r} is none of {', '.join(POLICIES)}")
        _check(self.driver in DRIVERS, f"checkpoint.driver {self.driver!r} is none of {', '.join(DRIVERS)}")
        _check(4 <= self.margin_s <= 3600, "checkpoint.margin_s is not from 4 to 3600")
        _check(1 <= self.keep <= 20, "checkpoint.keep is not from 1 to 20")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWanted:
    """The whole file. shared: an absolute folder that all nodes see."""

    name: str
    shared: str
    pools: tuple[PoolWanted, ...]
    scale: ScaleWanted = field(default_factory=ScaleWanted)
    slurm: SlurmWanted = field(default_factory=SlurmWanted)
    machines: MachinesWanted = field(default_factory=MachinesWanted)
    checkpoint: CheckpointWanted = field(default_factory=CheckpointWanted)

    def check(self) -> None:
        """Raise InputError if a value makes no sense."""
        _check(NAME.fullmatch(self.name), f"name {self.name!r} is not a letter and up to 15 letters and digits")
        is_plain = self.shared.startswith("/") and re.fullmatch(r"[A-Za-z0-9._/-]{2,60}", self.shared)
        _check(
            is_plain, f"shared {self.shared!r} is not an absolute path of up to 60 letters, digits, '.', '_' and '-'"
        )
        _check(1 <= len(self.pools) <= MOST_POOLS, f"there are not from 1 to {MOST_POOLS} pools")
        names = [pool.name for pool in self.pools]
        _check(len(set(names)) == len(names), "two pools have the same name")
        bids = [pool.name for pool in self.pools if pool.is_bid] if self.machines.is_openstack else []
        _check(not bids, f"pool {', '.join(bids)}: market = bid has no servers of OpenStack")

    def pool(self, name: str) -> PoolWanted | None:
        """Return the pool of a name; None if the file has none."""
        return next((pool for pool in self.pools if pool.name == name), None)


_TABLES = (
    ("scale", ScaleWanted),
    ("slurm", SlurmWanted),
    ("machines", MachinesWanted),
    ("checkpoint", CheckpointWanted),
)


def cluster_of_toml(text: str) -> ClusterWanted:
    """Return the cluster that a file describes. Raise InputError for what cannot be meant."""
    if len(text.encode()) > MOST_BYTES:
        raise InputError(f"a cluster file has at most {MOST_BYTES} bytes")
    try:
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"no TOML: {error}") from None
    pools = whole.pop("pools", [])
    if not isinstance(pools, list) or len(pools) > MOST_POOLS:
        raise InputError(f"pools is not a list of 1 to {MOST_POOLS} [[pools]]")
    parts: dict[str, Any] = {"pools": tuple(_made(PoolWanted, pool, "pools.") for pool in pools)}
    for name, form in _TABLES:
        if name in whole:
            parts[name] = _made(form, whole.pop(name), f"{name}.")
    return _made(ClusterWanted, whole | parts, "")


def _made(form: type[T], given: object, where: str) -> T:
    """Return the checked values of a table."""
    if not isinstance(given, Mapping):
        raise InputError(f"{where.rstrip('.')} is no table")
    known = {one.name: one for one in fields(form)}  # type: ignore[arg-type]
    if unknown := given.keys() - known.keys():
        raise InputError(f"unknown: {', '.join(sorted(where + name for name in unknown))}")
    needed = {name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING}
    if missing := needed - given.keys():
        raise InputError(f"missing: {', '.join(sorted(where + name for name in missing))}")
    for name, value in given.items():
        _check_kind(where + name, value, str(known[name].type))
    made: Any = form(**given)
    made.check()
    return made  # type: ignore[no-any-return]


def _check_kind(name: str, value: object, kind: str) -> None:
    if kind not in _KINDS:
        return
    expected, told = _KINDS[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"{name} {value!r} is no {told}")


def _check(is_so: object, why: str) -> None:
    if not is_so:
        raise InputError(why)
