"""The table of all endpoints, for server and client, and the calls made from them.

Nothing here sends anything, so one description serves both clients; see `client`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from tenure_client.bodies import is_unicode
from tenure_client.errors import NameInvalid
from tenure_client.forms.advice import BidAdviceAnswer, CheckpointAdviceAnswer
from tenure_client.forms.answer import Json
from tenure_client.forms.clouds import CloudAnswer, CloudsAnswer
from tenure_client.forms.clusters import (
    ClusterAnswer,
    ClusterCheckpointsAnswer,
    ClusterCostAnswer,
    ClusterEventsAnswer,
    ClusterJobsAnswer,
    ClusterNodesAnswer,
    ClustersAnswer,
    ToldEventsAnswer,
)
from tenure_client.forms.decisions import DecisionsAnswer, ExplanationAnswer
from tenure_client.forms.events import EventsAnswer
from tenure_client.forms.forecasts import CurvesAnswer, QuotesAnswer, RunAnswer, RunsAnswer, TableAnswer, TablesAnswer
from tenure_client.forms.instances import (
    BatchAnswer,
    DrillAnswer,
    ExtensionAnswer,
    HandoversAnswer,
    InstanceAnswer,
    InstancesAnswer,
    MoveAnswer,
    ObservationAnswer,
    ProposalsAnswer,
    StartAnswer,
)
from tenure_client.forms.jobs import AttemptsAnswer, JobAnswer, JobsAnswer
from tenure_client.forms.nodes import FlavorAnswer, FlavorsAnswer, NodeAnswer, NodesAnswer, RemovalAnswer, ResizeAnswer
from tenure_client.forms.owners import OwnerAnswer, OwnersAnswer
from tenure_client.forms.peers import (
    MadeOutputsAnswer,
    OfferWordAnswer,
    PeerAnswer,
    PeerPromiseAnswer,
    PeersAnswer,
    PeerStandingAnswer,
    PeerTrialAnswer,
)
from tenure_client.forms.plans import (
    JobMoveAnswer,
    PeerReliabilityAnswer,
    PlanAnswer,
    PlanOutcomeAnswer,
    PlansAnswer,
    VenueReliabilityAnswer,
)
from tenure_client.forms.promises import ReliabilityAnswer, SlaAnswer, UtilisationAnswer
from tenure_client.forms.service import NewTokenAnswer, ReadinessAnswer, TokenAnswer, TokensAnswer, VersionsAnswer
from tenure_client.forms.venues import (
    ObservedAnswer,
    PoolPricesAnswer,
    PoolsAnswer,
    PoolSurvivalAnswer,
    VenueAnswer,
    VenueQuotesAnswer,
    VenuesAnswer,
)
from tenure_client.forms.webhooks import (
    DeadLettersAnswer,
    NewWebhookAnswer,
    ReplayAnswer,
    TrialAnswer,
    WebhookAnswer,
    WebhooksAnswer,
)

T = TypeVar("T")


class Repeat(Enum):
    """The rule for repeating a request whose outcome is unknown."""

    SAFE = "safe"
    """A repeated request changes nothing more and has the same answer."""
    ONCE = "once"
    """The request is repeated only if it was certainly not accepted."""


class Chapter(StrEnum):
    """The chapters of the interface's documentation."""

    CLOUDS = "clouds"
    NODES = "nodes"
    FLAVORS = "flavors"
    INSTANCES = "instances"
    JOBS = "jobs"
    PEERS = "peers"
    QUOTES = "quotes"
    EVENTS = "events"
    WEBHOOKS = "webhooks"
    VENUES = "venues"
    CLUSTERS = "clusters"
    PLANS = "plans"
    TOKENS = "tokens"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[T]):
    """One method of one path. `answer` is the form of the answer: str is the text as it is, None is nothing.

    `status` is that of success. `also`: error statuses whose body is still read as `answer`. `is_unfinished` tells from
    an answer that a part of the request was not decided, so that all of it is to be sent again.
    """

    method: str
    path: str
    answer: type[T]
    chapter: Chapter
    summary: str
    status: int = 200
    repeat: Repeat = Repeat.SAFE
    also: frozenset[int] = frozenset()
    is_unfinished: Callable[[T], bool] | None = None

    def call(
        self, *, query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None, **places: str | int
    ) -> Call[T]:
        """Return a request to the path with these places. None in query or body is left out. Raise NameInvalid."""
        path = self.path.format(**{name: _in_path(name, str(place)) for name, place in places.items()})
        return Call(self, path, _given(query or {}), None if body is None else _given(body))


