"""The words of the glossary as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from app.domain.times import DAY_US, HOUR_US

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"
"""Names of clouds, nodes, flavors, instances and tokens: nothing that a path, a log line or a shell could misread."""


class Market(StrEnum):
    """On-demand instances are never evicted; spot instances may be."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class EvictionPolicy(StrEnum):
    """The order in which victims are taken: the youngest of one node first, or the youngest of the cloud."""

    YJF = "yjf"
    YJF_GLOBAL = "yjf_global"


class Guarantee(StrEnum):
    """How the SLA is read: not at all, for every admitted instance by itself, or for all of a class together."""

    NONE = "none"
    PER_INSTANCE = "per_instance"
    POOLED = "pooled"


class Clock(StrEnum):
    """Whose time a cloud's log carries: the server's, or the one that each request brings."""

    SYSTEM = "system"
    EXTERNAL = "external"


class NodeStatus(StrEnum):
    """An open node takes placements; a drained one keeps what runs; a removed one is gone."""

    OPEN = "open"
    DRAINED = "drained"
    REMOVED = "removed"


class Rejection(StrEnum):
    """Why a start was rejected."""

    NO_CAPACITY = "no_capacity"
    SLA_UNATTAINABLE = "sla_unattainable"
    NO_HISTORY = "no_history"
    QUOTES_STALE = "quotes_stale"
    BUDGET_EXHAUSTED = "budget_exhausted"


class EvictionReason(StrEnum):
    """Why a spot instance was evicted."""

    ON_DEMAND_START = "on_demand_start"
    NODE_REMOVED = "node_removed"
    DRILL = "drill"


class Role(StrEnum):
    """What a token is for. Which role may do what another may: `GRANTS` in app/platform/http/auth.py."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    SERVICE = "service"
    PEER = "peer"


class RiskLevel(StrEnum):
    """Whether a notice of risk begins or ends."""

    RAISED = "raised"
    CLEARED = "cleared"


class Resources(NamedTuple):
    """A resource vector. A node's 0 means that the node does not count this resource; a flavor's 0 asks for none."""

    cores: int
    memory_mib: int = 0
    disk_gib: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """A cloud's SLA policy. The defaults are those of the published method."""

    guarantee: Guarantee = Guarantee.PER_INSTANCE
    eviction_probability: float = 0.01
    eviction_policy: EvictionPolicy = EvictionPolicy.YJF
    clock: Clock = Clock.SYSTEM
    warm_up_us: int = DAY_US
    recompute_every_us: int = 6 * HOUR_US
    table_max_age_us: int = 12 * HOUR_US
    history_window_us: int | None = None
    horizon_us: int = 30 * DAY_US
    sample_count: int = 10_000
    seed: int = 0
    confidence: float = 0.95
    grace_us: int = 0
    risk_threshold: float | None = None
    clock_step_us: int | None = field(default=DAY_US, metadata={"since": 2})
    shared_ids: bool = field(default=True, metadata={"since": 2})

    def due_epoch_us(self, at_us: int) -> int:
        """When the newest table that should exist at `at_us` was due: at whole multiples of the interval."""
        return at_us - at_us % self.recompute_every_us


@dataclass(frozen=True, slots=True)
class Budget:
    """The eviction budget of a class (all that are promised one eviction probability) as a decision found it.

    `earned`: what the class may lose once the instance is admitted; `evicted`: what it has lost; `committed`: the
    charges of what runs; `charge`: the instance's own; `risk`: how likely the instance is evicted at all;
    `affordable_us`: where the start is not afforded, the longest lifetime that would be.
    """

    earned: float
    evicted: int
    committed: float
    charge: float
    risk: float
    affordable_us: int | None = None


@dataclass(frozen=True, slots=True)
class Basis:
    """What a spot decision rested on.

    `probability` is the eviction probability promised (the SLA), `quoted_lifetime_us` the lifetime that the table
    quotes at it, `estimated_probability` the eviction probability that the table gives the declared lifetime,
    `probability_bound` what it is below with the policy's confidence.
    All but `slots` are None where no table was read; `budget` is there under the pooled guarantee only.
    """

    slots: int
    epoch: int | None = None
    probability: float | None = None
    quoted_lifetime_us: int | None = None
    estimated_probability: float | None = None
    budget: Budget | None = None
    probability_bound: float | None = None


class RunCause(StrEnum):
    """Who wanted it: a caller, the schedule, or a start that crossed into a new epoch of an external clock.

    Or what has happened since the last table: nodes came or went, more was evicted than promised, the SLA was passed.
    """

    REQUESTED = "requested"
    SCHEDULED = "scheduled"
    EXTERNAL_CLOCK = "external_clock"
    CAPACITY_CHANGED = "capacity_changed"
    EVICTION_BURST = "eviction_burst"
    SLA_DRIFT = "sla_drift"
