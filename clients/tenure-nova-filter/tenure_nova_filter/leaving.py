"""Servers that have left their hosts, or are on their way: victims, and those that come back after `shelve`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from nova import context, exception, objects

_SOONEST_S = 0.25
_LATEST_S = 2.0
_SHARE = 0.25
"""It looks again after this share of the time that it has waited: a burst of servers waits for many victims."""
_EARLY_S = 3.0
_OFFLOADED = "shelved_offloaded"
_GONE = (_OFFLOADED, "deleted", "soft-delete")
_BUILDING = "building"


def wait_until_gone(victims: Sequence[str], longest_s: float, notice_s: float) -> list[str]:
    """Wait until none of these servers holds room on a host any more; return those that still do after `longest_s`.

    Before `notice_s` is over few leave, so it looks seldom then: many servers may be waiting at once.
    """
    began_s = time.monotonic()
    admin = context.get_admin_context()
    left = [victim for victim in victims if _holds(admin, victim)]
    while left and (now_s := time.monotonic() - began_s) < longest_s:
        due_s = now_s - max(notice_s, 0.0)
        pause_s = min(max(_SHARE * due_s, _SOONEST_S), _LATEST_S) if due_s >= 0 else min(_EARLY_S, _SOONEST_S - due_s)
        time.sleep(min(pause_s, longest_s - now_s))
        left = [victim for victim in left if _holds(admin, victim)]
    return left


def is_on_a_host(server: str) -> bool:
    """Return True for a server that was built and is on a host: it moves then, and does not begin anew."""
    state = _state(context.get_admin_context(), server)
    return state is not None and state not in (*_GONE, _BUILDING)


def shelved_at(server: str) -> datetime | None:
    """Return when a server was shelved that is on no host any more; None for any other."""
    found = _instance(context.get_admin_context(), server, ["system_metadata"])
    if found is None or found.vm_state != _OFFLOADED:
        return None
    at = datetime.fromisoformat(found.system_metadata["shelved_at"].replace("Z", "+00:00"))
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)  # noqa: UP017 - Nova runs on Python 3.10


def _holds(admin: Any, instance: str) -> bool:  # noqa: ANN401 - Nova's own type
    state = _state(admin, instance.partition(".")[0])
    return state is not None and state not in _GONE


def _state(admin: Any, server: str) -> str | None:  # noqa: ANN401 - as above
    """Return a server's state by Nova's database; None if it has none in a cell."""
    found = _instance(admin, server, [])
    return None if found is None else str(found.vm_state)


def _instance(admin: Any, server: str, fields: list[str]) -> Any:  # noqa: ANN401 - as above
    """Return a server of Nova's database with these fields of it; None if it is in no cell."""
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(admin, server)
        if mapping.cell_mapping is None:
            return None
        with context.target_cell(admin, mapping.cell_mapping) as cell:
            return objects.Instance.get_by_uuid(cell, server, expected_attrs=fields)
    except (exception.InstanceMappingNotFound, exception.InstanceNotFound):
        return None
