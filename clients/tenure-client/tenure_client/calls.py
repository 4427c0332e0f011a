"""Every operation of the service as a value: what to send, what comes back, and whether it may be sent twice.

Nothing here sends anything, so the one description serves both clients; see `api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from msgspec import to_builtins

from tenure_client.forms.answer import Json
from tenure_client.forms.clouds import CloudAnswer, CloudNameAnswer, CloudsAnswer
from tenure_client.forms.decisions import DecisionAnswer, DecisionsAnswer, ExplanationAnswer
from tenure_client.forms.events import EventAnswer, EventsAnswer, event_of
from tenure_client.forms.forecasts import (
    QuotesAnswer,
    RunAnswer,
    RunsAnswer,
    TableAnswer,
    TablesAnswer,
    TableSummaryAnswer,
)
from tenure_client.forms.instances import (
    BatchAnswer,
    DrillAnswer,
    HandoverAnswer,
    HandoversAnswer,
    InstanceAnswer,
    InstancesAnswer,
    StartAnswer,
)
from tenure_client.forms.nodes import FlavorAnswer, FlavorsAnswer, NodeAnswer, NodesAnswer, RemovalAnswer
from tenure_client.forms.promises import ReliabilityAnswer, SlaAnswer, UtilisationAnswer
from tenure_client.forms.service import NewTokenAnswer, ReadinessAnswer, TokenAnswer, TokensAnswer, VersionsAnswer
from tenure_client.forms.webhooks import (
    DeadLetterAnswer,
    DeadLettersAnswer,
    NewWebhookAnswer,
    ReplayAnswer,
    TrialAnswer,
    WebhookAnswer,
    WebhooksAnswer,
)
from tenure_client.values import PolicyChange, Resources, Start, Stop

T = TypeVar("T")

PAGE = 1000
"""Items of a page where a whole list is read."""


class Repeat(Enum):
    """Whether a request may be sent again when it is not known what became of it."""

    SAFE = "safe"
    """The same again changes nothing more, and has the same answer."""
    ONCE = "once"
    """It may not: it is sent again only where it surely was not taken."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `answer` is the type of what comes back: str is the text as it is, None is nothing.

    `also` are statuses beside success whose answers are answers, not errors. `unfinished` tells of an answer that a
    part of it was not taken, so that all of it is to be sent again.
    """

    method: str
    path: str
    answer: type[T]
    query: Mapping[str, str | int | float] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    repeat: Repeat = Repeat.SAFE
    also: frozenset[int] = frozenset()
    unfinished: Callable[[T], bool] | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that comes in pages: its first page, and the items of any page."""

    first: Call[Any]
    items: Callable[[Any], Sequence[T]]

    def after(self, page: Any) -> Call[Any] | None:  # noqa: ANN401 - an answer that has links
        """The call for the page that follows; None after the last."""
        href = next((link.href for link in page.links if link.rel == "next"), None)
        return None if href is None else replace(self.first, path=href, query={})


# --- clouds ----------------------------------------------------------------------------------------------------------


def create_cloud(cloud: str, policy: PolicyChange | None = None, *, at: datetime | None = None) -> Call[CloudAnswer]:
    """A new cloud. Conflict where one of that name exists."""
    body = {"name": cloud, "policy": policy, "at": at}
    return Call("POST", "/v1/clouds", CloudAnswer, body=_given(body), repeat=Repeat.ONCE)


def clouds(*, limit: int = PAGE, marker: str | None = None) -> Listing[CloudNameAnswer]:
    """All clouds that the token may see, by name."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", "/v1/clouds", CloudsAnswer, query), lambda page: page.clouds)


def cloud(cloud: str) -> Call[CloudAnswer]:
    """A cloud's policy, the end of its log, and what was asked of it so far."""
    return Call("GET", _cloud(cloud), CloudAnswer)


def change_policy(
    cloud: str, policy: PolicyChange, *, at: datetime | None = None, jump: bool | None = None
) -> Call[CloudAnswer]:
    """Change some fields of the SLA policy from now on. With `jump`, `at` may be further ahead than `clock_step_s`."""
    return Call("PATCH", _cloud(cloud), CloudAnswer, body=_given({"policy": policy, "at": at, "jump": jump}))


# --- nodes and flavors -----------------------------------------------------------------------------------------------


