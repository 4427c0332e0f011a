"""The servers of one's own project: ordered, listed and deleted without being an admin."""

from __future__ import annotations

from typing import Any

from app.nova.rules.owned import OwnServer, ServerOrder, body_of, read_own
from app.nova.rules.sizes import is_spot, plain_name
from app.nova.session import OpenStackRefused, OpenStackSession

_MISSING = 404


class OwnServers(OpenStackSession):
    """A project of a cloud of OpenStack, as one of its members sees it."""

    timeout_s = 15.0

    def servers(self, prefix: str) -> list[OwnServer]:
        """Return the project's servers whose names begin so, the oldest first; those that are being built, too."""
        found = [*self._pages("compute", "/servers/detail", {"name": f"^{prefix}"}, "servers")]
        with self._told("a server"):
            return sorted((read_own(one) for one in found), key=lambda one: (one.created_at, one.id))

    def order(self, order: ServerOrder) -> str:
        """Ask for a server; return its id. It is built later, or is in error then."""
        response = self._send("compute", "post", "/servers", json=body_of(order))
        with self._told("a new server"):
            return str(response.json()["server"]["id"])

    def delete(self, server: str) -> None:
        """Delete a server, if it is there."""
        self._end(server, lambda path: self._do("delete", path))

    def image_id(self, image: str) -> str:
        """Return the id of an image, by its name or id. Raise OpenStackRefused if there is none."""
        return self._id_of("image", image, lambda: self._connection.image.find_image(image))

    def network_id(self, network: str) -> str:
        """Return the id of a network, by its name or id; `auto` and `none` are what they are."""
        if network in {"auto", "none"}:
            return network
        return self._id_of("network", network, lambda: self._connection.network.find_network(network))

    def flavor_id(self, plain: str, *, spot: bool) -> str:
        """Return the id of the flavor of this name in Tenure, or of its spot twin."""
        for one in self._pages("compute", "/flavors/detail", {}, "flavors"):
            specs = one.get("extra_specs") or {}
            if is_spot(specs) is spot and plain_name(one["name"], specs) == plain:
                return str(one["id"])
        kind = "spot flavor for" if spot else "flavor"
        raise OpenStackRefused(_MISSING, f"there is no {kind} {plain} that this project may use")

    def _id_of(self, what: str, name: str, find: Any) -> str:  # noqa: ANN401 - the library has no types
        self._asked()
        with self._told(f"{what} {name}"):
            found = find()
        if found is None:
            raise OpenStackRefused(_MISSING, f"there is no {what} {name} that this project may use")
        return str(found.id)
