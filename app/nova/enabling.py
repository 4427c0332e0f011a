"""Makes a cloud of Nova sell spot: the twins of its flavors, and the texts that computes and schedulers need."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.domain.inputs import InputError
from app.nova.cloud import NovaCloud
from app.nova.rules.findings import FILTER
from app.nova.rules.twins import RESOURCE, TRAIT, TwinStep

PROVIDERS_FILE = "tenure.yaml"
SCHEDULER_FILE = "nova-tenure.conf"
_MOST_SPOT = 10_000


def make_twins(nova: NovaCloud, steps: Iterable[TwinStep]) -> None:
    """Take the steps. A flavor that is made and not yet marked is found, and marked, the next time."""
    for step in steps:
        flavor = step.flavor or nova.make_flavor(step.body)
        nova.specify(flavor, step.specs)


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
endpoint_override = {url}
auth_type = password
auth_url = KEYSTONE
username = tenure
password = SECRET
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


def write_texts(folder: Path, cloud: str, url: str) -> list[Path]:
    """Write both texts into a folder. Raises InputError, with nothing written, if a file there holds something else."""
    texts = {folder / PROVIDERS_FILE: provider_text(), folder / SCHEDULER_FILE: scheduler_text(cloud, url)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            if path.exists() and path.read_text() != text:
                raise InputError(f"{path} is there and says something else: remove it, or name another folder")
        for path, text in texts.items():
            path.write_text(text)
    except OSError as error:
        raise InputError(f"nothing can be written into {folder}: {error}") from None
    return [*texts]
