"""Tenure as a service of openstacksdk.

`load` adds it to a connection: call it, or name it in clouds.yaml as `vendor_hook: "tenureclient.sdk:load"`. Then
`connection.preemptible.tenure()` gives requests to Tenure.
"""

from __future__ import annotations

from openstack.connection import Connection
from openstack.proxy import Proxy
from openstack.service_description import ServiceDescription

from tenureclient.api import SERVICE_TYPE, TenureApi


class TenureProxy(Proxy):
    """Tenure in a connection of openstacksdk, with the connection's token and catalogue."""

    def tenure(self, cloud: str | None = None) -> TenureApi:
        """Return requests to a cloud of Tenure; without a name that of the region's name, or the only one."""
        return TenureApi(self, cloud, self.region_name)


class TenureDescription(ServiceDescription[TenureProxy]):
    """The service's type and the versions of its interface."""

    supported_versions = {"1": TenureProxy}  # noqa: RUF012 - as openstacksdk wants it


def load(connection: Connection) -> None:
    """Add the service to a connection, as its attribute `preemptible`."""
    connection.add_service(TenureDescription(service_type=SERVICE_TYPE))
