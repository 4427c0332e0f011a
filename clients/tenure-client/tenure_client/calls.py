"""Every operation of the service as a value: the request, the form of its answer, and whether it may be repeated.

Nothing here sends anything, so one description serves both clients; see `client`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import to_builtins

from tenure_client import endpoints
from tenure_client.bodies import steps_of
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.answer import Json
from tenure_client.forms.clouds import CloudAnswer, CloudNameAnswer
from tenure_client.forms.decisions import DecisionAnswer, ExplanationAnswer
from tenure_client.forms.events import EventAnswer, event_of
from tenure_client.forms.forecasts import CurvesAnswer, QuotesAnswer, RunAnswer, TableAnswer, TableSummaryAnswer
from tenure_client.forms.instances import (
    BatchAnswer,
    DrillAnswer,
    ExtensionAnswer,
    InstanceAnswer,
    StartAnswer,
)
from tenure_client.forms.nodes import FlavorAnswer, NodeAnswer, RemovalAnswer
from tenure_client.forms.owners import OwnerAnswer
from tenure_client.forms.promises import ReliabilityAnswer, SlaAnswer, UtilisationAnswer
from tenure_client.forms.service import NewTokenAnswer, ReadinessAnswer, TokenAnswer, VersionsAnswer
from tenure_client.values import Abort, Extend, Move, Observe, PolicyChange, Resources, Start, Stop

PAGE = 1000
"""The number of items in a page when a whole list is read."""


# --- clouds ----------------------------------------------------------------------------------------------------------


def create_cloud(cloud: str, policy: PolicyChange | None = None, *, at: datetime | None = None) -> Call[CloudAnswer]:
    """Create a cloud. Raises Conflict if one of that name exists."""
    return endpoints.CREATE_CLOUD.call(body={"name": cloud, "policy": policy, "at": at})


def clouds(*, limit: int = PAGE, marker: str | None = None) -> Listing[CloudNameAnswer]:
    """List all clouds that the token may see, by name."""
    return Listing(endpoints.CLOUDS.call(query=_page(limit, marker)), lambda page: page.clouds)


def cloud(cloud: str) -> Call[CloudAnswer]:
    """Show a cloud's policy, the end of its log, and counts of the requests so far."""
    return endpoints.CLOUD.call(cloud=cloud)


def change_policy(
    cloud: str, policy: PolicyChange, *, at: datetime | None = None, jump: bool | None = None
) -> Call[CloudAnswer]:
    """Change some fields of the policy from now on. With `jump`, `at` may be further ahead than `clock_step_s`."""
    return endpoints.CHANGE_POLICY.call(body={"policy": policy, "at": at, "jump": jump}, cloud=cloud)


# --- nodes and flavors -----------------------------------------------------------------------------------------------


