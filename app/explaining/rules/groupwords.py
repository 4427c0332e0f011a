"""Words for the machines of an instance: one, or the members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from app.domain.events import InstanceRejected, StartDecision
from app.domain.values import Basis, Market, Resources

_NAMED = 5
"""Nodes, or instances, named in a sentence; the fields hold more."""


def places_text(places: Sequence[str]) -> str:
    """Name the node of an instance, or those of a group's members with the number of members on each."""
    if len(places) == 1:
        return places[0]
    return f"{on_each_text(places)}, as a group of {len(places)}"


def on_each_text(places: Sequence[str]) -> str:
    """Name the nodes of a group with the number of members on each."""
    on_each = Counter(places)
    named = ", ".join(f"{node} ({count})" for node, count in on_each.most_common(_NAMED))
    return f"{named} and {len(on_each) - _NAMED} more nodes" if len(on_each) > _NAMED else named


def asked_text(decision: StartDecision, size: str) -> str:
    """Say what a start asked for; `size` is that of a machine in words."""
    of_flavor = f"of flavor {decision.flavor} ({size}{' each' if decision.count > 1 else ''})"
    if decision.count > 1:
        return f"a group of {decision.count} spot instances {of_flavor}"
    return f"{'an on-demand' if decision.market is Market.ON_DEMAND else 'a spot'} instance {of_flavor}"


def no_capacity_text(decision: InstanceRejected, *, displaces: bool) -> str:
    """Say why there was no room for a start."""
    of_allowed = f" of those that its caller named ({names_text(decision.allowed)})" if decision.allowed else ""
    if decision.market is Market.ON_DEMAND:
        return (
            f"Rejected: no open node{of_allowed} would have had room for it, even with all of its spot instances "
            "evicted."
        )
    if decision.count > 1:
        return (
            f"Rejected: the open nodes{of_allowed} did not have room for all {decision.count}, and a spot start evicts "
            "nobody."
        )
    but = " but those who overrun" if displaces else ""
    return f"Rejected: no open node{of_allowed} had room for it, and a spot start evicts nobody{but}."


def names_text(names: Sequence[str]) -> str:
    """Name the first of many."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def slots_text(basis: Basis, count: int) -> str:
    """Say how many slots a start was quoted at."""
    slots = f"{basis.slots} slot{'' if basis.slots == 1 else 's'}"
    return f"{slots} of the flavor available" + ("" if count == 1 else f" for the last of its {count} members")


def resources_text(resources: Resources) -> str:
    """Put a resource vector into words; resources that are 0 are left out."""
    found = [_counted(resources.cores, "core")]
    found += [f"{resources.memory_mib} MiB of memory"] if resources.memory_mib else []
    found += [f"{resources.disk_gib} GiB of disk"] if resources.disk_gib else []
    return ", ".join(found)


def spot_instances_text(count: int) -> str:
    """Tell how many spot instances."""
    return _counted(count, "spot instance")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
