"""The terms of the glossary as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

from app.domain.budgets import Book, Budget, BudgetUnit
from app.domain.strata import BOUNDARIES_US
from app.domain.times import DAY_US, HOUR_US

E = TypeVar("E", bound=Enum)

OWNER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"
"""The pattern of owners: what names of tokens have up to their first dot."""
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"
"""The pattern of names of clouds, nodes, flavors, instances and tokens: safe in paths, log lines and shells."""
LEAST_PROBABILITY = 1e-9
"""The least that can be promised. No forecast tells lower ones apart, and the arithmetic keeps its digits."""


_SINCE: dict[tuple[type[Enum], str], int] = {}


def newer(**since: int) -> Callable[[type[E]], type[E]]:
    """Say which log format introduced a value of the enumeration below, by name. The others came with the first."""

    def mark(kind: type[E]) -> type[E]:
        _SINCE.update({(kind, kind[name].name): log_format for name, log_format in since.items()})
        return kind

    return mark


def value_since(value: Enum) -> int:
    """Return the log format that introduced a value of an enumeration."""
    return _SINCE.get((type(value), value.name), 1)


class Market(StrEnum):
    """On-demand instances are never evicted; spot instances may be."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class EvictionPolicy(StrEnum):
    """The order in which victims are chosen: the youngest on one node first, or the youngest of the whole cloud."""

    YJF = "yjf"
    YJF_GLOBAL = "yjf_global"


class Placement(StrEnum):
    """The node that a start takes, of those with room: the first, or the one with the least free room."""

    FIRST_FIT = "first_fit"
    BEST_FIT = "best_fit"


@newer(STRATIFIED=4)
class Guarantee(StrEnum):
    """The scope of the SLA: none, every admitted instance by itself, all of a class together, or each stratum of it."""

    NONE = "none"
    PER_INSTANCE = "per_instance"
    POOLED = "pooled"
    STRATIFIED = "stratified"


class Forecast(StrEnum):
    """The way a risk is estimated: by replays of the log (the published method), or from the rises of the load."""

    REPLAY = "replay"
    CALIBRATED = "calibrated"


class Clock(StrEnum):
    """The source of a cloud's time: the server's clock, or the times that requests bring."""

    SYSTEM = "system"
    EXTERNAL = "external"


class NodeStatus(StrEnum):
    """Open nodes take placements; drained nodes keep their instances and take no more."""

    OPEN = "open"
    DRAINED = "drained"


@newer(TOO_FEW_WINDOWS=5, QUOTA_EXCEEDED=5, OVERRUNNING=5)
class Rejection(StrEnum):
    """The reason for which a start was rejected."""

    NO_CAPACITY = "no_capacity"
    SLA_UNATTAINABLE = "sla_unattainable"
    NO_HISTORY = "no_history"
    QUOTES_STALE = "quotes_stale"
    BUDGET_EXHAUSTED = "budget_exhausted"
    TOO_FEW_WINDOWS = "too_few_windows"
    QUOTA_EXCEEDED = "quota_exceeded"
    OVERRUNNING = "overrunning"


@newer(OVERRAN=5)
class QuotaKind(StrEnum):
    """The limit that a quota sets: an owner's running cores, its share of a book's rest, its overrunning cores, or the
    core-hours that its instances overran lately.
    """

    CORES = "cores"
    SHARE = "share"
    OVERRUNNING = "overrunning"
    OVERRAN = "overran"


@newer(SPOT_START=5, ON_DEMAND_MOVE=7, NODE_RESIZED=7)
class EvictionReason(StrEnum):
    """The reason for which a spot instance was evicted."""

    ON_DEMAND_START = "on_demand_start"
    NODE_REMOVED = "node_removed"
    DRILL = "drill"
    SPOT_START = "spot_start"
    ON_DEMAND_MOVE = "on_demand_move"
    NODE_RESIZED = "node_resized"


class AfterPromise(StrEnum):
    """The standing of an instance that runs on after its lifetime: it is the first to be evicted."""

    DISPLACED_FIRST = "displaced_first"


class InstanceStatus(StrEnum):
    """The present state of an instance, or its outcome."""

    RUNNING = "running"
    STOPPED = "stopped"
    EVICTED = "evicted"
    REJECTED = "rejected"


class DecisionOutcome(StrEnum):
    """The outcome of a decision."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    STOPPED = "stopped"
    EVICTED = "evicted"
    EXTENDED = "extended"
    EXTENSION_REJECTED = "extension_rejected"


class Role(StrEnum):
    """The purpose of a token. `GRANTS` in app/platform/http/auth.py says which role includes which others."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    SERVICE = "service"
    PEER = "peer"
    PROJECT_READER = "project_reader"
    PROJECT_MEMBER = "project_member"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `id` and `name` are the token's; `cloud` is the only one it is for, None: all.

    `role` is a word of `Role`, or of a newer version.
    """

    id: int
    name: str
    role: str
    cloud: str | None

    @property
    def group(self) -> tuple[str, str]:
        """The callers with whom it shares its turns: those of its cloud; without one, those whose names begin alike."""
        return ("owner", self.name.partition(".")[0]) if self.cloud is None else ("cloud", self.cloud)

    @property
    def project(self) -> str | None:
        """The only project whose instances the caller may see, its token's name up to the first dot; None: all."""
        return self.name.partition(".")[0] if self.role in {Role.PROJECT_READER, Role.PROJECT_MEMBER} else None


class RiskLevel(StrEnum):
    """The direction of a risk notice: the risk begins or ends."""

    RAISED = "raised"
    CLEARED = "cleared"


