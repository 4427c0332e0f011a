"""Findings of `tenure nova check`: what a cloud must have to sell spot, and what to do where it lacks that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from app.nova.rules.twins import RESOURCE, TRAIT

FILTER = "tenure_nova_filter.TenureFilter"
_NAME = "TenureFilter"
_NOVAS_RATIO = 4.0
_WITH_VERSIONED = ("versioned", "both")
_DRIVERS = ("messagingv2", "messaging")
Configured = Mapping[str, Mapping[str, Sequence[str]]]
"""The groups of Nova's configuration: options by name, each with all values given, in order."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The outcome of a check. `ok` is None where something else must be put right first; `todo` says what to do."""

    check: str
    ok: bool | None
    told: str
    todo: str = ""

    def as_json(self) -> dict[str, str | bool | None]:
        return asdict(self)


def judge_filters(configured: Configured) -> list[CheckFinding]:
    """Return whether the filter is there, and whether it is the last one."""
    available = values(configured, "filter_scheduler", "available_filters")
    enabled = _listed(configured, "filter_scheduler", "enabled_filters")
    order = "put TenureFilter at the end of enabled_filters"
    if FILTER not in available or _NAME not in enabled:
        lacks = "available_filters" if FILTER not in available else "enabled_filters"
        todo = f"add available_filters = {FILTER}, {order} in [filter_scheduler], and restart nova-scheduler"
        return [
            CheckFinding("filter", ok=False, told=f"{lacks} does not name Tenure's filter", todo=todo),
            CheckFinding("filter_last", ok=None, told="there is no filter yet"),
        ]
    is_last = enabled[-1] == _NAME
    told = "it is the last one" if is_last else f"{enabled[-1]} comes after it, and may take away its host"
    return [
        CheckFinding("filter", ok=True, told="the scheduler has Tenure's filter"),
        CheckFinding("filter_last", ok=is_last, told=told, todo="" if is_last else order),
    ]


def judge_topic(configured: Configured, *, has_pool: bool) -> CheckFinding:
    """Return whether Nova sends notifications that the daemon can read: on a topic of its own, or into its pool."""
    driver = values(configured, "oslo_messaging_notifications", "driver")
    form = _last(configured, "notifications", "notification_format") or "unversioned"
    topics = _listed(configured, "notifications", "versioned_notifications_topics")
    todo = (
        "set [oslo_messaging_notifications] driver = messagingv2, [notifications] notification_format = versioned and"
    )
    todo += " versioned_notifications_topics = versioned_notifications,tenure, and restart Nova's services"
    if not any(name in _DRIVERS for name in driver) or form not in _WITH_VERSIONED:
        return CheckFinding("topic", ok=False, told="Nova sends no versioned notifications", todo=todo)
    if has_pool or "tenure" in topics:
        return CheckFinding("topic", ok=True, told="Nova's notifications reach the daemon")
    told = "the daemon has no topic of its own, so what others read it would miss"
    return CheckFinding("topic", ok=False, told=told, todo=todo)


def judge_ratio(configured: Configured, ratios: Mapping[str, Mapping[str, float]]) -> CheckFinding:
    """Return as how many virtual cores a core is sold, by Placement, and whether somebody has chosen that.

    `ratios` are the allocation ratios of the hosts that take spot servers, by resource. The configuration of a compute
    must set one, or the next compute has Nova's own; that of a controller need not.
    """
    sold = Counter(held["VCPU"] for held in ratios.values() if "VCPU" in held)
    told = ", ".join(f"{ratio:g} on {hosts} hosts" for ratio, hosts in sorted(sold.items()))
    told = f"Placement sells a core as {told}" if sold else "no host with the trait has cores in Placement"
    names = ("cpu_allocation_ratio", "initial_cpu_allocation_ratio")
    is_said = any(_last(configured, "DEFAULT", name) is not None for name in names)
    if not is_said and is_of_compute(configured):
        told += "; this compute's nova.conf sets no cpu_allocation_ratio, and Nova's own is 4"
        return CheckFinding("allocation_ratio", ok=False, told=told, todo="set cpu_allocation_ratio on the computes")
    if not is_said and _NOVAS_RATIO in sold:
        told += "; 4 is Nova's own, and whether it was chosen stands on the computes"
        todo = "if nobody has chosen it, set cpu_allocation_ratio on the computes"
        return CheckFinding("allocation_ratio", ok=None, told=told, todo=todo)
    return CheckFinding("allocation_ratio", ok=True if sold else None, told=told)


def judge_providers(folder: str, texts: Mapping[str, str] | None, *, is_compute: bool) -> CheckFinding:
    """Return whether a file in the folder of provider files gives computes the trait and the resource of spot.

    Without files (`texts` is None) nothing is wrong on a host that is no compute by its configuration.
    """
    if texts is None and not is_compute:
        told = f"{folder} has no file that can be read here: this host is no compute; see trait"
        return CheckFinding("providers", ok=None, told=told)
    if any(TRAIT in text and RESOURCE in text for text in (texts or {}).values()):
        return CheckFinding("providers", ok=True, told=f"a file in {folder} names the trait and the resource")
    told = f"no file in {folder} gives the compute {TRAIT} and {RESOURCE}"
    return CheckFinding(
        "providers", ok=False, told=told, todo="put there what tenure nova enable --write FOLDER writes"
    )


def judge_trait(resources: Mapping[str, frozenset[str]]) -> CheckFinding:
    """Return whether hosts have the trait, by the resources of those that do."""
    if not resources:
        told = f"no host in Placement has the trait {TRAIT}, so no spot server finds one"
        return CheckFinding(
            "trait", ok=False, told=told, todo="give computes the provider file, and restart nova-compute"
        )
    without = sorted(name for name, held in resources.items() if RESOURCE not in held)
    if without:
        told = f"{without[0]} and {len(without) - 1} others have the trait and not the resource {RESOURCE}"
        return CheckFinding("trait", ok=False, told=told, todo="give them the provider file, and restart nova-compute")
    return CheckFinding("trait", ok=True, told=f"{len(resources)} hosts take spot servers")


def judge_twins(faults: Sequence[str]) -> CheckFinding:
    """Return whether the spot flavors are as they must be."""
    if not faults:
        return CheckFinding("twins", ok=True, told="the spot flavors are outside of Placement's books")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return CheckFinding("twins", ok=False, told=faults[0] + more, todo="run tenure nova enable")


def values(configured: Configured, group: str, name: str) -> Sequence[str]:
    """Return all values of an option; none if it is not set."""
    return configured.get(group, {}).get(name, ())


def is_of_compute(configured: Configured) -> bool:
    """Return True for the configuration of a compute: there alone a driver is named."""
    return bool(values(configured, "DEFAULT", "compute_driver"))


def _last(configured: Configured, group: str, name: str) -> str | None:
    found = values(configured, group, name)
    return found[-1] if found else None


def _listed(configured: Configured, group: str, name: str) -> list[str]:
    return [word.strip() for word in (_last(configured, group, name) or "").split(",") if word.strip()]
