"""Sizes: what a flavor of Nova asks for, what a provider of Placement has, and the names of flavors in Tenure.

A flavor of Tenure never changes. One of Nova can be deleted and made anew with another size under the same name, so a
size has a name of its own: the flavor's name, then the name with `--2`, `--3` and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from app.domain.values import MOST_CORES, Resources

MARKET = "tenure:market"
LISTED_AS = "tenure:flavor"
_SPOT = "spot"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 240
_LARGEST = 1 << 30
_MIB_PER_GIB = 1024


def is_spot(extra_specs: Mapping[str, str]) -> bool:
    """Return True for a flavor whose servers may be evicted."""
    return extra_specs.get(MARKET) == _SPOT


def demand_of(flavor: Mapping[str, Any]) -> Resources | None:
    """Return what a flavor in Nova's own words asks for; None if Tenure has no flavor of such a size."""
    disk_gib = flavor["disk"] + flavor.get("OS-FLV-EXT-DATA:ephemeral", flavor.get("ephemeral", 0))
    disk_gib += math.ceil((flavor.get("swap") or 0) / _MIB_PER_GIB)
    asked = Resources(flavor["vcpus"], flavor["ram"], disk_gib)
    is_allowed = 1 <= asked.cores <= MOST_CORES and asked.memory_mib < _LARGEST and disk_gib < _LARGEST
    return asked if is_allowed else None


def plain_name(flavor: str, extra_specs: Mapping[str, str]) -> str:
    """Return the name under which a flavor of Nova is known in Tenure, if its size was always the same.

    A spot flavor has the name of the one that it is the twin of. Signs that Tenure's names cannot have become `_`.
    """
    name = _NOT_IN_NAMES.sub("_", (is_spot(extra_specs) and extra_specs.get(LISTED_AS)) or flavor)[:_LONGEST]
    return name if name[:1].isalnum() else f"f{name}"


def name_of_size(known: Mapping[str, Resources], plain: str, demand: Resources) -> str:
    """Return the name of the flavor of this plain name and demand: one that is known, or the next that is free."""
    number, name = 1, plain
    while name in known and known[name] != demand:
        number += 1
        name = f"{plain}--{number}"
    return name


def is_size_of(flavor: str, plain: str) -> bool:
    """Return True if a flavor of Tenure is one of those of this plain name."""
    return flavor == plain or (flavor.startswith(f"{plain}--") and flavor.removeprefix(f"{plain}--").isdigit())


def capacity_of(inventories: Mapping[str, Mapping[str, Any]]) -> Resources:
    """Return what may be used of a provider, by its inventories in Placement; 0 for what it does not count."""
    cores = _usable(inventories, "VCPU") + _usable(inventories, "PCPU")
    return Resources(cores, _usable(inventories, "MEMORY_MB"), _usable(inventories, "DISK_GB"))


def _usable(inventories: Mapping[str, Mapping[str, Any]], resource: str) -> int:
    """Return a resource's total without what is reserved, times its allocation ratio, as Placement reckons it."""
    one = inventories.get(resource)
    if one is None:
        return 0
    return max(int((one["total"] - one.get("reserved", 0)) * one.get("allocation_ratio", 1.0)), 0)
