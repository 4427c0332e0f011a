"""OpenStack for its admins: servers of all projects, flavors and hypervisors of Nova, and providers of Placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from app.domain.values import Resources
from app.nova.rules.lives import is_server_id
from app.nova.rules.reading import read_server
from app.nova.rules.seen import Server
from app.nova.rules.sizes import capacity_of
from app.nova.session import PAGE, OpenStackRefused, OpenStackSession

_LISTED = "2.61"
"""The microversion of lists of servers: from 2.63 on Nova reads more of each than is wanted here."""

_ON_NODES = frozenset({"compute_terminate_instance", "compute_soft_delete_instance"})
_ACTIONS = 5
"""The newest actions of a server are read, one request for each deletion among them."""


class Provider(NamedTuple):
    """A resource provider of Placement; `generation` changes with its inventories, and with what runs there."""

    uuid: str
    name: str
    generation: int


class NovaCloud(OpenStackSession):
    """A cloud of OpenStack as its admin sees it. Threads may share it."""

    def log_in(self) -> None:
        """Get a token and find the services, so that nothing later waits for that.

        Raises OpenStackForbidden if the user is not let in, or is no admin there.
        """
        with self._told("logging in"):
            self._connection.session.get_token()  # the library's own method hides what Keystone answered
        self._json("compute", "/os-hypervisors?limit=1")
        self._json("placement", "/resource_providers?name=none")

    def servers(self, expected: int) -> list[Server]:
        """Return all servers of all projects. `expected`: about how many there are.

        A long list is read from both ends at once until the readers meet, since an answer takes one process of Nova's
        interface seconds.
        """
        newest: dict[str, Server] = {}
        oldest: dict[str, Server] = {}
        with ThreadPoolExecutor(1) as beside:
            other = beside.submit(self._read_until, oldest, newest, "asc") if expected > PAGE else None
            self._read_until(newest, oldest, "desc")
            if other is not None:
                other.result()
        return [*(newest | oldest).values()]

    def _read_until(self, mine: dict[str, Server], theirs: Mapping[str, Server], order: str) -> None:
        """Read servers from one end of Nova's list up to one that the other reader has."""
        for server in self._servers({"sort_key": "created_at", "sort_dir": order}):
            if server.id in theirs:
                return
            mine[server.id] = server

    def changed_since(self, at: datetime) -> Iterator[Server]:
        """Yield the servers that changed at this time of Nova's or later, deleted ones among them."""
        return self._servers({"changes-since": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")})

    def server(self, server: str) -> Server | None:
        """Return a server, also a deleted one as long as Nova keeps its row; None if it was never in a cell."""
        assert is_server_id(server)
        try:
            return self._read(self._json("compute", f"/servers/{server}")["server"])
        except OpenStackRefused as error:
            if error.status == 404:
                return self._deleted(server)
            raise

    def _deleted(self, server: str) -> Server | None:
        asked = urlencode({"all_tenants": "1", "deleted": "True", "uuid": server, "limit": "1"})
        with self._told("a deleted server"):
            found = [self._read(one) for one in self._json("compute", f"/servers/detail?{asked}", _LISTED)["servers"]]
        # Nova leaves out a filter that a policy of the cloud does not let this user use.
        return next((one for one in found if one.id == server), None)

    def is_at_deletion(self, server: str) -> bool:
        """Return whether a server's node has begun to delete it, and not ended. True if Nova does not tell that."""
        assert is_server_id(server)
        path = f"/servers/{server}/os-instance-actions"
        try:
            actions = self._json("compute", f"{path}?limit={_ACTIONS}")["instanceActions"]
            requests = [str(one["request_id"]) for one in actions if one["action"] == "delete"]
            told = [self._json("compute", f"{path}/{quote(one)}")["instanceAction"] for one in requests]
        except OpenStackRefused:
            return True
        with self._told("actions of a server"):
            return any(_goes_on(one) for one in told)

    def building(self) -> frozenset[str]:
        """Return the ids of all servers that are being built, those in no cell yet among them."""
        found = self._pages("compute", "/servers", {"all_tenants": "1", "status": "BUILD"}, "servers", _LISTED)
        with self._told("a server"):
            return frozenset(str(one["id"]) for one in found)

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

    def ratios(self, provider: Provider) -> dict[str, float]:
        """Return the resources that a provider has, each with its allocation ratio."""
        inventories = self._json("placement", f"/resource_providers/{quote(provider.uuid)}/inventories")
        with self._told("inventories"):
            return {name: float(one.get("allocation_ratio", 1.0)) for name, one in inventories["inventories"].items()}

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

    def delete(self, server: str) -> bool:
        """Delete a server; return False if it is not there."""
        return self._end(server, lambda path: self._do("delete", path))

    def act(self, server: str, action: str) -> bool:
        """Do an action without arguments to a server: `shelve`, `forceDelete` and so on. False if it is not there."""
        return self._end(server, lambda path: self._do("post", f"{path}/action", json={action: None}))

    def reset(self, server: str) -> bool:
        """Have Nova forget the task that it takes for going on; False if the server is not there."""
        asked = {"os-resetState": {"state": "active"}}
        return self._end(server, lambda path: self._do("post", f"{path}/action", json=asked))

    def mark(self, server: str, marks: Mapping[str, str]) -> bool:
        """Set metadata of a server; others stay. False if the server is not there."""
        return self._end(server, lambda path: self._do("post", f"{path}/metadata", json={"metadata": dict(marks)}))

    def unmark(self, server: str, names: Mapping[str, str]) -> bool:
        """Remove metadata of a server; False if there is none of them."""
        removed = [self._end(server, partial(self._remove, f"metadata/{quote(name)}")) for name in names]
        return any(removed)

    def tag(self, server: str, tag: str) -> bool:
        """Give a server a tag; False if the server is not there."""
        return self._end(server, lambda path: self._do("put", f"{path}/tags/{quote(tag)}"))

    def untag(self, server: str, tag: str) -> bool:
        """Take a tag from a server; False if it is not there."""
        return self._end(server, partial(self._remove, f"tags/{quote(tag)}"))

    def _remove(self, place: str, path: str) -> None:
        self._do("delete", f"{path}/{place}")

    def _servers(self, query: Mapping[str, str]) -> Iterator[Server]:
        asked = {"all_tenants": "1", **query}
        for told in self._pages("compute", "/servers/detail", asked, "servers", _LISTED):
            yield self._read(told)

    def _read(self, told: Mapping[str, Any]) -> Server:
        with self._told("a server"):
            return read_server(told)


def _goes_on(deletion: Mapping[str, Any]) -> bool:
    """Tell whether a node is at a deletion. A cloud's policy may hide the events of actions."""
    events = deletion.get("events")
    return events is None or any(one["event"] in _ON_NODES and one["finish_time"] is None for one in events)