class Resources(NamedTuple):
    """A resource vector. A node's 0 means that the node does not count this resource; a flavor's 0 asks for none."""

    cores: int
    memory_mib: int = 0
    disk_gib: int = 0


MOST_CORES = 65_536
"""The most cores that a node may have, and a flavor."""


@dataclass(frozen=True, slots=True)
class ProposedMove:
    """A move of an instance from one node to another, which has room for it at once."""

    instance_id: str
    node: str
    to: str


MovePlan: TypeAlias = tuple[ProposedMove, ...]
"""Proposed moves in the order in which they are to be carried out."""


class ToldRisk(NamedTuple):
    """The last that was told of an instance at risk: when, and with which moves."""

    at_us: int
    moves: MovePlan


@dataclass(frozen=True, slots=True)
class Policy:
    """A cloud's SLA policy.

    A default is what a log means that does not hold the field, and all of them are the published method. What a new
    cloud gets is `new_policy` (app/domain/policies.py).
    """

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
    forecast: Forecast = field(default=Forecast.REPLAY, metadata={"since": 2})
    placement: Placement = field(default=Placement.FIRST_FIT, metadata={"since": 3})
    strata_us: tuple[int, ...] = field(default=BOUNDARIES_US, metadata={"since": 4})
    shortest_lifetime_us: int = field(default=0, metadata={"since": 5})
    longest_lifetime_us: int | None = field(default=None, metadata={"since": 5})
    least_probability: float | None = field(default=None, metadata={"since": 5})
    highest_probability: float | None = field(default=None, metadata={"since": 5})
    min_windows: int | None = field(default=None, metadata={"since": 5})
    owner_cores: int | None = field(default=None, metadata={"since": 5})
    owner_share: float | None = field(default=None, metadata={"since": 5})
    overrunning_cores: int | None = field(default=None, metadata={"since": 5})
    displaces_overrunning: bool = field(default=False, metadata={"since": 5})
    overrun_share: float | None = field(default=None, metadata={"since": 5})
    budget: BudgetUnit = field(default=BudgetUnit.INSTANCES, metadata={"since": 5})
    gives_back: bool = field(default=False, metadata={"since": 6})

    def forecasts(self) -> set[Forecast]:
        """Return what a table holds: replays beside the calibrated forecast too, unless the history is too large."""
        return {Forecast.REPLAY, self.forecast}

    def due_epoch_us(self, at_us: int) -> int:
        """Return the due time of the newest table that should exist at `at_us`: a whole multiple of the interval."""
        return at_us - at_us % self.recompute_every_us

    def first_due_us(self, created_us: int) -> int | None:
        """Return when the first table of a cloud that began then is due; None: not by the clock."""
        if self.clock is Clock.EXTERNAL or self.guarantee is Guarantee.NONE:
            return None
        return self.due_epoch_us(created_us) + self.recompute_every_us


@dataclass(frozen=True, slots=True)
class Floor:
    """The evidence floor that refused a start, or a longer lifetime.

    `min_windows`: how many windows the policy asks for; `enough_us`: when a history that grows on as it did will hold
    them for this lifetime, None if that is not known; `affordable_us`: the longest lifetime that would have been
    promised, 0 if there is none.
    """

    min_windows: int
    enough_us: int | None
    affordable_us: int = 0


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The quota that refuses a start: what its owner used just before it, what the start asks for, and what is allowed.

    Cores are whole numbers. A share counts in the book's unit, which is evictions or core-hours: the risks of the
    owner's running instances in the book, by the share of their lifetime that is left. What overran counts in
    core-hours.
    """

    kind: QuotaKind
    used: float
    asked: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Basis:
    """The figures that a spot decision rests on.

    `probability` is the eviction probability promised (the SLA), `quoted_lifetime_us` the lifetime that the table
    quotes at it, `estimated_probability` the table's eviction probability for the declared lifetime, and
    `probability_bound` its upper bound at the policy's confidence. `windows` is the evidence that this rests on,
    None where the policy has no `min_windows`. All but `slots` are None if no table was read. Only the pooled guarantee
    has a `budget`, only the stratified one a `book`, and only a refusal for want of windows a `floor`.
    `quota` is the one that refuses.
    """

    slots: int
    epoch: int | None = None
    probability: float | None = None
    quoted_lifetime_us: int | None = None
    estimated_probability: float | None = None
    budget: Budget | None = None
    probability_bound: float | None = None
    book: Book | None = field(default=None, metadata={"since": 4})
    windows: float | None = field(default=None, metadata={"since": 5})
    floor: Floor | None = field(default=None, metadata={"since": 5})
    quota: QuotaUse | None = field(default=None, metadata={"since": 5})

    @property
    def is_beyond(self) -> bool:
        """True if the risk is above the promise under a book, whose promise is to all starts of its stratum together.

        It is False without a book: then nothing above the promise is admitted.
        """
        risk, promise = self.estimated_probability, self.probability
        return self.book is not None and risk is not None and promise is not None and risk > promise


@dataclass(frozen=True, slots=True)
class Acceptable:
    """The alternatives to a start that its promise refused, each sufficient by itself; None: there is no such value."""

    lifetime_us: int | None
    probability: float | None


class RunCause(StrEnum):
    """The cause of a run: a caller, the schedule, or a start that entered a new epoch of an external clock.

    The others are changes since the last table: nodes came or went, more was evicted than promised, the SLA was broken.
    """

    REQUESTED = "requested"
    SCHEDULED = "scheduled"
    EXTERNAL_CLOCK = "external_clock"
    CAPACITY_CHANGED = "capacity_changed"
    EVICTION_BURST = "eviction_burst"
    SLA_DRIFT = "sla_drift"