def add_node(cloud: str, node: str, capacity: Resources, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Add a node at the end of the node order; the same again changes nothing."""
    body = _given({"name": node, **capacity._asdict(), "at": at})
    return Call("POST", f"{_cloud(cloud)}/nodes", NodeAnswer, body=body)


def nodes(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[NodeAnswer]:
    """The cloud's nodes, in node order."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/nodes", NodesAnswer, query), lambda page: page.nodes)


def node(cloud: str, node: str) -> Call[NodeAnswer]:
    """A node, and what is free on it."""
    return Call("GET", _node(cloud, node), NodeAnswer)


def remove_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[RemovalAnswer]:
    """Remove a node; the spot instances on it are evicted. Conflict where on-demand instances run on it."""
    return Call("DELETE", _node(cloud, node), RemovalAnswer, _given({"at": at}), repeat=Repeat.ONCE)


def drain_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Have a node take no more placements."""
    return Call("POST", f"{_node(cloud, node)}/drain", NodeAnswer, _given({"at": at}))


def open_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Have a drained node take placements again."""
    return Call("POST", f"{_node(cloud, node)}/open", NodeAnswer, _given({"at": at}))


def add_flavor(cloud: str, flavor: str, demand: Resources, *, at: datetime | None = None) -> Call[FlavorAnswer]:
    """Add a flavor; the same again changes nothing."""
    body = _given({"name": flavor, **demand._asdict(), "at": at})
    return Call("POST", f"{_cloud(cloud)}/flavors", FlavorAnswer, body=body)


def flavors(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[FlavorAnswer]:
    """The cloud's flavors, and how many more instances of each fit now."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/flavors", FlavorsAnswer, query), lambda page: page.flavors)


def flavor(cloud: str, flavor: str) -> Call[FlavorAnswer]:
    """A flavor, and how many more instances of it fit now."""
    return Call("GET", f"{_cloud(cloud)}/flavors/{_quoted(flavor)}", FlavorAnswer)


# --- instances -------------------------------------------------------------------------------------------------------


def start(
    cloud: str,
    instance: str,
    market: str,
    flavor: str,
    *,
    lifetime_s: float | None = None,
    eviction_probability: float | None = None,
    at: datetime | None = None,
) -> Call[StartAnswer]:
    """Start an instance. The same again has the same answer; the same id with another body is a Conflict.

    A spot start declares its lifetime; `eviction_probability` is its own SLA, in place of the cloud's.
    """
    body = to_builtins(Start(instance, market, flavor, lifetime_s, eviction_probability, at))
    return Call("POST", f"{_cloud(cloud)}/instances", StartAnswer, body=body)


def stop(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Stop an instance; one that has ended stays as it is."""
    return Call("DELETE", _instance(cloud, instance), type(None), _given({"at": at}))


def batch(cloud: str, operations: Sequence[Start | Stop]) -> Call[BatchAnswer]:
    """Up to 1000 starts and stops, decided in order; each has its own result."""
    steps = [{_kind(operation): to_builtins(operation)} for operation in operations]
    return Call(
        "POST",
        f"{_cloud(cloud)}/batch",
        BatchAnswer,
        body={"operations": steps},
        unfinished=lambda answer: any(result.status == 503 for result in answer.results),
    )


def drill(cloud: str, instance: str | None = None, *, at: datetime | None = None) -> Call[DrillAnswer]:
    """Evict one spot instance on purpose, by default the one started last."""
    body = _given({"instance": instance, "at": at})
    return Call("POST", f"{_cloud(cloud)}/drill", DrillAnswer, body=body, repeat=Repeat.ONCE)


def drill_victim(cloud: str, instance: str | None = None) -> Call[InstanceAnswer]:
    """Return the instance that a drill would evict now; nothing is changed."""
    return Call("GET", f"{_cloud(cloud)}/drill", InstanceAnswer, _given({"instance": instance}))


def handovers(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[HandoverAnswer]:
    """Evictions that no controller has confirmed, by deadline."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/handovers", HandoversAnswer, query), lambda page: page.handovers)


def confirm_handover(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Say that an evicted instance is stopped; the same again changes nothing."""
    path = f"{_cloud(cloud)}/handovers/{_quoted(instance)}/confirm"
    return Call("POST", path, type(None), _given({"at": at}))


# --- webhooks --------------------------------------------------------------------------------------------------------


def create_webhook(
    cloud: str, url: str, *, kinds: Sequence[str] | None = None, after_seq: int | None = None
) -> Call[NewWebhookAnswer]:
    """Have events sent to a URL: of these kinds or of all, after a seq or from now on. The secret is shown once."""
    body = _given({"url": url, "kinds": None if kinds is None else list(kinds), "after_seq": after_seq})
    return Call("POST", f"{_cloud(cloud)}/webhooks", NewWebhookAnswer, body=body, repeat=Repeat.ONCE)


def webhooks(cloud: str, *, limit: int = PAGE, marker: int | None = None) -> Listing[WebhookAnswer]:
    """A cloud's webhooks, and how far each has got."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/webhooks", WebhooksAnswer, query), lambda page: page.webhooks)


def webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """A webhook, how far it has got, and what went wrong last."""
    return Call("GET", _webhook(cloud, webhook), WebhookAnswer)


def delete_webhook(cloud: str, webhook: str) -> Call[None]:
    """Send nothing more to it, and forget it with its dead letters."""
    return Call("DELETE", _webhook(cloud, webhook), type(None), repeat=Repeat.ONCE)


def pause_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Send nothing until it is resumed."""
    return Call("POST", f"{_webhook(cloud, webhook)}/pause", WebhookAnswer)


def resume_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Go on where it was paused."""
    return Call("POST", f"{_webhook(cloud, webhook)}/resume", WebhookAnswer)


def test_webhook(cloud: str, webhook: str) -> Call[TrialAnswer]:
    """Send one message that is no event, and tell how it was answered."""
    return Call("POST", f"{_webhook(cloud, webhook)}/test", TrialAnswer, repeat=Repeat.ONCE)


def dead_letters(cloud: str, webhook: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[DeadLetterAnswer]:
    """The events that the receiver did not take, in log order."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(Call("GET", f"{_webhook(cloud, webhook)}/dead", DeadLettersAnswer, query), lambda page: page.dead)


def replay_dead_letters(cloud: str, webhook: str, *, seqs: Sequence[int] | None = None) -> Call[ReplayAnswer]:
    """Have these dead letters, or all, tried once more."""
    body = _given({"seqs": None if seqs is None else list(seqs)})
    return Call("POST", f"{_webhook(cloud, webhook)}/replay", ReplayAnswer, body=body)


# --- what became of instances ----------------------------------------------------------------------------------------


def instances(
    cloud: str,
    *,
    status: str | None = None,
    market: str | None = None,
    limit: int = PAGE,
    marker: str | None = None,
) -> Listing[InstanceAnswer]:
    """Instances in the order of their starts, rejected ones among them."""
    query = _given({"status": status, "market": market, "limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/instances", InstancesAnswer, query), lambda page: page.instances)


def instance(cloud: str, instance: str) -> Call[InstanceAnswer]:
    """The decision on an instance's start, and how it ended."""
    return Call("GET", _instance(cloud, instance), InstanceAnswer)


def explain(cloud: str, instance: str) -> Call[ExplanationAnswer]:
    """Why an instance was accepted, rejected or evicted, in fields and in sentences."""
    return Call("GET", f"{_instance(cloud, instance)}/explanation", ExplanationAnswer)


def decisions(
    cloud: str,
    *,
    before_seq: int | None = None,
    outcome: str | None = None,
    market: str | None = None,
    limit: int = 100,
) -> Listing[DecisionAnswer]:
    """Decisions with their reasons, newest first."""
    query = _given({"before_seq": before_seq, "outcome": outcome, "market": market, "limit": limit})
    return Listing(Call("GET", f"{_cloud(cloud)}/decisions", DecisionsAnswer, query), lambda page: page.decisions)


# --- quotes, tables, runs --------------------------------------------------------------------------------------------


def quotes(
    cloud: str,
    *,
    flavor: str | None = None,
    eviction_probability: float | None = None,
    lifetime_s: float | None = None,
    slots: int | None = None,
) -> Call[QuotesAnswer]:
    """What the newest table says now, of one flavor or of all."""
    query = {
        "flavor": flavor,
        "eviction_probability": eviction_probability,
        "lifetime_s": None if lifetime_s is None else _seconds_text(lifetime_s),
        "slots": slots,
    }
    return Call("GET", f"{_cloud(cloud)}/quotes", QuotesAnswer, _given(query))


def request_table(cloud: str) -> Call[RunAnswer]:
    """Ask the workers for a table of the history so far."""
    return Call("POST", f"{_cloud(cloud)}/tables", RunAnswer, repeat=Repeat.ONCE)


def tables(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[TableSummaryAnswer]:
    """Published tables without their curves, newest first."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/tables", TablesAnswer, query), lambda page: page.tables)


def newest_table(cloud: str, *, flavor: str | None = None) -> Call[TableAnswer]:
    """The newest table with its curves."""
    return Call("GET", f"{_cloud(cloud)}/tables/newest", TableAnswer, _given({"flavor": flavor}))


def table(cloud: str, epoch: int, *, flavor: str | None = None) -> Call[TableAnswer]:
    """The table of an epoch with its curves."""
    return Call("GET", f"{_cloud(cloud)}/tables/{epoch:d}", TableAnswer, _given({"flavor": flavor}))


def runs(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[RunAnswer]:
    """Computations of tables, newest first."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/runs", RunsAnswer, query), lambda page: page.runs)


def run(cloud: str, run: int) -> Call[RunAnswer]:
    """One computation of a table."""
    return Call("GET", f"{_cloud(cloud)}/runs/{run:d}", RunAnswer)


def reliability(cloud: str, *, after_seq: int | None = None) -> Call[ReliabilityAnswer]:
    """Promised probabilities against what happened, in the stretch of the log after a seq or in the newest."""
    return Call("GET", f"{_cloud(cloud)}/reliability", ReliabilityAnswer, _given({"after_seq": after_seq}))


def sla(cloud: str) -> Call[SlaAnswer]:
    """How many of each SLA class were admitted and evicted since the cloud began, and what is left of its budget."""
    return Call("GET", f"{_cloud(cloud)}/sla", SlaAnswer)


def utilisation(
    cloud: str,
    *,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    points: int = 300,
    node: str | None = None,
) -> Call[UtilisationAnswer]:
    """What of the cores was in use over time, of the cloud or of one node; by default in the last day."""
    query = {"begin_at": begin_at, "end_at": end_at, "points": points, "node": node}
    return Call("GET", f"{_cloud(cloud)}/utilisation", UtilisationAnswer, _given(query))


# --- events ----------------------------------------------------------------------------------------------------------


def events(cloud: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[EventAnswer]:
    """The log's events after a seq, up to its present end."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(
        Call("GET", f"{_cloud(cloud)}/events", EventsAnswer, query), lambda page: [*map(event_of, page.events)]
    )


def event_stream(cloud: str, *, after_seq: int = 0, limit: int | None = None) -> Call[str]:
    """The log's events after a seq as server-sent events, and each later one when it comes."""
    return Call("GET", f"{_cloud(cloud)}/events/stream", str, _given({"after_seq": after_seq, "limit": limit}))


# --- the service -----------------------------------------------------------------------------------------------------


def create_token(
    name: str, role: str, *, cloud: str | None = None, expires_in_s: float | None = None
) -> Call[NewTokenAnswer]:
    """A new token; the token itself is in the answer, this once."""
    body = _given({"name": name, "role": role, "cloud": cloud, "expires_in_s": expires_in_s})
    return Call("POST", "/v1/tokens", NewTokenAnswer, body=body, repeat=Repeat.ONCE)


def tokens(*, limit: int = PAGE, marker: int | None = None) -> Listing[TokenAnswer]:
    """All tokens, newest first, those expired and revoked among them."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", "/v1/tokens", TokensAnswer, query), lambda page: page.tokens)


def token(token: str) -> Call[TokenAnswer]:
    """What is known of a token, by its id."""
    return Call("GET", f"/v1/tokens/{_quoted(token)}", TokenAnswer)


def revoke_token(token: str) -> Call[None]:
    """Take a token no more, by its id; one that is revoked stays so."""
    return Call("DELETE", f"/v1/tokens/{_quoted(token)}", type(None))


def versions() -> Call[VersionsAnswer]:
    """The versions of the interface."""
    return Call("GET", "/", VersionsAnswer)


def health() -> Call[str]:
    """`OK`; ServiceUnreachable with the reason where the service cannot answer."""
    return Call("GET", "/healthcheck", str)


def readiness() -> Call[ReadinessAnswer]:
    """Whether the database answers, and how old each cloud's newest table is."""
    return Call("GET", "/readiness", ReadinessAnswer, also=frozenset({503}))


def process_metrics() -> Call[str]:
    """The metrics of the process that answers, in Prometheus' text format."""
    return Call("GET", "/metrics", str)


def cloud_metrics() -> Call[str]:
    """The metrics of all clouds, in Prometheus' text format."""
    return Call("GET", "/metrics/clouds", str)


# --- words -----------------------------------------------------------------------------------------------------------


def _cloud(name: str) -> str:
    return f"/v1/clouds/{_quoted(name)}"


def _node(cloud: str, name: str) -> str:
    return f"{_cloud(cloud)}/nodes/{_quoted(name)}"


def _instance(cloud: str, name: str) -> str:
    return f"{_cloud(cloud)}/instances/{_quoted(name)}"


def _webhook(cloud: str, webhook: str) -> str:
    return f"{_cloud(cloud)}/webhooks/{_quoted(webhook)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _kind(operation: Start | Stop) -> str:
    return "stop" if isinstance(operation, Stop) else "start"


def _seconds_text(seconds: float) -> str:
    """The number as a query takes it: exact to the microsecond, without an exponent."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _given(values: Mapping[str, Any]) -> Json:
    """Those that are there; times as RFC 3339."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }
