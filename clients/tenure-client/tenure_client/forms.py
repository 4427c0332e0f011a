"""The service's answers as typed values: the fields and units of the HTTP interface, seconds as floats, aware times.

What a newer service may add is left out: unknown fields are passed over, and reasons, kinds and the like are plain
strings. `docs/client.md` and the OpenAPI document explain the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field, to_builtins

from tenure_client.errors import ServiceRefused, refusal

Json = dict[str, Any]
Seconds = int | float


class Answer(Struct):
    """The root of all answers."""


class Link(Answer):
    rel: str
    href: str


class Page(Answer):
    """A part of a list; `links` leads to the next one, where there is one."""

    links: list[Link]

    @property
    def next_href(self) -> str | None:
        """Where the list goes on."""
        return next((link.href for link in self.links if link.rel == "next"), None)


class Problem(Answer):
    """An entry of an error answer."""

    code: str
    status: int
    detail: str
    request_id: str = ""
    title: str = ""


class Problems(Answer):
    errors: list[Problem]


# --- clouds ----------------------------------------------------------------------------------------------------------


class Policy(Answer):
    """An SLA policy."""

    guarantee: str
    eviction_probability: float
    eviction_policy: str
    clock: str
    warm_up_s: Seconds
    recompute_every_s: Seconds
    table_max_age_s: Seconds
    history_window_s: Seconds | None
    horizon_s: Seconds
    sample_count: int
    seed: int
    confidence: float
    grace_s: Seconds
    risk_threshold: float | None
    clock_step_s: Seconds | None = None


class Counts(Answer):
    on_demand_requested: int
    on_demand_admitted: int
    spot_requested: int
    spot_admitted: int
    spot_evicted: int
    spot_drilled: int
    running: int


class Cloud(Answer):
    """A cloud's policy, the end of its log, and what was asked of it."""

    name: str
    seq: int
    created_at: datetime
    at: datetime
    counts: Counts
    policy: Policy


class CloudName(Answer):
    name: str
    links: list[Link]


class CloudsPage(Page):
    clouds: list[CloudName]


# --- nodes and flavors -----------------------------------------------------------------------------------------------


class Resources(Answer):
    """A resource vector. A node's 0 means that the node does not count this resource; a flavor's 0 asks for none."""

    cores: int
    memory_mib: int = 0
    disk_gib: int = 0


class Node(Answer):
    name: str
    status: str
    capacity: Resources
    free: Resources


class NodesPage(Page):
    nodes: list[Node]


class Victim(Answer):
    id: str
    deadline: datetime | None = None


class Removal(Answer):
    victims: list[Victim]


class Flavor(Answer):
    name: str
    cores: int
    memory_mib: int
    disk_gib: int
    available_slots: int


class FlavorsPage(Page):
    flavors: list[Flavor]


# --- instances -------------------------------------------------------------------------------------------------------


class Start(Struct, omit_defaults=True):
    """A start, as it is sent. A spot start declares its lifetime; `eviction_probability` is its own SLA."""

    id: str
    market: str
    flavor: str
    lifetime_s: Seconds | None = None
    eviction_probability: float | None = None
    at: datetime | None = None


class Stop(Struct, omit_defaults=True):
    """A stop in a batch, as it is sent."""

    id: str
    at: datetime | None = None


class Budget(Answer):
    """The eviction budget of all that are promised one probability, as a decision found it."""

    earned: float
    evicted: int
    committed: float
    charge: float
    risk: float
    affordable_lifetime_s: Seconds | None


class Quote(Answer):
    """What a decision rested on."""

    epoch: int | None
    slots: int
    eviction_probability: float | None
    lifetime_s: Seconds | None
    estimated_eviction_probability: float | None
    eviction_probability_bound: float | None
    budget: Budget | None


class Acceptable(Answer):
    lifetime_s: Seconds | None
    eviction_probability: float | None


class Decision(Answer):
    """The decision on a start; a rejection is a decision too."""

    id: str
    seq: int
    status: str
    market: str
    flavor: str
    at: datetime
    lifetime_s: Seconds | None
    eviction_probability: float | None
    node: str | None
    victims: list[Victim]
    ready_at: datetime | None
    reason: str | None
    quote: Quote | None
    acceptable: Acceptable | None

    @property
    def accepted(self) -> bool:
        """Whether the instance runs now."""
        return self.status == "accepted"

    @property
    def victim_ids(self) -> tuple[str, ...]:
        """Who was evicted to make room, youngest first."""
        return tuple(victim.id for victim in self.victims)

    @property
    def epoch(self) -> int | None:
        """The quantile table that the decision rests on."""
        return None if self.quote is None else self.quote.epoch


