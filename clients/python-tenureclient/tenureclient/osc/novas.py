"""Names of Nova's in commands of Tenure: servers by name or id, flavors by name or id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from osc_lib import exceptions

from tenureclient.api import NOT_FOUND, RequestRefused, TenureApi, part

_LIFE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.[0-9]+)?")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_ .-]+")
_MARKET = "tenure:market"
_LISTED_AS = "tenure:flavor"
_SPOT = "spot"
_GONE = ("DELETED", "SOFT_DELETED")
_EVER = "1970-01-01T00:00:00Z"
_MOST_TRIED = 50
_WHERE_IDS = "openstack tenure server list shows ids"
_MOST_NAMED = 10_000
"""Servers of Nova's that are read for their names. Rows beyond have none."""


def life_of(manager: Any, tenure: TenureApi, name: str) -> dict[str, Any]:  # noqa: ANN401 - of osc-lib
    """Return the newest life in Tenure of a server, by its name or id; or one life, by its own id.

    Raises CommandError if it has none there.
    """
    server = _server_id(manager, tenure, name)
    try:
        return tenure.instance_of(server)
    except RequestRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        why = _fault(manager, server.partition(".")[0])
        raise exceptions.CommandError(
            f"Tenure was never asked for this server, or it is another project's, or it ran without a promise, as one"
            f" that was put on a host by force, and was deleted for that ({refused.code}). What Nova refuses, or"
            f" Tenure's filter in Nova by itself as for a wrong hint, does not come to Tenure. {why}"
        ) from refused


def _fault(manager: Any, server: str) -> str:  # noqa: ANN401 - as above
    """Return what Nova says against a server, or where to look for it."""
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - `openstack --help` loads no HTTP library
    from openstack.exceptions import SDKException  # noqa: PLC0415 - as above

    where = f"openstack server show {server} tells its fault, if it is in ERROR."
    try:
        found = manager.sdk_connection.compute.get_server(server)
    except (SDKException, ClientException, AttributeError):  # the last one: no version of Nova's interface was found
        return where
    message = (found.fault or {}).get("message")
    return f"Nova's fault of it: {message}" if message else where


def status_on_host(manager: Any, server: str) -> str | None:  # noqa: ANN401 - as above
    """Return Nova's status of a server that is still on a host; None if it is not, or if there is no Nova to ask.

    Raises CommandError if Nova cannot tell.
    """
    from keystoneauth1.exceptions import CatalogException, ClientException  # noqa: PLC0415 - as above
    from openstack.exceptions import NotFoundException, SDKException  # noqa: PLC0415 - as above

    try:
        found = manager.sdk_connection.compute.get_server(server)
    except (NotFoundException, CatalogException, AttributeError):  # the last one as above
        return None
    except (SDKException, ClientException) as error:
        raise exceptions.CommandError(
            f"Nova does not tell whether server {server} is gone: {str(error).rstrip('.')}. With --yes it is not asked"
        ) from error
    return str(found.status) if found.host_id and found.status not in _GONE else None


def _server_id(manager: Any, tenure: TenureApi, name: str) -> str:  # noqa: ANN401 - as above
    """Return the id of a server of Nova's. An id is taken as it is: Tenure may know servers that Nova has forgotten.

    A name is looked for in the user's project, then in all projects if this user may see them; then in the same way
    among the servers that were deleted.
    """
    from openstack.exceptions import DuplicateResource, ForbiddenException  # noqa: PLC0415 - as above

    if _LIFE.fullmatch(name):
        return name
    find, found = manager.sdk_connection.compute.find_server, None
    try:
        found = find(name, details=False) or find(name, details=False, all_projects=True)
    except DuplicateResource as error:
        raise exceptions.CommandError(f"Several servers have the name {name!r}: give an id ({_WHERE_IDS})") from error
    except ForbiddenException:
        found = None
    return str(found.id) if found is not None else _deleted_id(manager, tenure, name)


def _deleted_id(manager: Any, tenure: TenureApi, name: str) -> str:  # noqa: ANN401 - as above
    """Return the id of the only deleted server of a name; of several the only one that Tenure knows."""
    ids = _deleted_ids(manager, name)
    if len(ids) > 1:
        ids = [one for one in ids[:_MOST_TRIED] if is_known(tenure, one)] or ids
    if not ids:
        raise exceptions.CommandError(
            f"No server with the name {name!r}, nor a deleted one of which Nova still tells ({_WHERE_IDS})"
        )
    if len(ids) > 1:
        raise exceptions.CommandError(f"Several deleted servers had the name {name!r}: give an id ({_WHERE_IDS})")
    return ids[0]


def _deleted_ids(manager: Any, name: str) -> list[str]:  # noqa: ANN401 - as above
    """Return the ids of the deleted servers of a name that Nova still tells."""
    from openstack.exceptions import ForbiddenException  # noqa: PLC0415 - as above

    asked: dict[str, Any] = {"details": False, "changes_since": _EVER}
    if _PLAIN_NAME.fullmatch(name):  # Nova reads it as a pattern
        asked["name"] = name
    for everybody in ({}, {"all_projects": True}):
        try:
            found = manager.sdk_connection.compute.servers(**asked, **everybody)
            ids = [str(one.id) for one in islice(found, _MOST_NAMED) if one.name == name]
        except ForbiddenException:
            ids = []
        if ids:
            return ids
    return []


def is_known(tenure: TenureApi, server: str) -> bool:
    """Return True if Tenure was asked for a server of this id, and tells it to the caller."""
    try:
        tenure.get(f"/instances/{part(server)}")
    except RequestRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        return False
    return True


def check_spot(compute: Any, name: str) -> None:  # noqa: ANN401 - as above
    """Raise CommandError if a flavor of Nova's is no spot flavor. Where its extra specs are hidden nothing is known."""
    from openstack.exceptions import ForbiddenException  # noqa: PLC0415 - as above

    try:
        found = compute.find_flavor(name, ignore_missing=False, get_extra_specs=True)
        if _is_spot(found):
            return
        spot = {str(one.name): one.extra_specs.get(_LISTED_AS) for one in compute.flavors() if _is_spot(one)}
    except ForbiddenException:
        return
    twins = sorted(twin for twin, of in spot.items() if of == found.name)
    if twins:
        more = f"its spot twin is {twins[0]}"
    elif spot:
        more = f"it has no spot twin. Spot flavors are {', '.join(sorted(spot))}"
    else:
        more = "there is no spot flavor that you may see"
    raise exceptions.CommandError(f"{found.name} is no spot flavor; {more}. Nothing was asked of Nova")


def _is_spot(flavor: Any) -> bool:  # noqa: ANN401 - as above
    return bool((flavor.extra_specs or {}).get(_MARKET) == _SPOT)


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
