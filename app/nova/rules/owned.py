"""Servers that a program orders for itself in its own project: the order, where they stand, and why one was refused."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.nova.rules.reading import moment_of

FAULT_COMES_S = 5.0
"""Nova may tell why a server is in error so long after it tells that it is."""
_DEAD = frozenset({"ERROR", "PAUSED", "SHELVED", "SHELVED_OFFLOADED", "SHUTOFF", "SUSPENDED"})
_GONE = frozenset({"DELETED", "SOFT_DELETED"})
_DELETING = frozenset({"deleting", "soft-deleting"})
_NO_HOST = "No valid host was found. "
_REFUSAL = re.compile(r"Tenure: (.*?)\.?(?= Accepted would be: | Ask: |$)", re.DOTALL)
_LIFETIME = re.compile(r"tenure:lifetime=([0-9.]*[0-9])")
_PROBABILITY = re.compile(r"tenure:probability=([0-9.]*[0-9])")
_NO_NETWORKS = ("auto", "none")


class OwnStage(StrEnum):
    """The stage of a server: on its way or running; there but not running; never built; or gone in a moment."""

    ALIVE = "alive"
    DEAD = "dead"
    REFUSED = "refused"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server as Nova shows it to its project. `fault` is why it is in error; empty: nothing is told."""

    id: str
    name: str
    status: str
    task: str | None
    created_at: datetime
    updated_at: datetime
    launched_at: datetime | None = None
    fault: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """A server to be made. Image, flavor and network are ids; `network` may be `auto` or `none`; `key` is a name."""

    name: str
    image: str
    flavor: str
    network: str
    user_data: str
    key: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)


def read_own(told: Mapping[str, Any]) -> OwnServer:
    """Return a server of `GET /servers/detail`. Raise KeyError, TypeError or ValueError if it is in another form."""
    launched = told.get("OS-SRV-USG:launched_at")
    return OwnServer(
        id=told["id"],
        name=told["name"],
        status=told["status"],
        task=told.get("OS-EXT-STS:task_state"),
        created_at=moment_of(told["created"]),
        updated_at=moment_of(told["updated"]),
        launched_at=None if launched is None else moment_of(launched),
        fault=str((told.get("fault") or {}).get("message", "")),
        metadata=told.get("metadata") or {},
    )


def body_of(order: ServerOrder) -> dict[str, Any]:
    """Return the body of the request that makes a server."""
    server = {
        "name": order.name,
        "imageRef": order.image,
        "flavorRef": order.flavor,
        "networks": order.network if order.network in _NO_NETWORKS else [{"uuid": order.network}],
        "user_data": base64.b64encode(order.user_data.encode()).decode(),
        "metadata": dict(order.metadata),
    }
    if order.key is not None:
        server["key_name"] = order.key
    return {"server": server} | ({"os:scheduler_hints": dict(order.hints)} if order.hints else {})


def stage_of(server: OwnServer, now: datetime) -> OwnStage:
    """Return where a server stands. One in error waits a moment for the reason."""
    if server.status in _GONE or server.task in _DELETING:
        return OwnStage.LEAVING
    if server.status == "ERROR" and server.launched_at is None:
        is_told = server.fault or now - server.updated_at > timedelta(seconds=FAULT_COMES_S)
        return OwnStage.REFUSED if is_told else OwnStage.ALIVE
    return OwnStage.DEAD if server.status in _DEAD else OwnStage.ALIVE


def why_refused(fault: str) -> str:
    """Return why a server was refused, from its fault, and what would have been accepted, if Tenure said so."""
    found = _REFUSAL.search(fault)
    if found is None:
        return fault.removeprefix(_NO_HOST) or "Nova did not build it, and does not say why"
    ways = [f"a lifetime of {one} s" for one in _LIFETIME.findall(fault[found.end() :])]
    ways += [f"an eviction probability of {one}" for one in _PROBABILITY.findall(fault[found.end() :])]
    return f"{found[1]}; acceptable: {' or '.join(ways)}" if ways else found[1]