def add_node(cloud: str, node: str, capacity: Resources, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Add a node at the end of the node order. Repeating the call changes nothing."""
    return endpoints.ADD_NODE.call(body={"name": node, **capacity._asdict(), "at": at}, cloud=cloud)


def nodes(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[NodeAnswer]:
    """List the cloud's nodes in node order."""
    return Listing(endpoints.NODES.call(query=_page(limit, marker), cloud=cloud), lambda page: page.nodes)


def node(cloud: str, node: str) -> Call[NodeAnswer]:
    """Show a node and its free resources."""
    return endpoints.NODE.call(cloud=cloud, node=node)


def remove_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[RemovalAnswer]:
    """Remove a node and evict its spot instances. Raises Conflict if on-demand instances run on it."""
    return endpoints.REMOVE_NODE.call(query={"at": at}, cloud=cloud, node=node)


def drain_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Drain a node, so that it takes no more placements."""
    return endpoints.DRAIN_NODE.call(query={"at": at}, cloud=cloud, node=node)


def open_node(cloud: str, node: str, *, at: datetime | None = None) -> Call[NodeAnswer]:
    """Open a drained node, so that it takes placements again."""
    return endpoints.OPEN_NODE.call(query={"at": at}, cloud=cloud, node=node)


def owners(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[OwnerAnswer]:
    """List who has started spot instances, with what they come to, how they overran, and their quotas."""
    return Listing(endpoints.OWNERS.call(query=_page(limit, marker), cloud=cloud), lambda page: page.owners)


def set_quota(
    cloud: str,
    owner: str,
    *,
    cores: int | None = None,
    share: float | None = None,
    overrun_share: float | None = None,
    at: datetime | None = None,
) -> Call[OwnerAnswer]:
    """Give an owner a quota of its own in place of the policy's. None is no limit, but at least one must be given."""
    body = {"cores": cores, "share": share, "overrun_share": overrun_share, "at": at}
    return endpoints.SET_QUOTA.call(body=body, cloud=cloud, owner=owner)


def remove_quota(cloud: str, owner: str, *, at: datetime | None = None) -> Call[None]:
    """Let the policy's quota hold for an owner again."""
    return endpoints.REMOVE_QUOTA.call(query={"at": at}, cloud=cloud, owner=owner)


def add_flavor(cloud: str, flavor: str, demand: Resources, *, at: datetime | None = None) -> Call[FlavorAnswer]:
    """Add a flavor. Repeating the call changes nothing."""
    return endpoints.ADD_FLAVOR.call(body={"name": flavor, **demand._asdict(), "at": at}, cloud=cloud)


def flavors(cloud: str, *, limit: int = PAGE, marker: str | None = None) -> Listing[FlavorAnswer]:
    """List the cloud's flavors with the slots available now."""
    return Listing(endpoints.FLAVORS.call(query=_page(limit, marker), cloud=cloud), lambda page: page.flavors)


def flavor(cloud: str, flavor: str) -> Call[FlavorAnswer]:
    """Show a flavor and the slots available now."""
    return endpoints.FLAVOR.call(cloud=cloud, flavor=flavor)


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
    lifetime: Literal["longest"] | None = None,
    min_lifetime_s: float | None = None,
    count: int = 1,
    nodes: Sequence[str] = (),
    project: str | None = None,
    user: str | None = None,
    federate: Literal["never", "allowed"] = "never",
) -> Call[StartAnswer]:
    """Start an instance. Repeating the call returns the same answer; the same id with another body raises Conflict.

    Spot starts must declare a lifetime. `eviction_probability` is the start's own SLA, in place of the cloud's.
    `lifetime` asks for one as long as possible in place of `lifetime_s`; with `min_lifetime_s` the start takes the
    longest that can be promised, but at least that. It is extended later as far as it wants.
    `count` members make a group, which is placed, promised, stopped and evicted as a whole.
    `nodes` are the only ones that it may take; none: any. `project` and `user` tell for whom it is.
    With `federate`, peers are asked to run a spot start that is rejected here, as a job; the answer tells its id.
    """
    terms = lifetime_s, eviction_probability, at, lifetime, min_lifetime_s, count
    asked = Start(instance, market, flavor, *terms, list(nodes) or None, project, user)
    body = to_builtins(asked) | ({} if federate == "never" else {"federate": federate})
    return endpoints.START.call(body=body, cloud=cloud)


def stop(cloud: str, instance: str, *, at: datetime | None = None) -> Call[None]:
    """Stop an instance. Nothing happens if it has ended already."""
    return endpoints.STOP.call(query={"at": at}, cloud=cloud, instance=instance)


def extend(cloud: str, instance: str, lifetime_s: float, *, at: datetime | None = None) -> Call[ExtensionAnswer]:
    """Promise a running spot instance a longer lifetime, counted from its start, or refuse and change nothing.

    Repeating the call for a lifetime that was accepted returns the same answer.
    """
    return endpoints.EXTEND.call(body={"lifetime_s": lifetime_s, "at": at}, cloud=cloud, spot=instance)


def extension_quote(cloud: str, instance: str, lifetime_s: float) -> Call[ExtensionAnswer]:
    """Tell what `extend` would answer now. Nothing is changed or recorded."""
    query = {"lifetime_s": seconds_text(lifetime_s)}
    return endpoints.EXTENSION_QUOTE.call(query=query, cloud=cloud, spot=instance)


