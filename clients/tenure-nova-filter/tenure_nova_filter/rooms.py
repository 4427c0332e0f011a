"""Room on hosts, as Nova's scheduler sees it with spot servers counted. Pure: no Nova, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tenure_nova_filter.wanted import Demand

_MIB_PER_GIB = 1024


class Host(Protocol):
    """The part of Nova's HostState that is read here."""

    nodename: str
    vcpus_total: int
    vcpus_used: int
    free_ram_mb: int
    free_disk_mb: int
    cpu_allocation_ratio: float | None


H = TypeVar("H", bound=Host)


def with_room(hosts: Sequence[H], demand: Demand) -> list[H]:
    """Return the hosts that have room beside all that runs there, spot servers as well."""
    return [host for host in hosts if _has_room(host, demand)]


def with_free(hosts: Sequence[H], nodes: Sequence[Mapping[str, Any]], demand: Demand) -> list[H]:
    """Return the hosts whose open nodes in Tenure have room. A resource that a node does not count has room."""
    fitting = {node["name"] for node in nodes if node["status"] == "open" and _is_free(node, demand)}
    return [host for host in hosts if host.nodename in fitting]


def _has_room(host: Host, demand: Demand) -> bool:
    cores = (host.vcpus_total or 0) * (host.cpu_allocation_ratio or 1.0) - (host.vcpus_used or 0)
    return (
        cores >= demand.cores
        and host.free_ram_mb >= demand.memory_mib
        and host.free_disk_mb >= demand.disk_gib * _MIB_PER_GIB
    )


def _is_free(node: Mapping[str, Any], demand: Demand) -> bool:
    asked = {"cores": demand.cores, "memory_mib": demand.memory_mib, "disk_gib": demand.disk_gib}
    return all(not node["capacity"][name] or node["free"][name] >= size for name, size in asked.items())
