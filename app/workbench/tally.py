"""The metrics of the papers for a driven workload, counted from the answers alone.

The evaluation and the client of a running service count with the same tally, so their tables can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from app.domain.events.wire import value_to_wire
from app.domain.requests import StartRequest
from app.domain.strata import BOUNDARIES_US, stratum_index, stratum_names
from app.domain.times import DAY_US, seconds
from app.domain.values import Guarantee, Market, Placement, Policy, Resources
from app.workbench.workload import Workload, flavors

_SETTINGS = (
    "guarantee", "budget", "strata_s", "forecast", "eviction_probability", "eviction_policy", "placement", "warm_up_s",
    "recompute_every_s", "history_window_s", "horizon_s", "sample_count", "seed", "confidence",
)  # fmt: skip
"""The fields of a policy that an outcome tells."""
_WEEK_US = 7 * DAY_US
"""A week of the workload, from its beginning on."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload, the platform that it meets (capacities in node order) and the policy in force."""

    nodes: tuple[Resources, ...]
    workload: Workload
    policy: Policy


@dataclass(slots=True)
class GroupTally:
    """Counts for the admitted spot instances of a stratum, a flavor, or the starts of a week.

    `evicted`: within the declared lifetime; `overrun_evicted`: after it, when the promise was over. Core-microseconds
    are declared ones: of all, of those that reached their stop or run on, and of those evicted within their declared
    lifetime.
    """

    admitted: int = 0
    evicted: int = 0
    overrun_evicted: int = 0
    core_us: int = 0
    completed_core_us: int = 0
    lost_core_us: int = 0

    def count_start(self, core_us: int) -> None:
        """Count an admission. The instance completes unless it is evicted."""
        self.admitted += 1
        self.core_us += core_us
        self.completed_core_us += core_us

    def take_back(self, core_us: int) -> None:
        """Undo `count_start`."""
        self.admitted -= 1
        self.core_us -= core_us
        self.completed_core_us -= core_us

    def count_eviction(self, core_us: int, *, overran: bool) -> None:
        """Count the eviction of one of them."""
        self.overrun_evicted += overran
        self.evicted += not overran
        self.completed_core_us -= core_us
        self.lost_core_us += 0 if overran else core_us

    def report(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return value_to_wire(self)


class _Admitted(NamedTuple):
    """A running spot instance: its request, its declared core-microseconds, and the groups that it counts in."""

    request: StartRequest
    core_us: int
    groups: tuple[GroupTally, ...]


@dataclass(slots=True)
class WorkloadTally:
    """Counts starts by market. A spot instance completes if it is admitted and never evicted.

    It reaches its stop, or runs on where a log ends before.
    """

    demands: Mapping[str, Resources]
    on_demand_requested: int = 0
    on_demand_admitted: int = 0
    spot_requested: int = 0
    spot_admitted: int = 0
    spot_evicted: int = 0
    requested_core_us: int = 0
    completed_core_us: int = 0
    epochs: set[int] = field(default_factory=set)
    boundaries_us: tuple[int, ...] = BOUNDARIES_US
    strata: dict[str, GroupTally] = field(default_factory=dict)
    flavors: dict[str, GroupTally] = field(default_factory=dict)
    weeks: dict[int, GroupTally] = field(default_factory=dict)
    _running: dict[str, _Admitted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with every stratum at nothing."""
        self.strata = {name: GroupTally() for name in stratum_names(self.boundaries_us)}

    @classmethod
    def of(cls, scenario: Scenario) -> WorkloadTally:
        """Return an empty tally for a scenario, by the strata of its policy; by the usual ones if it has one budget."""
        return cls(flavors(scenario.workload), boundaries_us=scenario.policy.strata_us or BOUNDARIES_US)

    def started(self, request: StartRequest, *, accepted: bool, victims: Iterable[str], epoch: int | None) -> None:
        """Count the answer to a start; `victims` are the instances that it evicted."""
        if request.market is Market.ON_DEMAND:
            self.on_demand_requested += 1
            self.on_demand_admitted += accepted
            self._evicted(victims, request.at_us or 0)
            return
        core_us = request.count * self.demands[request.flavor].cores * (request.lifetime_us or 0)
        self.spot_requested += 1
        self.requested_core_us += core_us
        if epoch is not None:
            self.epochs.add(epoch)
        self._evicted(victims, request.at_us or 0)
        if accepted:
            self._admitted(request, core_us)

    def _evicted(self, victims: Iterable[str], at_us: int) -> None:
        for victim in victims:
            self.evicted(victim, at_us)

    @property
    def spot_completed(self) -> int:
        """Number of spot instances that reached their own stop, or did not come to it if not all were driven."""
        return self.spot_admitted - self.spot_evicted

    def total(self) -> GroupTally:
        """Return the sum over all strata."""
        groups = self.strata.values()
        return GroupTally(*(sum(getattr(group, one.name) for group in groups) for one in fields(GroupTally)))

    def report(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "on_demand": {"requested": self.on_demand_requested, "admitted": self.on_demand_admitted},
            "spot": {
                "requested": self.spot_requested,
                "admitted": self.spot_admitted,
                "evicted": self.spot_evicted,
                "completed": self.spot_completed,
                "requested_core_s": seconds(self.requested_core_us),
                "completed_core_s": seconds(self.completed_core_us),
            },
            "strata": {name: group.report() for name, group in self.strata.items()},
            "flavors": {name: group.report() for name, group in self.flavors.items()},
        }

    def _admitted(self, request: StartRequest, core_us: int) -> None:
        lifetime_us = request.lifetime_us or 0
        stratum = [*self.strata.values()][stratum_index(lifetime_us, self.boundaries_us)]
        week = self.weeks.setdefault((request.at_us or 0) // _WEEK_US, GroupTally())
        groups = stratum, self.flavors.setdefault(request.flavor, GroupTally()), week
        self.spot_admitted += 1
        self.completed_core_us += core_us
        for group in groups:
            group.count_start(core_us)
        self._running[request.instance_id] = _Admitted(request, core_us, groups)

    def extended(self, instance_id: str, lifetime_us: int) -> None:
        """Count an instance with the longer lifetime that it was promised, in place of its former one."""
        one = self._running.pop(instance_id)
        for group in one.groups:
            group.take_back(one.core_us)
        self.spot_admitted -= 1
        self.completed_core_us -= one.core_us
        request = replace(one.request, lifetime_us=lifetime_us)
        self._admitted(request, request.count * self.demands[request.flavor].cores * lifetime_us)

    def evicted(self, victim: str, at_us: int) -> None:
        """Count the eviction of an admitted spot instance."""
        one = self._running.pop(victim)
        self.spot_evicted += 1
        self.completed_core_us -= one.core_us
        for group in one.groups:
            group.count_eviction(one.core_us, overran=at_us > (one.request.at_us or 0) + (one.request.lifetime_us or 0))

    def stopped(self, instance_id: str) -> None:
        """Forget an instance that reached its stop."""
        self._running.pop(instance_id, None)


@dataclass(frozen=True, slots=True)
class DrivenScenario:
    """A driven scenario. `forecast_s` is the time spent in forecasting; None if another process did it."""

    scenario: Scenario
    tally: WorkloadTally
    forecast_s: float | None
    wall_s: float

    def report(self) -> dict[str, Any]:
        """Return the outcome as one JSON object."""
        return {
            **self.tally.report(),
            "spot_left_out": self.scenario.workload.left_out,
            "epochs": len(self.tally.epochs),
            "forecast_s": None if self.forecast_s is None else round(self.forecast_s, 3),
            "wall_s": round(self.wall_s, 3),
            "settings": settings(self.scenario),
        }


def rules_of(policy: Policy) -> str:
    """Return the names of the rules that choose victims and, where it is not the first that fits, the node."""
    names = [str(policy.eviction_policy)]
    if policy.placement is not Placement.FIRST_FIT:
        names.append(str(policy.placement))
    return ", ".join(names)


def settings(scenario: Scenario) -> dict[str, Any]:
    """Return the settings of the scenario as JSON values; durations in seconds. Without an SLA nothing is promised."""
    policy = value_to_wire(scenario.policy)
    if scenario.policy.guarantee is Guarantee.NONE:
        policy["eviction_probability"] = None
    return {"nodes": [node.cores for node in scenario.nodes], **{name: policy[name] for name in _SETTINGS}}