_FOLDERS = {"", ".", ".."}


def _in_path(kind: str, text: str) -> str:
    """Return a name or an id as a path holds it."""
    if text in _FOLDERS or "/" in text or not is_unicode(text):
        raise NameInvalid(f"{text!r} is not the name or id of {'an' if kind[0] in 'aeio' else 'a'} {kind}")
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request."""

    endpoint: Endpoint[T]
    path: str
    query: Json
    body: Json | None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that comes in pages: the call for its first page, and the items of any page."""

    first: Call[Any]
    items: Callable[[Any], Sequence[T]]

    def after(self, page: Any) -> Call[Any] | None:  # noqa: ANN401 - an answer that has links
        """Return the call for the next page; None after the last one."""
        href = next((link.href for link in page.links if link.rel == "next"), None)
        return None if href is None else replace(self.first, path=href, query={})


def _given(values: Mapping[str, Any]) -> Json:
    """Return the fields that are given, with times as RFC 3339."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


EPOCHS_CROSSED = "preemptible.batch.epochs_crossed"
"""The code of operations that a batch leaves undecided because it needs the tables of several epochs."""


def _is_unfinished(answer: BatchAnswer) -> bool:
    """Return True if the whole batch is sent again. A rest that waits for another table is not: that takes long."""
    return any(
        result.status == 503 and (result.error is None or result.error.code != EPOCHS_CROSSED)
        for result in answer.results
    )


NOTHING = type(None)
_CLOUD = "/v1/clouds/{cloud}"
_NODE = f"{_CLOUD}/nodes/{{node}}"
_INSTANCE = f"{_CLOUD}/instances/{{instance}}"
_LONGER = f"{_CLOUD}/instances/{{spot}}/extend"
_WEBHOOK = f"{_CLOUD}/webhooks/{{webhook}}"

START = Endpoint("POST", f"{_CLOUD}/instances", StartAnswer, Chapter.INSTANCES, "Start an instance", 201)
STOP = Endpoint("DELETE", _INSTANCE, NOTHING, Chapter.INSTANCES, "Stop an instance", 204)
EXTEND = Endpoint(
    "POST",
    f"{_CLOUD}/instances/{{spot}}/extend",
    ExtensionAnswer,
    Chapter.INSTANCES,
    "Promise a running instance a longer lifetime",
)
EXTENSION_QUOTE = Endpoint(
    "GET",
    f"{_CLOUD}/instances/{{spot}}/extend",
    ExtensionAnswer,
    Chapter.INSTANCES,
    "Ask whether a longer lifetime could be promised",
)
CHECKPOINT_ADVICE = Endpoint(
    "GET",
    f"{_CLOUD}/instances/{{spot}}/checkpoint-advice",
    CheckpointAdviceAnswer,
    Chapter.INSTANCES,
    "Ask when a job on an instance should be checkpointed",
)
FLAVOR_CHECKPOINT_ADVICE = Endpoint(
    "GET",
    f"{_CLOUD}/checkpoint-advice",
    CheckpointAdviceAnswer,
    Chapter.INSTANCES,
    "Ask when a job on an instance of a flavor would be checkpointed",
)
MOVE = Endpoint(
    "POST", f"{_INSTANCE}/move", MoveAnswer, Chapter.INSTANCES, "Say that an instance runs on another node now"
)
OBSERVE_INSTANCE = Endpoint(
    "POST", f"{_INSTANCE}/observe", ObservationAnswer, Chapter.INSTANCES, "Say where an on-demand instance runs"
)
ABORT_INSTANCE = Endpoint(
    "POST", f"{_INSTANCE}/abort", NOTHING, Chapter.INSTANCES, "Say that an instance never ran", 204
)
PROPOSALS = Endpoint(
    "GET", f"{_CLOUD}/proposals", ProposalsAnswer, Chapter.INSTANCES, "Ask for moves in place of evictions"
)
BATCH = Endpoint(
    "POST",
    f"{_CLOUD}/batch",
    BatchAnswer,
    Chapter.INSTANCES,
    "Start, stop, extend and move many instances",
    is_unfinished=_is_unfinished,
)
INSTANCES = Endpoint("GET", f"{_CLOUD}/instances", InstancesAnswer, Chapter.INSTANCES, "List instances")
INSTANCE = Endpoint("GET", _INSTANCE, InstanceAnswer, Chapter.INSTANCES, "Show an instance")
EXPLAIN = Endpoint("GET", f"{_INSTANCE}/explanation", ExplanationAnswer, Chapter.INSTANCES, "Explain an instance")
DECISIONS = Endpoint("GET", f"{_CLOUD}/decisions", DecisionsAnswer, Chapter.INSTANCES, "List the newest decisions")
DRILL_VICTIM = Endpoint(
    "GET", f"{_CLOUD}/drill", InstanceAnswer, Chapter.INSTANCES, "Show the instance that a drill would evict"
)
DRILL = Endpoint(
    "POST", f"{_CLOUD}/drill", DrillAnswer, Chapter.INSTANCES, "Evict an instance as a drill", repeat=Repeat.ONCE
)
QUOTES = Endpoint("GET", f"{_CLOUD}/quotes", QuotesAnswer, Chapter.QUOTES, "Ask for quotes")
CURVES = Endpoint("GET", f"{_CLOUD}/curves", CurvesAnswer, Chapter.QUOTES, "See the curves of the forecast in force")
EVENTS = Endpoint("GET", f"{_CLOUD}/events", EventsAnswer, Chapter.EVENTS, "Read the event log")
EVENT_STREAM = Endpoint("GET", f"{_CLOUD}/events/stream", str, Chapter.EVENTS, "Follow the event log")
CREATE_CLOUD = Endpoint("POST", "/v1/clouds", CloudAnswer, Chapter.CLOUDS, "Create a cloud", 201, repeat=Repeat.ONCE)
CLOUDS = Endpoint("GET", "/v1/clouds", CloudsAnswer, Chapter.CLOUDS, "List clouds")
CLOUD = Endpoint("GET", _CLOUD, CloudAnswer, Chapter.CLOUDS, "Show a cloud")
CHANGE_POLICY = Endpoint("PATCH", _CLOUD, CloudAnswer, Chapter.CLOUDS, "Change a cloud's SLA policy")
ADD_NODE = Endpoint("POST", f"{_CLOUD}/nodes", NodeAnswer, Chapter.NODES, "Add a node", 201)
NODES = Endpoint("GET", f"{_CLOUD}/nodes", NodesAnswer, Chapter.NODES, "List nodes")
NODE = Endpoint("GET", _NODE, NodeAnswer, Chapter.NODES, "Show a node")
REMOVE_NODE = Endpoint("DELETE", _NODE, RemovalAnswer, Chapter.NODES, "Remove a node", repeat=Repeat.ONCE)
DRAIN_NODE = Endpoint("POST", f"{_NODE}/drain", NodeAnswer, Chapter.NODES, "Drain a node")
OPEN_NODE = Endpoint("POST", f"{_NODE}/open", NodeAnswer, Chapter.NODES, "Open a drained node")
RESIZE_NODE = Endpoint("POST", f"{_NODE}/resize", ResizeAnswer, Chapter.NODES, "Let a node have another capacity")
ADD_FLAVOR = Endpoint("POST", f"{_CLOUD}/flavors", FlavorAnswer, Chapter.FLAVORS, "Add a flavor", 201)
FLAVORS = Endpoint("GET", f"{_CLOUD}/flavors", FlavorsAnswer, Chapter.FLAVORS, "List flavors")
FLAVOR = Endpoint("GET", f"{_CLOUD}/flavors/{{flavor}}", FlavorAnswer, Chapter.FLAVORS, "Show a flavor")
OWNERS = Endpoint("GET", f"{_CLOUD}/owners", OwnersAnswer, Chapter.INSTANCES, "List owners of spot instances")
SET_QUOTA = Endpoint("POST", f"{_CLOUD}/owners/{{owner}}/quota", OwnerAnswer, Chapter.INSTANCES, "Set an owner's quota")
REMOVE_QUOTA = Endpoint(
    "DELETE", f"{_CLOUD}/owners/{{owner}}/quota", NOTHING, Chapter.INSTANCES, "Remove an owner's quota", 204
)
REQUEST_TABLE = Endpoint(
    "POST", f"{_CLOUD}/tables", RunAnswer, Chapter.QUOTES, "Ask for a new quantile table", 202, repeat=Repeat.ONCE
)
TABLES = Endpoint("GET", f"{_CLOUD}/tables", TablesAnswer, Chapter.QUOTES, "List quantile tables")
NEWEST_TABLE = Endpoint("GET", f"{_CLOUD}/tables/newest", TableAnswer, Chapter.QUOTES, "Show the newest quantile table")
TABLE = Endpoint("GET", f"{_CLOUD}/tables/{{epoch}}", TableAnswer, Chapter.QUOTES, "Show a quantile table")
RUNS = Endpoint("GET", f"{_CLOUD}/runs", RunsAnswer, Chapter.QUOTES, "List runs")
RUN = Endpoint("GET", f"{_CLOUD}/runs/{{run}}", RunAnswer, Chapter.QUOTES, "Show a run")
RELIABILITY = Endpoint(
    "GET", f"{_CLOUD}/reliability", ReliabilityAnswer, Chapter.QUOTES, "Compare promises and what happened"
)
HANDOVERS = Endpoint("GET", f"{_CLOUD}/handovers", HandoversAnswer, Chapter.INSTANCES, "List hand-overs")
CONFIRM_HANDOVER = Endpoint(
    "POST", f"{_CLOUD}/handovers/{{handover}}/confirm", NOTHING, Chapter.INSTANCES, "Confirm a hand-over", 204
)
CREATE_WEBHOOK = Endpoint(
    "POST", f"{_CLOUD}/webhooks", NewWebhookAnswer, Chapter.WEBHOOKS, "Create a webhook", 201, repeat=Repeat.ONCE
)
WEBHOOKS = Endpoint("GET", f"{_CLOUD}/webhooks", WebhooksAnswer, Chapter.WEBHOOKS, "List webhooks")
WEBHOOK = Endpoint("GET", _WEBHOOK, WebhookAnswer, Chapter.WEBHOOKS, "Show a webhook")
DELETE_WEBHOOK = Endpoint("DELETE", _WEBHOOK, NOTHING, Chapter.WEBHOOKS, "Delete a webhook", 204, repeat=Repeat.ONCE)
PAUSE_WEBHOOK = Endpoint("POST", f"{_WEBHOOK}/pause", WebhookAnswer, Chapter.WEBHOOKS, "Pause a webhook")
RESUME_WEBHOOK = Endpoint("POST", f"{_WEBHOOK}/resume", WebhookAnswer, Chapter.WEBHOOKS, "Resume a webhook")
TEST_WEBHOOK = Endpoint("POST", f"{_WEBHOOK}/test", TrialAnswer, Chapter.WEBHOOKS, "Test a webhook", repeat=Repeat.ONCE)
DEAD_LETTERS = Endpoint("GET", f"{_WEBHOOK}/dead", DeadLettersAnswer, Chapter.WEBHOOKS, "List dead letters")
REPLAY_DEAD_LETTERS = Endpoint("POST", f"{_WEBHOOK}/replay", ReplayAnswer, Chapter.WEBHOOKS, "Replay dead letters", 202)
_JOB = f"{_CLOUD}/jobs/{{job}}"
SUBMIT_JOB = Endpoint("POST", f"{_CLOUD}/jobs", JobAnswer, Chapter.JOBS, "Submit a job", 201)
JOBS = Endpoint("GET", f"{_CLOUD}/jobs", JobsAnswer, Chapter.JOBS, "List jobs")
JOB = Endpoint("GET", _JOB, JobAnswer, Chapter.JOBS, "Show a job")
ATTEMPTS = Endpoint("GET", f"{_JOB}/attempts", AttemptsAnswer, Chapter.JOBS, "List a job's attempts")
CANCEL_JOB = Endpoint("DELETE", _JOB, NOTHING, Chapter.JOBS, "Cancel a job", 204)
_OFFER = f"{_CLOUD}/offers/{{offer}}/{{attempt}}"
OFFER_JOB = Endpoint("PUT", _OFFER, OfferWordAnswer, Chapter.PEERS, "Offer a job", 201)
AWARD_JOB = Endpoint("PUT", f"{_OFFER}/award", OfferWordAnswer, Chapter.PEERS, "Award a job")
OFFER = Endpoint("GET", _OFFER, OfferWordAnswer, Chapter.PEERS, "Show an attempt")
OUTPUTS = Endpoint("GET", f"{_OFFER}/outputs", MadeOutputsAnswer, Chapter.PEERS, "Ask for an attempt's outputs")
COLLECTED = Endpoint("PUT", f"{_OFFER}/collected", NOTHING, Chapter.PEERS, "Let an attempt's outputs go", 204)
WITHDRAW_OFFER = Endpoint("DELETE", _OFFER, OfferWordAnswer, Chapter.PEERS, "End an attempt")
PEER_PROMISE = Endpoint("GET", f"{_CLOUD}/promise", PeerPromiseAnswer, Chapter.PEERS, "Ask what a host promises")
_PEER = "/v1/peers/{peer}"
ADD_PEER = Endpoint("POST", "/v1/peers", PeerAnswer, Chapter.PEERS, "Enter a peer", 201, repeat=Repeat.ONCE)
PEERS = Endpoint("GET", "/v1/peers", PeersAnswer, Chapter.PEERS, "List peers")
PEER = Endpoint("GET", _PEER, PeerAnswer, Chapter.PEERS, "Show a peer")
CHANGE_PEER = Endpoint("PATCH", _PEER, PeerAnswer, Chapter.PEERS, "Change a peer")
PAUSE_PEER = Endpoint("POST", f"{_PEER}/pause", PeerAnswer, Chapter.PEERS, "Pause a peer")
RESUME_PEER = Endpoint("POST", f"{_PEER}/resume", PeerAnswer, Chapter.PEERS, "Resume a peer")
TEST_PEER = Endpoint("POST", f"{_PEER}/test", PeerTrialAnswer, Chapter.PEERS, "Test a peer")
STANDING = Endpoint(
    "GET", f"{_PEER}/standing", PeerStandingAnswer, Chapter.PEERS, "Promised against happened at a peer"
)
REMOVE_PEER = Endpoint("DELETE", _PEER, NOTHING, Chapter.PEERS, "Remove a peer", 204)
_VENUE = "/v1/venues/{venue}"
VENUES = Endpoint("GET", "/v1/venues", VenuesAnswer, Chapter.VENUES, "List venues")
VENUE = Endpoint("GET", _VENUE, VenueAnswer, Chapter.VENUES, "Show a venue")
REMOVE_VENUE = Endpoint("DELETE", _VENUE, NOTHING, Chapter.VENUES, "Remove a venue", 204, repeat=Repeat.ONCE)
POOLS = Endpoint("GET", f"{_VENUE}/pools", PoolsAnswer, Chapter.VENUES, "List a venue's pools")
POOL_SURVIVAL = Endpoint(
    "GET", f"{_VENUE}/pools/{{pool}}/survival", PoolSurvivalAnswer, Chapter.VENUES, "Show a pool's survival and bids"
)
OBSERVE = Endpoint("POST", f"{_VENUE}/observations", ObservedAnswer, Chapter.VENUES, "Report what became of machines")
PRICES = Endpoint("GET", f"{_VENUE}/prices", PoolPricesAnswer, Chapter.VENUES, "List a pool's prices")
VENUE_CHECKPOINT_ADVICE = Endpoint(
    "GET",
    f"{_VENUE}/checkpoint-advice",
    BidAdviceAnswer,
    Chapter.VENUES,
    "Ask when a job on a machine under a bid should be checkpointed",
)
VENUE_QUOTES = Endpoint("GET", f"{_VENUE}/quotes", VenueQuotesAnswer, Chapter.VENUES, "Ask a venue for bids")
_CLUSTER = "/v1/clusters/{cluster}"
CLUSTERS = Endpoint("GET", "/v1/clusters", ClustersAnswer, Chapter.CLUSTERS, "List clusters")
CLUSTER = Endpoint("GET", _CLUSTER, ClusterAnswer, Chapter.CLUSTERS, "Show a cluster")
PUT_CLUSTER = Endpoint("PUT", _CLUSTER, ClusterAnswer, Chapter.CLUSTERS, "Describe a cluster")
DELETE_CLUSTER = Endpoint("DELETE", _CLUSTER, NOTHING, Chapter.CLUSTERS, "Forget a cluster", 204, repeat=Repeat.ONCE)
CLUSTER_NODES = Endpoint("GET", f"{_CLUSTER}/nodes", ClusterNodesAnswer, Chapter.CLUSTERS, "List a cluster's nodes")
CLUSTER_JOBS = Endpoint("GET", f"{_CLUSTER}/jobs", ClusterJobsAnswer, Chapter.CLUSTERS, "List a cluster's jobs")
CLUSTER_CHECKPOINTS = Endpoint(
    "GET", f"{_CLUSTER}/checkpoints", ClusterCheckpointsAnswer, Chapter.CLUSTERS, "List a cluster's checkpoints"
)
CLUSTER_COST = Endpoint("GET", f"{_CLUSTER}/cost", ClusterCostAnswer, Chapter.CLUSTERS, "See what a cluster cost")
CLUSTER_EVENTS = Endpoint("GET", f"{_CLUSTER}/events", ClusterEventsAnswer, Chapter.CLUSTERS, "Read a cluster's events")
REPORT_CLUSTER_EVENTS = Endpoint(
    "POST", f"{_CLUSTER}/events", ToldEventsAnswer, Chapter.CLUSTERS, "Tell what a manager did"
)
VENUE_RELIABILITY = Endpoint(
    "GET", f"{_VENUE}/reliability", VenueReliabilityAnswer, Chapter.VENUES, "Promised against happened in a venue"
)
PEER_RELIABILITY = Endpoint(
    "GET", f"{_PEER}/reliability", PeerReliabilityAnswer, Chapter.PEERS, "Promised against happened at a peer"
)
_PLAN = "/v1/plans/{plan}"
MAKE_PLAN = Endpoint("POST", "/v1/plans", PlanAnswer, Chapter.PLANS, "Plan jobs")
PLANS = Endpoint("GET", "/v1/plans", PlansAnswer, Chapter.PLANS, "List plans")
PLAN = Endpoint("GET", _PLAN, PlanAnswer, Chapter.PLANS, "Show a plan")
NEXT_MOVE = Endpoint("GET", f"{_PLAN}/move", JobMoveAnswer, Chapter.PLANS, "Ask for a job's next move")
TELL_OUTCOME = Endpoint("POST", f"{_PLAN}/outcomes", PlanOutcomeAnswer, Chapter.PLANS, "Tell what came of a job")
CREATE_TOKEN = Endpoint("POST", "/v1/tokens", NewTokenAnswer, Chapter.TOKENS, "Create a token", 201, repeat=Repeat.ONCE)
TOKENS = Endpoint("GET", "/v1/tokens", TokensAnswer, Chapter.TOKENS, "List tokens")
TOKEN = Endpoint("GET", "/v1/tokens/{token}", TokenAnswer, Chapter.TOKENS, "Show a token")
REVOKE_TOKEN = Endpoint("DELETE", "/v1/tokens/{token}", NOTHING, Chapter.TOKENS, "Revoke a token", 204)
SLA = Endpoint("GET", f"{_CLOUD}/sla", SlaAnswer, Chapter.QUOTES, "See how each SLA class stands")
UTILISATION = Endpoint("GET", f"{_CLOUD}/utilisation", UtilisationAnswer, Chapter.CLOUDS, "See utilisation over time")
VERSIONS = Endpoint("GET", "/", VersionsAnswer, Chapter.SERVICE, "Discover versions")
HEALTH = Endpoint("GET", "/healthcheck", str, Chapter.SERVICE, "Check health")
READINESS = Endpoint("GET", "/readiness", ReadinessAnswer, Chapter.SERVICE, "Check readiness", also=frozenset({503}))
PROCESS_METRICS = Endpoint("GET", "/metrics", str, Chapter.SERVICE, "Read this process's metrics")
CLOUD_METRICS = Endpoint("GET", "/metrics/clouds", str, Chapter.SERVICE, "Read the clouds' metrics")
CLUSTER_METRICS = Endpoint("GET", "/metrics/clusters", str, Chapter.SERVICE, "Read the clusters' metrics")
PEER_METRICS = Endpoint("GET", "/metrics/peers", str, Chapter.SERVICE, "Read the peers' metrics")