def batch(cloud: str, operations: Sequence[Start | Stop | Extend | Move | Observe | Abort]) -> Call[BatchAnswer]:
    """Decide up to 1000 starts, stops, extensions and moves in order; each has its own result."""
    return endpoints.BATCH.call(body={"operations": steps_of(operations)}, cloud=cloud)


def drill(cloud: str, instance: str | None = None, *, at: datetime | None = None) -> Call[DrillAnswer]:
    """Evict one spot instance as a test, by default the one started last."""
    return endpoints.DRILL.call(body={"instance": instance, "at": at}, cloud=cloud)


def drill_victim(cloud: str, instance: str | None = None) -> Call[InstanceAnswer]:
    """Show the instance that a drill would evict now. Nothing is changed."""
    return endpoints.DRILL_VICTIM.call(query={"instance": instance}, cloud=cloud)


# --- what became of instances ----------------------------------------------------------------------------------------


def instances(
    cloud: str,
    *,
    status: str | None = None,
    market: str | None = None,
    project: str | None = None,
    limit: int = PAGE,
    marker: str | None = None,
) -> Listing[InstanceAnswer]:
    """List instances in the order of their starts, including rejected ones."""
    query = {"status": status, "market": market, "project": project, "limit": limit, "marker": marker}
    return Listing(endpoints.INSTANCES.call(query=query, cloud=cloud), lambda page: page.instances)


def instance(cloud: str, instance: str) -> Call[InstanceAnswer]:
    """Show the decision on an instance's start, and its end."""
    return endpoints.INSTANCE.call(cloud=cloud, instance=instance)


def explain(cloud: str, instance: str) -> Call[ExplanationAnswer]:
    """Explain why an instance was accepted, rejected or evicted, in fields and in sentences."""
    return endpoints.EXPLAIN.call(cloud=cloud, instance=instance)


def decisions(
    cloud: str,
    *,
    before_seq: int | None = None,
    outcome: str | None = None,
    market: str | None = None,
    limit: int = 100,
) -> Listing[DecisionAnswer]:
    """List decisions with their reasons, newest first."""
    query = {"before_seq": before_seq, "outcome": outcome, "market": market, "limit": limit}
    return Listing(endpoints.DECISIONS.call(query=query, cloud=cloud), lambda page: page.decisions)


# --- quotes, tables, runs --------------------------------------------------------------------------------------------


def quotes(
    cloud: str,
    *,
    flavor: str | None = None,
    eviction_probability: float | None = None,
    lifetime_s: float | None = None,
    slots: int | None = None,
) -> Call[QuotesAnswer]:
    """Read quotes from the newest table, for one flavor or all."""
    asked_s = None if lifetime_s is None else seconds_text(lifetime_s)
    query = {"flavor": flavor, "eviction_probability": eviction_probability, "lifetime_s": asked_s, "slots": slots}
    return endpoints.QUOTES.call(query=query, cloud=cloud)


def curves(cloud: str, flavor: str) -> Call[CurvesAnswer]:
    """Read what the forecast in force says of a flavor by available slots and by lifetime, as of now."""
    return endpoints.CURVES.call(query={"flavor": flavor}, cloud=cloud)


def request_table(cloud: str) -> Call[RunAnswer]:
    """Request a table of the history so far, which a worker computes."""
    return endpoints.REQUEST_TABLE.call(cloud=cloud)