class BatchResult(Answer):
    """The answer to one operation of a batch: `body` of a start, nothing of a stop, `errors` of one that failed."""

    status: int
    body: Decision | None = None
    errors: list[Problem] = []

    @property
    def error(self) -> ServiceRefused | None:
        """What was wrong with this operation."""
        return refused(self.status, self.errors, "") if self.errors else None


class BatchAnswer(Answer):
    results: list[BatchResult]


class Drilled(Answer):
    """Who was evicted in a drill."""

    id: str
    seq: int
    at: datetime


class Handover(Answer):
    """An eviction that no controller has confirmed."""

    id: str
    node: str
    flavor: str
    reason: str
    cause_seq: int
    scheduled_at: datetime
    deadline: datetime
    status: str


class HandoversPage(Page):
    handovers: list[Handover]


class Lane(Answer):
    """How far a lane of a webhook has got."""

    seq: int
    attempts: int
    retry_at: datetime | None


class Webhook(Answer):
    """A receiver of events."""

    id: str
    url: str
    kinds: list[str] | None
    status: str
    paused_because: str | None
    created_at: datetime
    delivered_count: int
    delivered_at: datetime | None
    last_error: str | None
    urgent: Lane
    ordinary: Lane
    dead_count: int
    links: list[Link]


class NewWebhook(Webhook, kw_only=True):
    """A new webhook, with the secret that its messages are signed with."""

    secret: str


class WebhooksPage(Page):
    webhooks: list[Webhook]


class Trial(Answer):
    """How a receiver answered a message that is no event."""

    taken: bool
    status: int | None
    error: str | None


class DeadLetter(Answer):
    """An event that a receiver did not take."""

    seq: int
    kind: str
    attempts: int
    error: str
    died_at: datetime
    replay_asked_at: datetime | None


class DeadLettersPage(Page):
    dead: list[DeadLetter]


class Replayed(Answer):
    """How many dead letters will be tried once more."""

    asked: int


class Instance(Answer):
    id: str
    seq: int
    status: str
    market: str
    flavor: str
    at: datetime
    lifetime_s: Seconds | None
    eviction_probability: float | None
    node: str | None
    reason: str | None
    quote: Quote | None
    ended_at: datetime | None
    cause_seq: int | None
    ready_at: datetime | None


class InstancesPage(Page):
    instances: list[Instance]


# --- reasons ---------------------------------------------------------------------------------------------------------


class Promise(Answer):
    status: str
    eviction_probability: float | None
    until: datetime | None


class VictimDetail(Answer):
    id: str
    flavor: str
    resources: Resources
    node: str
    started_at: datetime
    ran_s: Seconds
    lifetime_s: Seconds | None
    overrunning: bool
    deadline: datetime | None
    promise: str


class Eviction(Answer):
    at: datetime
    reason: str
    cause_seq: int
    cause_id: str | None
    flavor: str | None
    required: Resources | None
    node: str | None
    freed: Resources | None
    eviction_policy: str
    rank: int | None
    victim_count: int
    victims: list[VictimDetail]


class Explanation(Answer):
    """Why an instance is what it is; `sentences` tell it in words."""

    instance: Instance
    sentences: list[str]
    as_of: datetime
    required: Resources
    guarantee: str
    epoch_at: datetime | None
    promise: Promise
    acceptable: Acceptable | None
    eviction: Eviction | None
    notice_fields: list[Json] = field(name="notices")

    @property
    def notices(self) -> list[Event]:
        """What was told of its risk and of its grace period, in log order."""
        return [event_of(notice) for notice in self.notice_fields]


class Decided(Answer):
    """One decision of the log, with its reason."""

    seq: int
    at: datetime
    outcome: str
    id: str
    market: str
    flavor: str
    node: str | None
    reason: str | None
    lifetime_s: Seconds | None
    quote: Quote | None
    victims: list[Victim]
    ready_at: datetime | None
    ran_s: Seconds | None
    cause_seq: int | None
    cause_id: str | None
    promise: str
    sentence: str


class DecisionsPage(Page):
    decisions: list[Decided]


# --- quotes, tables, runs --------------------------------------------------------------------------------------------


class Evidence(Answer):
    slots: int
    sample_count: int
    evicted_count: int


