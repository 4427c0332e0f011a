"""Victims on their way out of Nova."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from nova import context, exception, objects

_LOOK_S = 0.25
_GONE = ("shelved_offloaded", "deleted", "soft-delete")


def wait_until_gone(victims: Sequence[str], longest_s: float) -> list[str]:
    """Wait until none of these servers holds room on a host any more; return those that still do after `longest_s`."""
    deadline_s = time.monotonic() + longest_s
    admin = context.get_admin_context()
    left = [victim for victim in victims if _holds(admin, victim)]
    while left and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
        left = [victim for victim in left if _holds(admin, victim)]
    return left


def _holds(admin: Any, instance: str) -> bool:  # noqa: ANN401 - Nova's own type
    server = instance.partition(".")[0]
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(admin, server)
        if mapping.cell_mapping is None:
            return False
        with context.target_cell(admin, mapping.cell_mapping) as cell:
            found = objects.Instance.get_by_uuid(cell, server, expected_attrs=[])
    except (exception.InstanceMappingNotFound, exception.InstanceNotFound):
        return False
    return found.vm_state not in _GONE
