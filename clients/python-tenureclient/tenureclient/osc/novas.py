"""Names of Nova's in commands of Tenure: servers by name or id, flavors by name or id."""

from __future__ import annotations

import re
from typing import Any

from osc_lib import exceptions

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LISTED_AS = "tenure:flavor"


def server_id(manager: Any, name: str) -> str:  # noqa: ANN401 - of osc-lib
    """Return the id of a server of Nova's. An id is taken as it is: Tenure may know servers that Nova has forgotten."""
    if _UUID.fullmatch(name):
        return name
    found = manager.sdk_connection.compute.find_server(name)
    if found is None:
        raise exceptions.CommandError(f"No server with the name {name!r}; one that is deleted is found by its id")
    return str(found.id)


def flavor_name(manager: Any, name: str, known: set[str]) -> str:  # noqa: ANN401 - as above
    """Return the name in Tenure of a flavor: the same, or that of the flavor whose spot twin it is."""
    if name in known:
        return name
    found = manager.sdk_connection.compute.find_flavor(name, get_extra_specs=True)
    if found is None:
        raise exceptions.CommandError(f"No flavor {name!r}, neither here ({', '.join(sorted(known))}) nor in Nova")
    return str((found.extra_specs or {}).get(_LISTED_AS) or found.name)
