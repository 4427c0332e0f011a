"""Reads Nova's own words about a server into a value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from app.nova.rules.seen import Server
from app.nova.rules.sizes import demand_of, is_spot, plain_name


def read_server(told: Mapping[str, Any]) -> Server:
    """Return a server of `GET /servers/detail` from microversion 2.47 on, as an admin sees it.

    Raises KeyError, TypeError or ValueError if it is in another form.
    """
    flavor = told["flavor"]
    extra_specs = flavor.get("extra_specs") or {}
    launched = told.get("OS-SRV-USG:launched_at")
    return Server(
        id=told["id"],
        status=told["status"],
        task=told.get("OS-EXT-STS:task_state"),
        node=told.get("OS-EXT-SRV-ATTR:hypervisor_hostname"),
        plain_flavor=plain_name(flavor["original_name"], extra_specs),
        demand=demand_of(flavor),
        is_spot=is_spot(extra_specs),
        created_at=moment_of(told["created"]),
        updated_at=moment_of(told["updated"]),
        launched_at=None if launched is None else moment_of(launched),
        project=told.get("tenant_id"),
        user=told.get("user_id"),
        metadata=told.get("metadata") or {},
        tags=frozenset(told.get("tags") or ()),
    )


def moment_of(text: str) -> datetime:
    """Return a time as Nova writes it: in UTC, in some fields without saying so."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
