"""Makes a cloud of Nova sell spot: what that takes, the steps, and the texts that computes and schedulers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.domain.inputs import InputError
from app.domain.values import Resources
from app.nova.books import TenureSide
from app.nova.cloud import NovaCloud
from app.nova.rules.findings import FILTER
from app.nova.rules.nodes import NodeStep, NodeStepKind
from app.nova.rules.sizes import demand_of, name_of_size, plain_name
from app.nova.rules.twins import RESOURCE, TRAIT, TwinStep, Untwinned, plan_twins
from app.nova.syncing import Syncing
from tenure_client import NotFound, TenureClient

PROVIDERS_FILE = "tenure.yaml"
SCHEDULER_FILE = "nova-tenure.conf"
_MOST_SPOT = 10_000
_PAST = {
    NodeStepKind.ADD: "added",
    NodeStepKind.RESIZE: "resized",
    NodeStepKind.DRAIN: "drained",
    NodeStepKind.OPEN: "opened",
    NodeStepKind.REMOVE: "removed",
}


@dataclass(frozen=True, slots=True)
class Lacking:
    """All that a cloud lacks to sell spot: the cloud in Tenure itself, twins, and flavors and nodes there."""

    cloud: str
    is_new: bool
    twins: list[TwinStep]
    without: list[Untwinned]
    flavors: list[str]
    nodes: list[NodeStep]


def look(nova: NovaCloud, client: TenureClient, cloud: str, wanted: frozenset[str], lifetime: str | None) -> Lacking:
    """Ask Nova and Tenure what is lacking, and Tenure whether the token may bring it. Nothing is changed.

    Raises OpenStackFailed and ClientError.
    """
    told = [*nova.flavors()]
    twins, without = plan_twins(told, wanted, lifetime)
    books = TenureSide(client, client, cloud)
    is_new = _is_new(client, cloud)
    known = (
        {}
        if is_new
        else {one.name: Resources(one.cores, one.memory_mib, one.disk_gib) for one in client.flavors(cloud)}
    )
    sizes = _new_sizes(told, known)
    nodes = Syncing(nova, books, TRAIT).lacking({} if is_new else books.read_nodes())
    return Lacking(cloud, is_new, twins, without, sizes, nodes)


def bring(nova: NovaCloud, client: TenureClient, lacking: Lacking) -> Iterator[str]:
    """Bring what is lacking; yield a sentence for each thing when it is done. The next time completes a half-made twin.

    Raises OpenStackFailed and ClientError.
    """
    for step in lacking.twins:
        flavor = step.flavor or nova.make_flavor(step.body)
        nova.specify(flavor, step.specs)
        yield f"{step.name}: {_made(step)}"
    if lacking.is_new:
        client.create_cloud(lacking.cloud)
        yield f"the cloud {lacking.cloud}: made in Tenure"
    books = TenureSide(client, client, lacking.cloud)
    syncing = Syncing(nova, books, TRAIT)
    syncing.nodes()
    left = {step.node for step in syncing.lacking(books.read_nodes())}
    for one in lacking.nodes:
        yield f"the node {one.node}: {'refused' if one.node in left else _PAST[one.kind]} in Tenure"
    syncing.flavors()
    yield from (f"the flavor {name}: added in Tenure" for name in lacking.flavors)


def plans_of(lacking: Lacking) -> Iterator[str]:
    """Yield a sentence for each thing that would be brought."""
    for step in lacking.twins:
        yield f"{step.name}: would be {_made(step)}"
    if lacking.is_new:
        yield f"would make the cloud {lacking.cloud} in Tenure, which cannot be removed or imported into later"
    yield from (f"the node {step.node}: would be {_PAST[step.kind]} in Tenure" for step in lacking.nodes)
    yield from (f"the flavor {name}: would be added in Tenure" for name in lacking.flavors)


def _made(step: TwinStep) -> str:
    given = ", ".join(f"{name}={value}" for name, value in step.specs.items())
    return "made" if step.flavor is None else f"given {given}"


def _is_new(client: TenureClient, cloud: str) -> bool:
    """Return True if there is no such cloud. Asks what only an admin may see: the change itself is an admin's."""
    try:
        client.cloud(cloud)
    except NotFound:
        next(iter(client.tokens(limit=1)), None)
        return True
    next(iter(client.webhooks(cloud, limit=1)), None)
    return False


def _new_sizes(told: list[dict[str, Any]], known: Mapping[str, Resources]) -> list[str]:
    """Return the names of the flavors that Tenure does not have, in Nova's order."""
    there, new = dict(known), []
    for one in told:
        demand = demand_of(one)
        if demand is None:
            continue
        name = name_of_size(there, plain_name(one["name"], one.get("extra_specs") or {}), demand)
        if name not in there:
            there[name] = demand
            new.append(name)
    return new


def provider_text() -> str:
    """Return the provider file of the computes: the trait that lets spot in, and a resource that never runs out."""
    return f"""\
# For provider_config_location (/etc/nova/provider_config/) of each compute that takes spot servers.
meta:
  schema_version: '1.0'
providers:
  - identification:
      uuid: $COMPUTE_NODE
    inventories:
      additional:
        - {RESOURCE}:
            total: {_MOST_SPOT}
            max_unit: {_MOST_SPOT}
    traits:
      additional:
        - {TRAIT}
"""


def scheduler_text(cloud: str, url: str) -> str:
    """Return what nova.conf of the schedulers, and for its notifications of all services, needs."""
    return f"""\
# Replace the words in capitals: {", ".join(_placeholders(url))}.
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = {FILTER}
# and TenureFilter as the last one in enabled_filters

[notifications]
notification_format = versioned
versioned_notifications_topics = versioned_notifications,tenure

[oslo_messaging_notifications]
driver = messagingv2

[tenure]
cloud = {cloud}
endpoint_override = {_endpoint(url)}
auth_type = password
auth_url = KEYSTONE
username = tenure
password = SECRET
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


def _placeholders(url: str) -> list[str]:
    return [*(["TENURE (its root, as https://tenure.example)"] if _is_local(url) else []), "KEYSTONE", "SECRET"]


def _endpoint(url: str) -> str:
    """Return where schedulers find Tenure. An address that only this machine knows is none."""
    return "TENURE" if _is_local(url) else url


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def texts_for(folder: Path, cloud: str, url: str) -> dict[Path, str]:
    """Return both texts by the files in a folder that they are for. Raises InputError if one there says otherwise."""
    texts = {folder / PROVIDERS_FILE: provider_text(), folder / SCHEDULER_FILE: scheduler_text(cloud, url)}
    try:
        for path, text in texts.items():
            if path.exists() and path.read_text() != text:
                raise InputError(f"{path} is there and says something else: remove it, or name another folder")
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}") from None
    return texts


def write_texts(folder: Path, cloud: str, url: str) -> list[Path]:
    """Write both texts into a folder. Raises InputError, with nothing written, if a file there holds something else."""
    texts = texts_for(folder, cloud, url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text)
    except OSError as error:
        raise InputError(f"nothing can be written into {folder}: {error.strerror or error}") from None
    return [*texts]
