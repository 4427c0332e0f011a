"""Spot twins: for a flavor of Nova another of its size, whose servers may be evicted and which Placement ignores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.nova.rules.sizes import LISTED_AS, MARKET, demand_of, is_spot

TRAIT = "CUSTOM_TENURE"
RESOURCE = "CUSTOM_TENURE_SPOT"
LIFETIME = "tenure:lifetime"
_PREFIX = "spot."
_ZEROS = {f"resources:{resource}": "0" for resource in ("VCPU", "MEMORY_MB", "DISK_GB")}
_PINNING = ("hw:cpu_policy", "hw:mem_page_size", "hw:numa_nodes", "pci_passthrough:alias", "resources:")
_SIZES = ("vcpus", "ram", "disk", "OS-FLV-EXT-DATA:ephemeral", "swap")


@dataclass(frozen=True, slots=True)
class TwinStep:
    """A flavor to be made (`body`), or extra specs to be set on one that is there (`flavor`, its id)."""

    name: str
    specs: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)
    flavor: str | None = None


@dataclass(frozen=True, slots=True)
class Untwinned:
    """A flavor that gets no twin, and why."""

    name: str
    why: str


def twin_name(flavor: str) -> str:
    """Return the name of a flavor's twin."""
    return f"{_PREFIX}{flavor}"


def twin_specs(of: Mapping[str, Any], lifetime: str | None = None) -> dict[str, str]:
    """Return the extra specs of a flavor's twin: the flavor's own ones, and the marks."""
    marks = {MARKET: "spot", LISTED_AS: str(of["name"]), f"resources:{RESOURCE}": "1", f"trait:{TRAIT}": "required"}
    default = {} if lifetime is None else {LIFETIME: lifetime}
    return {**specs_of(of), **_ZEROS, **marks, **default}


def plan_twins(
    flavors: Iterable[Mapping[str, Any]], wanted: frozenset[str], lifetime: str | None
) -> tuple[list[TwinStep], list[Untwinned]]:
    """Return the steps after which the flavors named `wanted`, or all, have twins, and those that get none."""
    known = {str(one["name"]): one for one in flavors}
    steps, left = [], [Untwinned(name, "Nova has no such flavor") for name in sorted(wanted - known.keys())]
    twins = {twin_name(name) for name in known}
    for name, flavor in known.items():
        if name in twins or is_spot(specs_of(flavor)) or (wanted and name not in wanted):
            continue
        twin = known.get(twin_name(name))
        why = _why_none(flavor, twin)
        if why is not None:
            left.append(Untwinned(name, why))
            continue
        step = _step(flavor, twin, lifetime)
        if step.specs:
            steps.append(step)
    return steps, left


def faults_of_twins(flavors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the spot flavors that there are, a sentence for each."""
    known = {str(one["name"]): one for one in flavors}
    spots = [one for one in known.values() if is_spot(specs_of(one))]
    if not spots:
        return ["there is no spot flavor"]
    return [fault for spot in spots for fault in _faults(spot, known)]


def specs_of(flavor: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the extra specs of a flavor in Nova's own words."""
    return flavor.get("extra_specs") or {}


def _faults(spot: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    specs, name = specs_of(spot), spot["name"]
    listed = known.get(specs.get(LISTED_AS, ""))
    wanted = _ZEROS | {f"resources:{RESOURCE}": "1", f"trait:{TRAIT}": "required"}
    wrong = [f"{key}={value}" for key, value in wanted.items() if specs.get(key) != value]
    faults = [f"{name} lacks {', '.join(wrong)}"] if wrong else []
    if listed is None:
        faults.append(f"{name} says {LISTED_AS}={specs.get(LISTED_AS)}, and there is no such flavor")
    elif demand_of(listed) != demand_of(spot):
        faults.append(f"{name} has another size than {listed['name']}")
    return faults


def _why_none(flavor: Mapping[str, Any], twin: Mapping[str, Any] | None) -> str | None:
    pinned = [key for key in specs_of(flavor) if key.startswith(_PINNING)]
    if pinned:
        return f"{', '.join(pinned)}: a host must have the room of such a server before it is built"
    if demand_of(flavor) is None:
        return "Tenure has no flavor of this size"
    if twin is not None and not is_spot(specs_of(twin)) and specs_of(twin):
        return f"{twin['name']} is there and is no spot flavor"
    if twin is not None and demand_of(twin) != demand_of(flavor):
        return f"{twin['name']} is there and has another size: delete it"
    return None


def _step(flavor: Mapping[str, Any], twin: Mapping[str, Any] | None, lifetime: str | None) -> TwinStep:
    name, specs = twin_name(str(flavor["name"])), twin_specs(flavor, lifetime)
    if twin is None:
        sizes = {size: flavor.get(size) or 0 for size in _SIZES}
        body = {"name": name, **sizes, "os-flavor-access:is_public": flavor["os-flavor-access:is_public"]}
        return TwinStep(name, specs, body)
    lacks = {key: value for key, value in specs.items() if specs_of(twin).get(key) != value}
    return TwinStep(name, lacks, flavor=str(twin["id"]))
