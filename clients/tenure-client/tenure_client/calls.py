"""Every operation of the service as a value: what to send, what comes back, and whether it may be sent twice.

Nothing here sends anything, so the one description serves both clients; see `api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

from msgspec import to_builtins

from tenure_client import forms
from tenure_client.forms import Event, Json, Resources, Start, Stop, event_of

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

    def after(self, page: forms.Page) -> Call[Any] | None:
        """The call for the page that follows; None after the last."""
        href = page.next_href
        return None if href is None else replace(self.first, path=href, query={})


class PolicyChange(TypedDict, total=False):
    """Fields of an SLA policy as the HTTP interface names them; what is left out stays, or has its default."""

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


# --- clouds ----------------------------------------------------------------------------------------------------------


def create_cloud(cloud: str, policy: PolicyChange | None = None, *, at: datetime | None = None) -> Call[forms.Cloud]:
    """A new cloud. Conflict where one of that name exists."""
    body = {"name": cloud, "policy": policy, "at": at}
    return Call("POST", "/v1/clouds", forms.Cloud, body=_given(body), repeat=Repeat.ONCE)


def clouds(*, limit: int = PAGE, marker: str | None = None) -> Listing[forms.CloudName]:
    """All clouds that the token may see, by name."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", "/v1/clouds", forms.CloudsPage, query), lambda page: page.clouds)


def cloud(cloud: str) -> Call[forms.Cloud]:
    """A cloud's policy, the end of its log, and what was asked of it so far."""
    return Call("GET", _cloud(cloud), forms.Cloud)


def change_policy(cloud: str, policy: PolicyChange, *, at: datetime | None = None) -> Call[forms.Cloud]:
    """Change some fields of the SLA policy from now on."""
    return Call("PATCH", _cloud(cloud), forms.Cloud, body=_given({"policy": policy, "at": at}))


# --- nodes and flavors -----------------------------------------------------------------------------------------------


def add_node(cloud: str, node: str, capacity: Resources, *, at: datetime | None = None) -> Call[forms.Node]:
    """Add a node at the end of the node order; the same again changes nothing."""
    body = _given({"name": node, **to_builtins(capacity), "at": at})
    return Call("POST", f"{_cloud(cloud)}/nodes", forms.Node, body=body)


def nodes(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[forms.Node]:
    """The cloud's nodes, in node order."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/nodes", forms.NodesPage, query), lambda page: page.nodes)


def node(cloud: str, node: str) -> Call[forms.Node]:
    """A node, and what is free on it."""
    return Call("GET", _node(cloud, node), forms.Node)


def remove_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[forms.Removal]:
    """Remove a node; the spot instances on it are evicted. Conflict where on-demand instances run on it."""
    return Call("DELETE", _node(cloud, node), forms.Removal, _given({"at": at}), repeat=Repeat.ONCE)


def drain_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[forms.Node]:
    """Have a node take no more placements."""
    return Call("POST", f"{_node(cloud, node)}/drain", forms.Node, _given({"at": at}))


def open_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[forms.Node]:
    """Have a drained node take placements again."""
    return Call("POST", f"{_node(cloud, node)}/open", forms.Node, _given({"at": at}))


def add_flavor(cloud: str, flavor: str, demand: Resources, *, at: datetime | None = None) -> Call[forms.Flavor]:
    """Add a flavor; the same again changes nothing."""
    body = _given({"name": flavor, **to_builtins(demand), "at": at})
    return Call("POST", f"{_cloud(cloud)}/flavors", forms.Flavor, body=body)


def flavors(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[forms.Flavor]:
    """The cloud's flavors, and how many more instances of each fit now."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/flavors", forms.FlavorsPage, query), lambda page: page.flavors)


def flavor(cloud: str, flavor: str) -> Call[forms.Flavor]:
    """A flavor, and how many more instances of it fit now."""
    return Call("GET", f"{_cloud(cloud)}/flavors/{_quoted(flavor)}", forms.Flavor)


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
) -> Call[forms.Decision]:
    """Start an instance. The same again has the same answer; the same id with another body is a Conflict.

    A spot start declares its lifetime; `eviction_probability` is its own SLA, in place of the cloud's.
    """
    body = to_builtins(Start(instance, market, flavor, lifetime_s, eviction_probability, at))
    return Call("POST", f"{_cloud(cloud)}/instances", forms.Decision, body=body)


