"""The commands `openstack tenure node list`, `drain` and `open`."""

from __future__ import annotations

import argparse
from typing import Any

from tenureclient.api import TenureApi, part
from tenureclient.osc.answers import TenureLister, TenureShow, shown

_FIELDS = (
    "name", "status", "capacity.cores", "capacity.memory_mib", "capacity.disk_gib", "free.cores", "free.memory_mib",
    "free.disk_gib",
)  # fmt: skip


class ListNodes(TenureLister):
    """List nodes with what is free on them"""

    columns = _FIELDS
    nothing = "The cloud has no node."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the nodes."""
        return self.rows(tenure.every("/nodes", "nodes"))


class _OfNode(TenureShow):
    deed = ""
    enables = ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name of the node: the hypervisor's")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        node = tenure.post(f"/nodes/{part(given.node)}/{self.deed}")
        self.note(
            "If a daemon keeps this cloud (tenure nova run), it undoes this within seconds, for it follows Nova: use"
            f" openstack compute service set --{self.enables} HOST nova-compute"
        )
        return shown(node, _FIELDS)


class DrainNode(_OfNode):
    """Let a node take no more servers (admin); a daemon (tenure nova run) undoes it within seconds.

    In a cloud that a daemon keeps, drain the host in Nova: openstack compute service set --disable HOST nova-compute.
    """

    deed = "drain"
    enables = "disable"


class OpenNode(_OfNode):
    """Let a drained node take servers again (admin); a daemon (tenure nova run) undoes it within seconds.

    In a cloud that a daemon keeps, open the host in Nova: openstack compute service set --enable HOST nova-compute.
    """

    deed = "open"
    enables = "enable"
