"""Nova's past by its interface, for those who cannot reach its databases: servers that run, then those that ended.

Only what Nova has not archived is told, each server with the size of its end. The pages are kept in a temporary file,
since it is known only at the end from when on the record is whole.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any

import openstack
from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection
from openstack.exceptions import SDKException

from app.domain.inputs import InputError
from app.domain.progress import Progress
from app.domain.servers import OvercommitRatios, ServerNode, ServerRecord, ServerRecordEnd, ServerStretch
from app.domain.times import from_datetime, rfc3339
from app.domain.values import Resources
from app.nova.past.source import ServerPieces
from app.nova.past.splitting import NovaServer, ServerMark, flavor_by_words, stretches_of
from app.nova.session import failed, refused

_PAGE = 1_000
_COMPUTE = "2.61"
"""The version of Nova's interface in which a server tells its flavor with extra specs."""
_PLACEMENT = "1.14"
_TIMEOUT_S = 120
_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")


class NovaInterface:
    """Nova and Placement at one reading, as the cloud of this name in clouds.yaml; None: by variables."""

    def __init__(self, name: str | None, since_us: int | None) -> None:
        self._name = name
        self._since_us = since_us

    def pieces(self, progress: Progress | None = None) -> ServerPieces:
        """Yield the past. Raises OpenStackFailed if OpenStack cannot be asked, or does not let this user see all."""
        with told_of_openstack(), tempfile.TemporaryFile(prefix="tenure-nova-") as kept:
            cloud = openstack.connect(cloud=self._name, api_timeout=_TIMEOUT_S)
            nodes = tuple(_nodes(cloud))
            pages = _Pages(kept, progress)
            read_at_us = from_datetime(datetime.now(UTC))
            pages.keep(cloud, {})
            since = {} if self._since_us is None else {"changes-since": rfc3339(self._since_us)}
            pages.keep(cloud, {"deleted": "true", **since})
            whole_from_us = self._since_us if self._since_us is not None else pages.first_end_us
            yield ServerRecord(whole_from_us, read_at_us, nodes)
            yield from pages.stretches()
            yield ServerRecordEnd(pages.count, pages.count - len(pages.last))


class _Pages:
    """The servers that were read, in a temporary file. `last` has the place of the last row of each."""

    def __init__(self, kept: IO[bytes], progress: Progress | None) -> None:
        self.count = 0
        self.last: dict[str, int] = {}
        self.first_end_us = 0
        self._kept = kept
        self._progress = progress

    def keep(self, cloud: Connection, wanted: dict[str, str]) -> None:
        """Read all pages of servers that are wanted."""
        marker: dict[str, str] = {}
        while page := _servers(cloud, wanted | marker):
            for told in page:
                server, stretches = _read_named(told)
                self.last[server.uuid] = self.count
                self.count += 1
                if server.ended_us is not None and server.launched_us is not None:
                    self.first_end_us = min(self.first_end_us or server.ended_us, server.ended_us)
                pickle.dump((server.uuid, stretches), self._kept)
            marker = {"marker": page[-1]["id"]}
            if self._progress is not None:
                self._progress(self.count, self.count)

    def stretches(self) -> Iterator[ServerStretch]:
        """Yield what was kept; of a server that was read twice, what was read last."""
        self._kept.seek(0)
        for place in range(self.count):
            uuid, stretches = pickle.load(self._kept)  # noqa: S301 - this process wrote it
            if self.last[uuid] == place:
                yield from stretches


@contextmanager
def told_of_openstack() -> Iterator[None]:
    """Tell what OpenStack answered, as an OpenStackFailed."""
    try:
        yield
    except (SDKException, ClientException) as error:
        raise failed("asking OpenStack", error) from error


def _servers(cloud: Connection, wanted: dict[str, str]) -> list[dict[str, Any]]:
    asked = {"all_tenants": "1", "limit": str(_PAGE), **wanted}
    answer = cloud.compute.get("/servers/detail", params=asked, microversion=_COMPUTE)
    if answer.status_code != 200:
        raise refused(answer.status_code, f"Nova does not tell all servers: {answer.text[:200]}")
    servers: list[dict[str, Any]] = answer.json()["servers"]
    return servers


def _read_named(told: dict[str, Any]) -> tuple[NovaServer, list[ServerStretch]]:
    try:
        return _read(told)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InputError(f"what Nova tells of server {told.get('id')} cannot be read: {error!r}") from error


def _read(told: dict[str, Any]) -> tuple[NovaServer, list[ServerStretch]]:
    words = told["flavor"]
    row = Resources(words["vcpus"], words["ram"], words["disk"] + words.get("ephemeral", 0))
    flavor = flavor_by_words(words, words["original_name"], words.get("extra_specs") or {})
    created_us, updated_us = _time(told["created"]), _time(told["updated"])
    ended_us = _time(told.get("OS-SRV-USG:terminated_at"))
    if told["status"] in ("DELETED", "SOFT_DELETED") and ended_us is None:
        ended_us = updated_us if told["status"] == "DELETED" else None
    server = NovaServer(
        uuid=told["id"],
        size=flavor.size if flavor is not None else row,
        created_us=created_us or 0,
        launched_us=_time(told.get("OS-SRV-USG:launched_at")),
        ended_us=ended_us,
        host=told.get("OS-EXT-SRV-ATTR:host"),
        state=told.get("OS-EXT-STS:vm_state") or "",
        flavor_id=0,
    )
    left = server.state == "shelved_offloaded" and updated_us is not None
    marks = [(updated_us, ServerMark.OFFLOADED)] if left and updated_us is not None else []
    return server, stretches_of(server, marks, (), {} if flavor is None else {0: flavor})


def _time(text: str | None) -> int | None:
    """Return a time of Nova's, which is UTC whether or not it says so."""
    if not text:
        return None
    told = datetime.fromisoformat(text)
    return from_datetime(told if told.tzinfo else told.replace(tzinfo=UTC))


def _nodes(cloud: Connection) -> Iterator[ServerNode]:
    """Yield the providers that have cores. What is reserved on a node is none of what it has here."""
    listed = cloud.placement.get("/resource_providers", microversion=_PLACEMENT)
    for provider in listed.json().get("resource_providers", []):
        url = f"/resource_providers/{provider['uuid']}/inventories"
        held = cloud.placement.get(url, microversion=_PLACEMENT).json().get("inventories", {})
        if "VCPU" in held:
            of = [held.get(name, {"total": 0}) for name in _CLASSES]
            has = Resources(*(one["total"] - one.get("reserved", 0) for one in of))
            ratios = OvercommitRatios(*(float(one.get("allocation_ratio", 1.0)) for one in of))
            yield ServerNode(provider["name"], has, ratios, 0)