def stop(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Stop an instance; one that has ended stays as it is."""
    return Call("DELETE", _instance(cloud, instance), type(None), _given({"at": at}))


def batch(cloud: str, operations: Sequence[Start | Stop]) -> Call[forms.BatchAnswer]:
    """Up to 1000 starts and stops, decided in order; each has its own result."""
    steps = [{_kind(operation): to_builtins(operation)} for operation in operations]
    return Call(
        "POST",
        f"{_cloud(cloud)}/batch",
        forms.BatchAnswer,
        body={"operations": steps},
        unfinished=lambda answer: any(result.status == 503 for result in answer.results),
    )


def drill(cloud: str, instance: str | None = None, *, at: datetime | None = None) -> Call[forms.Drilled]:
    """Evict one spot instance on purpose, by default the one started last."""
    body = _given({"instance": instance, "at": at})
    return Call("POST", f"{_cloud(cloud)}/drill", forms.Drilled, body=body, repeat=Repeat.ONCE)


def drill_victim(cloud: str, instance: str | None = None) -> Call[forms.Instance]:
    """Return the instance that a drill would evict now; nothing is changed."""
    return Call("GET", f"{_cloud(cloud)}/drill", forms.Instance, _given({"instance": instance}))


def handovers(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[forms.Handover]:
    """Evictions that no controller has confirmed, by deadline."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/handovers", forms.HandoversPage, query), lambda page: page.handovers)


