"""The wishes of a server, read from its flavor and its scheduler hints. Pure: no Nova, no network."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

MARKET = "tenure:market"
LISTED_AS = "tenure:flavor"
LIFETIME = "tenure:lifetime"
PROBABILITY = "tenure:probability"
_OURS = "tenure:"
_SPOT = "spot"
_LONGEST_S = 3660 * 86_400
"""The longest lifetime that Tenure takes."""
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhd]?)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 240
_MOST_SIZES = 1000
_MIB_PER_GIB = 1024
_PINNING = {"hw_cpu_policy": ("shared",), "hw_numa_nodes": (), "hw_mem_page_size": ("small",)}
"""Properties of an image that take room of a host, each with the values that do not."""


class SizedFlavor(Protocol):
    """The part of Nova's flavor that is read here. Memory and swap are in MiB, disks in GiB."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    swap: int
    extra_specs: Mapping[str, str] | None


class WishRefused(Exception):
    """A wish that cannot be read; the message is for the user."""


@dataclass(frozen=True)
class Demand:
    """The room that a server takes."""

    cores: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True)
class ServerWish:
    """A server as Tenure is asked for it. `plain_flavor` may have a number behind it in Tenure."""

    is_spot: bool
    plain_flavor: str
    demand: Demand
    lifetime_s: float | None
    probability: float | None


def wish_of(flavor: SizedFlavor, hints: Mapping[str, Any]) -> ServerWish:
    """Return the wish of a server. A hint goes before an extra spec of the same name. Raises WishRefused."""
    specs = flavor.extra_specs or {}
    is_spot = specs.get(MARKET) == _SPOT
    if is_spot:
        _check_names(hints)
    return ServerWish(
        is_spot,
        plain_name((is_spot and specs.get(LISTED_AS)) or flavor.name),
        demand_of(flavor),
        _lifetime(hints.get(LIFETIME, specs.get(LIFETIME))) if is_spot else None,
        _probability(hints.get(PROBABILITY, specs.get(PROBABILITY))) if is_spot else None,
    )


def pinned_by(image: Any) -> str | None:  # noqa: ANN401 - Nova's own type
    """Return the property by which an image (Nova's ImageMeta, or None) asks for cores or pages of its own; else None.

    Nova would claim them in Placement or on the host, where spot servers are not counted.
    """
    properties = getattr(image, "properties", None)
    for name, plain in _PINNING.items():
        asked = None if properties is None else properties.get(name)
        if asked is not None and asked not in plain:
            return f"{name}={str(asked)[:40]}"
    return None


def _check_names(hints: Mapping[str, Any]) -> None:
    """Raise WishRefused for a hint to Tenure that there is not: a mistyped one would silently be the default."""
    strange = [name for name in hints if name.lower().startswith(_OURS) and name not in (LIFETIME, PROBABILITY)]
    if strange:
        raise WishRefused(f"there is no hint {strange[0][:40]!r}, only {LIFETIME} and {PROBABILITY}")


def demand_of(flavor: SizedFlavor) -> Demand:
    """Return what a flavor asks of Placement; disks are rounded up to GiB."""
    disk_gib = flavor.root_gb + flavor.ephemeral_gb + math.ceil((flavor.swap or 0) / _MIB_PER_GIB)
    return Demand(flavor.vcpus, flavor.memory_mb, disk_gib)


def plain_name(flavor: str) -> str:
    """Return the name of a flavor in Tenure, if its size was always the same. The daemon has the same rule."""
    name = _NOT_IN_NAMES.sub("_", flavor)[:_LONGEST_NAME]
    return name if name[:1].isalnum() else f"f{name}"


def flavor_of_size(known: Mapping[str, Demand], wish: ServerWish) -> str | None:
    """Return Tenure's flavor of this name and size: `NAME`, or `NAME--2` and so on; None if it is not known yet."""
    numbered = (f"{wish.plain_flavor}--{number}" for number in range(2, _MOST_SIZES))
    for name in (wish.plain_flavor, *numbered):
        if name not in known:
            return None
        if known[name] == wish.demand:
            return name
    return None


def life_id(server: str, number: int) -> str:
    """Return the id in Tenure of a server's life; the first life has the server's own."""
    return server if number == 1 else f"{server}.{number}"


def length_text(seconds: float) -> str:
    """Return a length of time in the largest unit of which there are at least two."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _lifetime(value: object) -> float:
    if value is None:
        raise WishRefused(f"a spot server says for how long it will run: --hint {LIFETIME}=SECONDS (or 2h, 3d)")
    told = _alone(LIFETIME, value)
    read = _LENGTH.fullmatch(told.strip())
    seconds = float(read[1]) * _UNITS_S[read[2]] if read else 0.0
    if not 0 < seconds <= _LONGEST_S:
        form = "more than 0 and at most 3660d, in seconds or as 90m, 2h, 3d"
        raise WishRefused(f"{LIFETIME} must be {form}; it is {told[:40]!r}")
    return seconds


def _probability(value: object) -> float | None:
    if value is None:
        return None
    told = _alone(PROBABILITY, value)
    try:
        read = float(told)
    except ValueError:
        read = math.nan
    if not 0 < read < 1:
        raise WishRefused(f"{PROBABILITY} must be a number between 0 and 1; it is {told[:40]!r}")
    return read


def _alone(name: str, value: object) -> str:
    """Return the one value of a hint, which Nova keeps as a list. Raise WishRefused if it is given more than once."""
    if isinstance(value, list) and len(value) != 1:
        raise WishRefused(f"{name} is given {len(value)} times")
    return str(value[0] if isinstance(value, list) else value)
