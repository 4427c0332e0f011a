"""Names of Nova's in commands of Tenure: servers by name or id, flavors by name or id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from osc_lib import exceptions

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LISTED_AS = "tenure:flavor"
_MOST_NAMED = 10_000
"""Servers of Nova's that are read for their names. Rows beyond have none."""


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


def named(manager: Any, items: Iterable[Mapping[str, Any]], since: str) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
    """Return things of Tenure's with the `name` that their servers have in Nova; None where Nova does not tell it.

    `since`: the field with a time before which no server of these ended.
    """
    rows = list(items)
    names = _names(manager, {_server(one) for one in rows}, min((str(one[since]) for one in rows), default=None))
    return [{**one, "name": names.get(_server(one))} for one in rows]


def _server(item: Mapping[str, Any]) -> str:
    """Return the id in Nova of a life."""
    return str(item["id"]).partition(".")[0]


def _names(manager: Any, wanted: set[str], since: str | None) -> dict[str, str]:  # noqa: ANN401 - as above
    """Return names by id: of the servers that there are, and of those that were deleted since a time.

    Those of all projects if this user may see them. Without a Nova that answers there is none.
    """
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - `openstack --help` loads no HTTP library
    from openstack.exceptions import SDKException  # noqa: PLC0415 - as above

    names: dict[str, str] = {}
    if since is None:
        return names
    for everybody in ({"all_projects": True}, {}):
        try:
            compute = manager.sdk_connection.compute
            for asked in ({}, {"changes_since": since}):
                if not wanted <= names.keys():
                    found = compute.servers(details=False, **everybody, **asked)
                    names |= {one.id: one.name for one in islice(found, _MOST_NAMED)}
        except (SDKException, ClientException):
            continue
        except AttributeError:  # openstacksdk has found no version of Nova's interface
            break
        break
    return names
