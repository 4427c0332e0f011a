"""Machines that become nodes: the protocol of their drivers, and one that makes them of namespaces on this host."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path
from shutil import rmtree
from typing import Protocol
from zlib import crc32

from app.clusters.rules.wanted import ClusterWanted
from app.managing.programs import ProgramFailed, kill_all, run, start_daemon
from app.managing.slurm import Slurm

_ADDRESSES = 250
_LINKS = Path("/sys/class/net")
_NETWORKS = Path("/run/netns")
"""The folder where `ip netns` keeps the namespaces that have a name."""


class MachineDriver(Protocol):
    """Makes and destroys machines by name. Each call may be repeated; what is done already is left as it is."""

    def missing(self) -> Sequence[str]:
        """Return what is missing here, a sentence each."""

    def prepare(self) -> None:
        """Make what all machines of the cluster need."""

    def there(self) -> Mapping[str, bool]:
        """Return the machines that are there, and if each one runs."""

    def create(self, name: str, pool: str, cores: int, memory_mib: int) -> None:
        """Make a machine that joins Slurm as the node of its name, in a pool."""

    def call(self, name: str, command: Sequence[str]) -> Sequence[str]:
        """Return the call that runs a command on a machine. Raise ProgramFailed if the machine does not run."""

    def destroy(self, name: str) -> None:
        """End a machine at once, with all that runs on it."""

    def remove(self) -> None:
        """Remove what `prepare` made."""


class Namespaces:
    """Machines on this host: a network, a host name and a tree of processes each. For one host, and it needs root.

    What is there is read from the kernel alone, so nothing is remembered that could be wrong.
    """

    def __init__(self, wanted: ClusterWanted, slurm: Slurm) -> None:
        self._slurm, self._name, self._shared = slurm, wanted.name, wanted.shared
        self._order = {pool.name: at for at, pool in enumerate(wanted.pools, 1)}
        self._network, self._address = IPv4Network(wanted.machines.subnet), wanted.machines.address
        self._turn = secrets.randbelow(_ADDRESSES)
        self._bridge = f"tb{crc32(wanted.name.encode()):08x}"

    def missing(self) -> list[str]:
        """Return that root is missing, if it is."""
        return [] if os.geteuid() == 0 else ["machines of namespaces need root"]

    def prepare(self) -> None:
        """Make the bridge, if it is not there. Raise ProgramFailed if another cluster has this name here."""
        if self._bridge not in run(["ip", "-o", "link", "show", "type", "bridge"]):
            run(["ip", "link", "add", self._bridge, "type", "bridge"])
        if not self._owner():
            run(["ip", "link", "set", "dev", self._bridge, "alias", self._shared])
        self._check_owner()
        if f"{self._address}/" not in run(["ip", "-4", "-o", "addr", "show", "dev", self._bridge]):
            run(["ip", "addr", "add", f"{self._address}/{self._network.prefixlen}", "dev", self._bridge])
        run(["ip", "link", "set", self._bridge, "up"])

    def _owner(self) -> str:
        """Return the shared folder of the cluster whose bridge this is; empty: there is none, or it was just made."""
        with suppress(OSError):
            return (_LINKS / self._bridge / "ifalias").read_text().strip()
        return ""

    def _check_owner(self) -> None:
        """Machines have the name of their cluster in theirs, so two clusters of one name would end each other's."""
        if (owner := self._owner()) not in {"", self._shared}:
            raise ProgramFailed(
                f"there is another cluster {self._name!r} on this host, in {owner}: give this one another name, "
                f"or delete that one first"
            )

    def there(self) -> dict[str, bool]:
        """Return the machines of this cluster: the network namespaces of their names, and if a process is in each."""
        self._check_owner()
        return {name: bool(pids) for name, pids in self._processes().items()}

    def _processes(self) -> dict[str, list[int]]:
        """Return the processes in each machine. The kernel tells by the number of their network namespace."""
        found: dict[str, list[int]] = {}
        machines: dict[int, str] = {}
        for path in _NETWORKS.glob(f"{self._name}-*-*"):
            found[path.name] = []
            machines[path.stat().st_ino] = path.name
        for process in Path("/proc").glob("[0-9]*") if machines else ():
            with suppress(OSError):
                if (name := machines.get((process / "ns/net").stat().st_ino)) is not None:
                    found[name].append(int(process.name))
        return found

    def create(self, name: str, pool: str, cores: int, memory_mib: int) -> None:
        """Make a machine with a `slurmd`. One that is half there or has died is made anew."""
        there = self.there()
        if there.get(name):
            return
        if name in there:
            self.destroy(name)
        address, link = self._free_address(there), f"tv{crc32(name.encode()):08x}"
        run(["ip", "netns", "add", name])
        run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name])
        run(["ip", "link", "set", link, "master", self._bridge, "up"])
        run(["ip", "-n", name, "addr", "add", f"{address}/{self._network.prefixlen}", "dev", "eth0"])
        for device in ("eth0", "lo"):
            run(["ip", "-n", name, "link", "set", device, "up"])
        self._boot(name, f"CPUs={cores} RealMemory={memory_mib} Feature={pool} Weight={self._order[pool]}")

    def _boot(self, name: str, size: str) -> None:
        folder = self._slurm.folder
        (folder / "spool" / name).mkdir(parents=True, exist_ok=True)
        program = f"hostname {name}; exec /usr/sbin/slurmd -D -b -Z -N {name} --conf '{size}' -f {self._slurm.conf}"
        inside = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", program]
        start_daemon(["ip", "netns", "exec", name, *inside], folder / f"log/{name}.log", self._slurm.environment)

    def _free_address(self, there: Mapping[str, bool]) -> str:
        """Return an address that no machine has, and that none had for long.

        Slurm goes on for a while to tell a lost node to end its jobs, and would end those of the next at its address.
        """
        taken = "".join(run(["ip", "-n", name, "-4", "-o", "addr", "show"]) for name in there)
        for _ in range(_ADDRESSES):
            self._turn = self._turn % _ADDRESSES + 1
            address = self._network[self._turn + 1]
            if f" {address}/" not in taken:
                return str(address)
        raise ProgramFailed(f"no address of {self._network} is free")

    def call(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the call of `nsenter` that runs a command in the namespaces of a machine's first process."""
        for pid in self._processes().get(name, []):
            with suppress(OSError):
                numbers = Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].splitlines()[0].split()
                if numbers[1:] == ["1"]:
                    return ["nsenter", "-t", str(pid), "-p", "-m", "-n", "-u", "--", *command]
        raise ProgramFailed(f"the machine {name} does not run")

    def destroy(self, name: str) -> None:
        """Kill all processes of a machine, and remove its network and what `slurmd` kept."""
        if (pids := self._processes().get(name)) is not None:
            kill_all(pids)
            rmtree(self._slurm.folder / "spool" / name, ignore_errors=True)
            run(["ip", "netns", "del", name])
        with suppress(ProgramFailed):  # the kernel removes it with its other end, a moment later
            run(["ip", "link", "del", f"tv{crc32(name.encode()):08x}"])

    def remove(self) -> None:
        """Remove the bridge."""
        self._check_owner()
        if self._bridge in run(["ip", "-o", "link", "show", "type", "bridge"]):
            run(["ip", "link", "del", self._bridge])
