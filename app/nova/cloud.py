"""OpenStack's interfaces: servers, flavors and hypervisors of Nova, and providers of Placement.

Requests go through openstacksdk, which finds the services and renews the token; answers are read as they come, since
objects of the library would take seconds for thousands of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from app.domain.inputs import InputError
from app.domain.values import Resources
from app.nova.rules.lives import is_server_id
from app.nova.rules.reading import read_server
from app.nova.rules.seen import Server
from app.nova.rules.sizes import capacity_of

COMPUTE = "2.87"
"""The microversion spoken with Nova: the newest in which hypervisors tell their services and ask no host for it."""
PLACEMENT = "1.29"
_PAGE = 1000
_MOST_PAGES = 1000
_TIMEOUT_S = 60.0


class OpenStackFailed(Exception):
    """OpenStack did not answer, or not in the documented form."""


class OpenStackRefused(OpenStackFailed):
    """OpenStack answered with an error. `status` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status


class Provider(NamedTuple):
    """A resource provider of Placement; `generation` changes with its inventories, and with what runs there."""

    uuid: str
    name: str
    generation: int


class NovaCloud:
    """A cloud of OpenStack, by its interfaces. Threads may share it. `asked` is called once for each request."""

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        import openstack  # noqa: PLC0415 - slow to load
        from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - as above
        from openstack.exceptions import SDKException  # noqa: PLC0415 - as above

        self._failures = (ClientException, SDKException)
        self._asked = asked
        try:
            self._connection: Any = openstack.connect(app_name="tenure-nova", api_timeout=_TIMEOUT_S)
        except self._failures as error:
            raise InputError(
                f"no cloud of OpenStack is named: set OS_CLOUD, or OS_AUTH_URL and so on: {error}"
            ) from None

    def log_in(self) -> None:
        """Get a token and find the services, so that nothing later waits for that."""
        with self._told("logging in"):
            self._connection.authorize()
        self._json("compute", "/servers?limit=1")
        self._json("placement", "/")

    def servers(self) -> Iterator[Server]:
        """Yield all servers of all projects, newest first."""
        return self._servers({})

    def changed_since(self, at: datetime) -> Iterator[Server]:
        """Yield the servers that changed at this time of Nova's or later, deleted ones among them."""
        return self._servers({"changes-since": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")})

    def server(self, server: str) -> Server | None:
        """Return a server; None if there is none, or if it is deleted."""
        assert is_server_id(server)
        try:
            return self._read(self._json("compute", f"/servers/{server}")["server"])
        except OpenStackRefused as error:
            if error.status == 404:
                return None
            raise

    def flavors(self) -> Iterator[dict[str, Any]]:
        """Yield all flavors in Nova's own words, those that are not public included."""
        return self._pages("compute", "/flavors/detail", {"is_public": "None"}, "flavors")

    def make_flavor(self, body: Mapping[str, Any]) -> str:
        """Make a flavor, and return its id."""
        response = self._send("compute", "post", "/flavors", json={"flavor": dict(body)})
        with self._told("a new flavor"):
            return str(response.json()["flavor"]["id"])

    def specify(self, flavor: str, specs: Mapping[str, str]) -> None:
        """Set extra specs of a flavor; others stay."""
        self._do("post", f"/flavors/{quote(flavor)}/os-extra_specs", json={"extra_specs": dict(specs)})

    def hypervisors(self) -> dict[str, bool]:
        """Return for each hypervisor, by name, whether its service is enabled and up."""
        found = self._pages("compute", "/os-hypervisors/detail", {}, "hypervisors")
        with self._told("hypervisors"):
            return {one["hypervisor_hostname"]: (one["status"], one["state"]) == ("enabled", "up") for one in found}

    def providers(self, trait: str) -> list[Provider]:
        """Return the providers with a trait."""
        found = self._json("placement", f"/resource_providers?{urlencode({'required': trait})}")["resource_providers"]
        with self._told("providers"):
            return [Provider(one["uuid"], one["name"], one["generation"]) for one in found]

    def resources(self, provider: Provider) -> frozenset[str]:
        """Return the names of the resources that a provider has."""
        inventories = self._json("placement", f"/resource_providers/{quote(provider.uuid)}/inventories")
        with self._told("inventories"):
            return frozenset(inventories["inventories"])

    def capacity(self, provider: Provider) -> Resources:
        """Return what may be used of a provider; nothing if it has just gone."""
        path = f"/resource_providers/{quote(provider.uuid)}/inventories"
        try:
            inventories = self._json("placement", path)["inventories"]
        except OpenStackRefused as error:
            if error.status == 404:
                return Resources(0)
            raise
        with self._told("inventories"):
            return capacity_of(inventories)

    def delete(self, server: str) -> None:
        """Delete a server, if it is there."""
        self._end(server, lambda path: self._do("delete", path))

    def act(self, server: str, action: str) -> None:
        """Do an action without arguments to a server, if it is there: `shelve`, `forceDelete` and so on."""
        self._end(server, lambda path: self._do("post", f"{path}/action", json={action: None}))

    def reset(self, server: str) -> None:
        """Have Nova forget the task that it takes for going on."""
        self._end(server, lambda path: self._do("post", f"{path}/action", json={"os-resetState": {"state": "active"}}))

    def mark(self, server: str, marks: Mapping[str, str]) -> None:
        """Set metadata of a server; others stay."""
        self._end(server, lambda path: self._do("post", f"{path}/metadata", json={"metadata": dict(marks)}))

    def unmark(self, server: str, names: Mapping[str, str]) -> None:
        """Remove metadata of a server."""
        for place in [f"metadata/{quote(name)}" for name in names]:
            self._end(server, partial(self._remove, place))

    def tag(self, server: str, tag: str) -> None:
        """Give a server a tag."""
        self._end(server, lambda path: self._do("put", f"{path}/tags/{quote(tag)}"))

    def untag(self, server: str, tag: str) -> None:
        """Take a tag from a server."""
        self._end(server, partial(self._remove, f"tags/{quote(tag)}"))

    def _remove(self, place: str, path: str) -> None:
        self._do("delete", f"{path}/{place}")

    def _end(self, server: str, do: Callable[[str], None]) -> None:
        """Do something to a server. One that is not there any more needs nothing."""
        assert is_server_id(server)
        try:
            do(f"/servers/{server}")
        except OpenStackRefused as error:
            if error.status != 404:
                raise

    def _servers(self, query: Mapping[str, str]) -> Iterator[Server]:
        for told in self._pages("compute", "/servers/detail", {"all_tenants": "1", **query}, "servers"):
            yield self._read(told)

    def _read(self, told: Mapping[str, Any]) -> Server:
        with self._told("a server"):
            return read_server(told)

    def _pages(self, service: str, path: str, query: Mapping[str, str], key: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page. Nova names the last item's id as the next page's marker."""
        marker: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            page = self._json(service, f"{path}?{urlencode({**query, 'limit': _PAGE, **marker})}")
            yield from page[key]
            if not page.get(f"{key}_links") or not page[key]:
                return
            marker = {"marker": str(page[key][-1]["id"])}
        raise OpenStackFailed(f"{path} has no end")

    def _json(self, service: str, path: str) -> Any:  # noqa: ANN401 - JSON
        response = self._send(service, "get", path)
        with self._told(path):
            return response.json()

    def _do(self, method: str, path: str, **more: object) -> None:
        self._send("compute", method, path, **more)

    def _send(self, service: str, method: str, path: str, **more: object) -> Any:  # noqa: ANN401 - of requests
        self._asked()
        version = COMPUTE if service == "compute" else PLACEMENT
        with self._told(path):
            proxy = getattr(self._connection, service)
            response = getattr(proxy, method)(path, microversion=version, **more)
        if response.status_code >= 400:
            raise OpenStackRefused(response.status_code, f"{method.upper()} {path}: {_reason(response)}")
        return response

    def _told(self, doing: str) -> _Translating:
        return _Translating(doing, self._failures)


class _Translating:
    """Turns the errors of libraries, and of answers in another form, into OpenStackFailed."""

    def __init__(self, doing: str, failures: tuple[type[Exception], ...]) -> None:
        self._doing, self._failures = doing, (*failures, KeyError, TypeError, ValueError)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._failures):
            raise OpenStackFailed(f"{self._doing}: {type(error).__name__}: {error}") from error


def _reason(response: Any) -> str:  # noqa: ANN401 - of requests
    """Return what an error says of itself, shortly."""
    with suppress(ValueError, AttributeError, TypeError):
        told = response.json()
        found = next(iter(told.values()))
        return str(found["message"] if isinstance(found, dict) else found[0]["detail"])[:300]
    return str(response.reason)[:300]