def tables(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[TableSummaryAnswer]:
    """List published tables without their curves, newest first."""
    return Listing(endpoints.TABLES.call(query=_page(limit, marker), cloud=cloud), lambda page: page.tables)


def newest_table(cloud: str, *, flavor: str | None = None) -> Call[TableAnswer]:
    """Show the newest table with its curves."""
    return endpoints.NEWEST_TABLE.call(query={"flavor": flavor}, cloud=cloud)


def table(cloud: str, epoch: int, *, flavor: str | None = None) -> Call[TableAnswer]:
    """Show the table of an epoch with its curves."""
    return endpoints.TABLE.call(query={"flavor": flavor}, cloud=cloud, epoch=epoch)


def runs(cloud: str, *, limit: int = 100, marker: int | None = None) -> Listing[RunAnswer]:
    """List computations of tables, newest first."""
    return Listing(endpoints.RUNS.call(query=_page(limit, marker), cloud=cloud), lambda page: page.runs)


def run(cloud: str, run: int) -> Call[RunAnswer]:
    """Show one computation of a table."""
    return endpoints.RUN.call(cloud=cloud, run=run)


def reliability(cloud: str, *, after_seq: int | None = None) -> Call[ReliabilityAnswer]:
    """Compare promised probabilities with outcomes, in the stretch of the log after a seq or in the newest one."""
    return endpoints.RELIABILITY.call(query={"after_seq": after_seq}, cloud=cloud)


def sla(cloud: str) -> Call[SlaAnswer]:
    """Show each SLA class since the cloud began: admitted and evicted instances, and the rest of its budget."""
    return endpoints.SLA.call(cloud=cloud)


def utilisation(
    cloud: str,
    *,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    points: int = 300,
    node: str | None = None,
) -> Call[UtilisationAnswer]:
    """Show the cores in use over time, of the cloud or of one node; by default in the last day."""
    query = {"begin_at": begin_at, "end_at": end_at, "points": points, "node": node}
    return endpoints.UTILISATION.call(query=query, cloud=cloud)


# --- events ----------------------------------------------------------------------------------------------------------


def events(cloud: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[EventAnswer]:
    """List the log's events after a seq, up to its present end."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(endpoints.EVENTS.call(query=query, cloud=cloud), lambda page: [*map(event_of, page.events)])


def event_stream(cloud: str, *, after_seq: int = 0, limit: int | None = None) -> Call[str]:
    """Stream the log's events after a seq as server-sent events, and each later one as it comes."""
    return endpoints.EVENT_STREAM.call(query={"after_seq": after_seq, "limit": limit}, cloud=cloud)


# --- the service -----------------------------------------------------------------------------------------------------


def create_token(
    name: str, role: str, *, cloud: str | None = None, expires_in_s: float | None = None
) -> Call[NewTokenAnswer]:
    """Create a token. Only this answer contains the token itself."""
    return endpoints.CREATE_TOKEN.call(body={"name": name, "role": role, "cloud": cloud, "expires_in_s": expires_in_s})


def tokens(*, limit: int = PAGE, marker: int | None = None) -> Listing[TokenAnswer]:
    """List all tokens, newest first, including expired and revoked ones."""
    return Listing(endpoints.TOKENS.call(query=_page(limit, marker)), lambda page: page.tokens)


def token(token: str) -> Call[TokenAnswer]:
    """Show a token's properties, by its id."""
    return endpoints.TOKEN.call(token=token)


def revoke_token(token: str) -> Call[None]:
    """Revoke a token, by its id. Repeating the call changes nothing."""
    return endpoints.REVOKE_TOKEN.call(token=token)


def versions() -> Call[VersionsAnswer]:
    """Show the versions of the interface."""
    return endpoints.VERSIONS.call()


def health() -> Call[str]:
    """Check the service's health: `OK`, or ServiceUnreachable with the reason if the service cannot answer."""
    return endpoints.HEALTH.call()


def readiness() -> Call[ReadinessAnswer]:
    """Check whether the database answers, and the age of each cloud's newest table."""
    return endpoints.READINESS.call()


def process_metrics() -> Call[str]:
    """Read the metrics of the process that answers, in Prometheus' text format."""
    return endpoints.PROCESS_METRICS.call()


def cloud_metrics() -> Call[str]:
    """Read the metrics of all clouds, in Prometheus' text format."""
    return endpoints.CLOUD_METRICS.call()


def _page(limit: int, marker: str | int | None) -> Json:
    return {"limit": limit, "marker": marker}


def seconds_text(seconds: float) -> str:
    """Return the number for a query: exact to the microsecond, without an exponent."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