def confirm_handover(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Say that an evicted instance is stopped; the same again changes nothing."""
    path = f"{_cloud(cloud)}/handovers/{_quoted(instance)}/confirm"
    return Call("POST", path, type(None), _given({"at": at}))


# --- webhooks --------------------------------------------------------------------------------------------------------


def create_webhook(
    cloud: str, url: str, *, kinds: Sequence[str] | None = None, after_seq: int | None = None
) -> Call[forms.NewWebhook]:
    """Have events sent to a URL: of these kinds or of all, after a seq or from now on. The secret is shown once."""
    body = _given({"url": url, "kinds": None if kinds is None else list(kinds), "after_seq": after_seq})
    return Call("POST", f"{_cloud(cloud)}/webhooks", forms.NewWebhook, body=body, repeat=Repeat.ONCE)


def webhooks(cloud: str, *, limit: int = PAGE, marker: int | None = None) -> Listing[forms.Webhook]:
    """A cloud's webhooks, and how far each has got."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/webhooks", forms.WebhooksPage, query), lambda page: page.webhooks)


def webhook(cloud: str, webhook: str) -> Call[forms.Webhook]:
    """A webhook, how far it has got, and what went wrong last."""
    return Call("GET", _webhook(cloud, webhook), forms.Webhook)


def delete_webhook(cloud: str, webhook: str) -> Call[None]:
    """Send nothing more to it, and forget it with its dead letters."""
    return Call("DELETE", _webhook(cloud, webhook), type(None), repeat=Repeat.ONCE)


def pause_webhook(cloud: str, webhook: str) -> Call[forms.Webhook]:
    """Send nothing until it is resumed."""
    return Call("POST", f"{_webhook(cloud, webhook)}/pause", forms.Webhook)


def resume_webhook(cloud: str, webhook: str) -> Call[forms.Webhook]:
    """Go on where it was paused."""
    return Call("POST", f"{_webhook(cloud, webhook)}/resume", forms.Webhook)


def test_webhook(cloud: str, webhook: str) -> Call[forms.Trial]:
    """Send one message that is no event, and tell how it was answered."""
    return Call("POST", f"{_webhook(cloud, webhook)}/test", forms.Trial, repeat=Repeat.ONCE)


def dead_letters(cloud: str, webhook: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[forms.DeadLetter]:
    """The events that the receiver did not take, in log order."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(
        Call("GET", f"{_webhook(cloud, webhook)}/dead", forms.DeadLettersPage, query), lambda page: page.dead
    )


def replay_dead_letters(cloud: str, webhook: str, *, seqs: Sequence[int] | None = None) -> Call[forms.Replayed]:
    """Have these dead letters, or all, tried once more."""
    body = _given({"seqs": None if seqs is None else list(seqs)})
    return Call("POST", f"{_webhook(cloud, webhook)}/replay", forms.Replayed, body=body)


# --- what became of instances ----------------------------------------------------------------------------------------


def instances(
    cloud: str,
    *,
    status: str | None = None,
    market: str | None = None,
    limit: int = PAGE,
    marker: str | None = None,
) -> Listing[forms.Instance]:
    """Instances in the order of their starts, rejected ones among them."""
    query = _given({"status": status, "market": market, "limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/instances", forms.InstancesPage, query), lambda page: page.instances)


def instance(cloud: str, instance: str) -> Call[forms.Instance]:
    """The decision on an instance's start, and how it ended."""
    return Call("GET", _instance(cloud, instance), forms.Instance)


def explain(cloud: str, instance: str) -> Call[forms.Explanation]:
    """Why an instance was accepted, rejected or evicted, in fields and in sentences."""
    return Call("GET", f"{_instance(cloud, instance)}/explanation", forms.Explanation)


def decisions(
    cloud: str,
    *,
    before_seq: int | None = None,
    outcome: str | None = None,
    market: str | None = None,
    limit: int = 100,
) -> Listing[forms.Decided]:
    """Decisions with their reasons, newest first."""
    query = _given({"before_seq": before_seq, "outcome": outcome, "market": market, "limit": limit})
    return Listing(Call("GET", f"{_cloud(cloud)}/decisions", forms.DecisionsPage, query), lambda page: page.decisions)


# --- quotes, tables, runs --------------------------------------------------------------------------------------------


def quotes(
    cloud: str,
    *,
    flavor: str | None = None,
    eviction_probability: float | None = None,
    lifetime_s: float | None = None,
    slots: int | None = None,
) -> Call[forms.Quotes]:
    """What the newest table says now, of one flavor or of all."""
    query = {
        "flavor": flavor,
        "eviction_probability": eviction_probability,
        "lifetime_s": None if lifetime_s is None else _seconds_text(lifetime_s),
        "slots": slots,
    }
    return Call("GET", f"{_cloud(cloud)}/quotes", forms.Quotes, _given(query))


def request_table(cloud: str) -> Call[forms.Run]:
    """Ask the workers for a table of the history so far."""
    return Call("POST", f"{_cloud(cloud)}/tables", forms.Run, repeat=Repeat.ONCE)


def tables(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[forms.TableSummary]:
    """Published tables without their curves, newest first."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/tables", forms.TablesPage, query), lambda page: page.tables)


def newest_table(cloud: str, *, flavor: str | None = None) -> Call[forms.Table]:
    """The newest table with its curves."""
    return Call("GET", f"{_cloud(cloud)}/tables/newest", forms.Table, _given({"flavor": flavor}))


def table(cloud: str, epoch: int, *, flavor: str | None = None) -> Call[forms.Table]:
    """The table of an epoch with its curves."""
    return Call("GET", f"{_cloud(cloud)}/tables/{epoch:d}", forms.Table, _given({"flavor": flavor}))


def runs(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[forms.Run]:
    """Computations of tables, newest first."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", f"{_cloud(cloud)}/runs", forms.RunsPage, query), lambda page: page.runs)


def run(cloud: str, run: int) -> Call[forms.Run]:
    """One computation of a table."""
    return Call("GET", f"{_cloud(cloud)}/runs/{run:d}", forms.Run)


def reliability(cloud: str, *, after_seq: int | None = None) -> Call[forms.Reliability]:
    """Promised probabilities against what happened, in the stretch of the log after a seq or in the newest."""
    return Call("GET", f"{_cloud(cloud)}/reliability", forms.Reliability, _given({"after_seq": after_seq}))


def sla(cloud: str) -> Call[forms.Sla]:
    """How many of each SLA class were admitted and evicted since the cloud began, and what is left of its budget."""
    return Call("GET", f"{_cloud(cloud)}/sla", forms.Sla)


def utilisation(
    cloud: str,
    *,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    points: int = 300,
    node: str | None = None,
) -> Call[forms.Utilisation]:
    """What of the cores was in use over time, of the cloud or of one node; by default in the last day."""
    query = {"begin_at": begin_at, "end_at": end_at, "points": points, "node": node}
    return Call("GET", f"{_cloud(cloud)}/utilisation", forms.Utilisation, _given(query))


# --- events ----------------------------------------------------------------------------------------------------------


def events(cloud: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[Event]:
    """The log's events after a seq, up to its present end."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(
        Call("GET", f"{_cloud(cloud)}/events", forms.EventsPage, query), lambda page: [*map(event_of, page.events)]
    )


def event_stream(cloud: str, *, after_seq: int = 0, limit: int | None = None) -> Call[str]:
    """The log's events after a seq as server-sent events, and each later one when it comes."""
    return Call("GET", f"{_cloud(cloud)}/events/stream", str, _given({"after_seq": after_seq, "limit": limit}))


# --- the service -----------------------------------------------------------------------------------------------------


def create_token(
    name: str, role: str, *, cloud: str | None = None, expires_in_s: float | None = None
) -> Call[forms.NewToken]:
    """A new token; the token itself is in the answer, this once."""
    body = _given({"name": name, "role": role, "cloud": cloud, "expires_in_s": expires_in_s})
    return Call("POST", "/v1/tokens", forms.NewToken, body=body, repeat=Repeat.ONCE)


def tokens(*, limit: int = PAGE, marker: int | None = None) -> Listing[forms.Token]:
    """All tokens, newest first, those expired and revoked among them."""
    query = _given({"limit": limit, "marker": marker})
    return Listing(Call("GET", "/v1/tokens", forms.TokensPage, query), lambda page: page.tokens)


def token(token: str) -> Call[forms.Token]:
    """What is known of a token, by its id."""
    return Call("GET", f"/v1/tokens/{_quoted(token)}", forms.Token)


def revoke_token(token: str) -> Call[None]:
    """Take a token no more, by its id; one that is revoked stays so."""
    return Call("DELETE", f"/v1/tokens/{_quoted(token)}", type(None))


def versions() -> Call[forms.Versions]:
    """The versions of the interface."""
    return Call("GET", "/", forms.Versions)


def health() -> Call[str]:
    """`OK`; ServiceUnreachable with the reason where the service cannot answer."""
    return Call("GET", "/healthcheck", str)


def readiness() -> Call[forms.Readiness]:
    """Whether the database answers, and how old each cloud's newest table is."""
    return Call("GET", "/readiness", forms.Readiness, also=frozenset({503}))


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