class FlavorQuote(Answer):
    flavor: str
    slots: int
    eviction_probability: float
    lifetime_s: Seconds | None
    asked_lifetime_s: Seconds | None
    estimated_eviction_probability: float | None
    eviction_probability_bound: float | None
    evidence: list[Evidence]


class Quotes(Answer):
    epoch: int
    epoch_at: datetime
    expires_at: datetime
    quotes: list[FlavorQuote]


class Bucket(Answer):
    slots: int
    sample_count: int
    evicted_count: int
    longest_s: Seconds
    times_s: list[Seconds]
    levels: list[float]


class Curve(Answer):
    flavor: str
    buckets: list[Bucket]


class TableSummary(Answer):
    epoch: int
    seq: int
    epoch_at: datetime
    computed_at: datetime
    wall_s: Seconds
    links: list[Link]


class Table(TableSummary):
    curves: list[Curve]


class TablesPage(Page):
    tables: list[TableSummary]


class Run(Answer):
    id: int
    cause: str
    status: str
    due_at: datetime | None
    attempts: int
    error: str | None
    epoch: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    links: list[Link]


class RunsPage(Page):
    runs: list[Run]


# --- promises and what happened --------------------------------------------------------------------------------------


class Calibration(Answer):
    promised: float | None
    admitted: int
    running: int
    evicted: int
    happened: float | None
    low: float
    high: float
    bound: float | None


class EstimateCalibration(Calibration):
    estimate_from: float
    estimate_to: float


class EpochCalibration(Calibration):
    epoch: int | None


class Reliability(Page):
    first_seq: int
    last_seq: int
    as_of: datetime
    confidence: float
    classes: list[Calibration]
    estimates: list[EstimateCalibration]
    epochs: list[EpochCalibration]
    coverage: float | None


class ClassBudget(Answer):
    earned: float
    spent: int
    committed: float
    left: float


class SlaClass(Answer):
    promised: float
    admitted: int
    running: int
    evicted: int
    ratio: float | None
    low: float
    high: float
    is_kept: bool
    budget: ClassBudget


class Sla(Answer):
    """How each class, all that were promised one eviction probability, stands."""

    guarantee: str
    as_of: datetime
    seq: int
    confidence: float
    classes: list[SlaClass]


class UtilisationPoint(Answer):
    """A bucket of time: means are weighted by time, peaks are the highest after any event."""

    at: datetime
    on_demand_mean: float
    spot_mean: float
    total_mean: float
    on_demand_peak: int
    spot_peak: int
    used_peak: int
    on_demand_admitted: int
    on_demand_rejected: int
    spot_admitted: int
    spot_rejected: int
    evicted: int


class Utilisation(Answer):
    """What of a cloud's cores was in use over time."""

    begin_at: datetime
    as_of: datetime
    width_s: int
    seq: int
    log_seq: int
    points: list[UtilisationPoint]


# --- events ----------------------------------------------------------------------------------------------------------


class Event(Answer):
    """An event of the log; `fields` holds all that the service says of its kind, also of kinds not known here."""

    seq: int
    at: datetime
    kind: str
    fields: Mapping[str, Any]


class EventsPage(Page):
    events: list[Json]


def event_of(answer: Json) -> Event:
    """The event that this JSON object is."""
    at = datetime.fromisoformat(answer["at"])
    return Event(seq=answer["seq"], at=at, kind=answer["kind"], fields=answer)


# --- the service -----------------------------------------------------------------------------------------------------


class Token(Answer):
    id: str
    name: str
    role: str
    cloud: str | None
    status: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    links: list[Link]


class NewToken(Token):
    """A token that was just made: `token` is shown this once."""

    token: str


class TokensPage(Page):
    tokens: list[Token]


class Version(Answer):
    id: str
    status: str
    min_version: str
    max_version: str
    links: list[Link]


class Versions(Answer):
    versions: list[Version]


class CloudReadiness(Answer):
    name: str
    epoch: int | None
    computed_at: datetime | None
    table_age_s: Seconds | None


class Readiness(Answer):
    ready: bool
    database: str
    clouds: list[CloudReadiness]
    code: str | None = None
    log: str = "OK"


def json_of(answer: Answer) -> Json:
    """The answer as JSON values, in the fields of the HTTP interface."""
    found: Json = to_builtins(answer)
    return found


def refused(status: int, problems: list[Problem], reason: str) -> ServiceRefused:
    """The error that an error answer tells of."""
    first = problems[0] if problems else Problem(code="", status=status, detail="")
    details = tuple(problem.detail for problem in problems)
    return refusal(status, first.code, first.detail or reason, first.request_id, details)
