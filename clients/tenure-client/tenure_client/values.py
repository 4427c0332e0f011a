"""Words and operations that callers write. Answers carry plain strings, which compare equal to the words here.

Methods accept any string in their place, so that words of a newer service can be sent too.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypedDict

from msgspec import Struct


class Market(StrEnum):
    """On-demand instances are never evicted; spot instances may be."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


class Guarantee(StrEnum):
    """The scope of the SLA: none, every admitted instance by itself, all of a class together, or each stratum of it."""

    NONE = "none"
    PER_INSTANCE = "per_instance"
    POOLED = "pooled"
    STRATIFIED = "stratified"


class EvictionPolicy(StrEnum):
    """The order in which victims are chosen: the youngest on one node first, or the youngest of the whole cloud."""

    YJF = "yjf"
    YJF_GLOBAL = "yjf_global"


class Placement(StrEnum):
    """The node that a start takes, of those with room: the first, or the one with the least free room."""

    FIRST_FIT = "first_fit"
    BEST_FIT = "best_fit"


class BudgetUnit(StrEnum):
    """The unit of a budget or a book: each instance counts as one, or by the core-hours that it declares."""

    INSTANCES = "instances"
    CORE_HOURS = "core_hours"


class Forecast(StrEnum):
    """The way a risk is estimated: by replays of the log (the published method), or from the rises of the load."""

    REPLAY = "replay"
    CALIBRATED = "calibrated"


class Clock(StrEnum):
    """The source of a cloud's time: the server's clock, or the times that requests bring."""

    SYSTEM = "system"
    EXTERNAL = "external"


class Role(StrEnum):
    """The purpose of a token, which determines its rights."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    SERVICE = "service"
    PEER = "peer"
    PROJECT_READER = "project_reader"
    PROJECT_MEMBER = "project_member"


class Resources(NamedTuple):
    """A resource vector. A node's 0 means that the node does not count this resource; a flavor's 0 asks for none."""

    cores: int
    memory_mib: int = 0
    disk_gib: int = 0


class MachineSeen(Struct):
    """Something that was seen of a machine of a venue's pool, which the first five words name.

    `id` names the instance, or a series of probes. `kind`: `started`, `revoked`, `ended`, `probe_up`,
    `probe_down` or `notice`.
    """

    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    id: str
    at: datetime
    kind: str


class Start(Struct, omit_defaults=True):
    """A start. Spot starts must declare a lifetime; `eviction_probability` is their own SLA, not the cloud's.

    `lifetime`, which is "longest", asks for a lifetime as long as possible in place of `lifetime_s`. `min_lifetime_s`
    is the least that makes sense. `count` is the number of members of a group of spot instances, which are placed and
    evicted as a whole. `nodes` are the only ones that it may take. `project` and `user` tell for whom it is.
    """

    id: str
    market: str
    flavor: str
    lifetime_s: float | None = None
    eviction_probability: float | None = None
    at: datetime | None = None
    lifetime: str | None = None
    min_lifetime_s: float | None = None
    count: int = 1
    nodes: list[str] | None = None
    project: str | None = None
    user: str | None = None


class Stop(Struct, omit_defaults=True):
    """A stop in a batch."""

    id: str
    at: datetime | None = None


class Extend(Struct, omit_defaults=True):
    """A longer lifetime in a batch, counted from the instance's start."""

    id: str
    lifetime_s: float
    at: datetime | None = None


class Move(Struct, omit_defaults=True):
    """The node that an instance runs on now, in a batch. It takes the role `service`."""

    id: str
    node: str
    at: datetime | None = None


class Observe(Struct, omit_defaults=True):
    """The place of an on-demand instance, and its flavor, in a batch. It takes the role `service`."""

    id: str
    node: str
    flavor: str
    project: str | None = None
    user: str | None = None
    at: datetime | None = None


class Abort(Struct, omit_defaults=True):
    """An instance that was accepted and never ran, in a batch. It takes the role `service`."""

    id: str
    at: datetime | None = None


class PolicyChange(TypedDict, total=False):
    """Fields of a policy as the HTTP interface names them. Fields left out stay, or take their defaults."""

    guarantee: str
    eviction_probability: float
    eviction_policy: str
    clock: str
    warm_up_s: float
    recompute_every_s: float
    table_max_age_s: float
    history_window_s: float | None
    horizon_s: float
    sample_count: int
    seed: int
    confidence: float
    grace_s: float
    risk_threshold: float | None
    clock_step_s: float | None
    shared_ids: bool
    forecast: str
    placement: str
    strata_s: list[float]
    shortest_lifetime_s: float
    longest_lifetime_s: float | None
    least_probability: float | None
    highest_probability: float | None
    min_windows: int | None
    owner_cores: int | None
    owner_share: float | None
    overrunning_cores: int | None
    displaces_overrunning: bool
    budget: str
    overrun_share: float | None
    gives_back: bool
