"""The commands `openstack tenure server list`, `show` and `explain`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice
from typing import Any

from tenureclient.api import TenureApi, part
from tenureclient.osc.answers import TenureLister, TenureShow, count, shown
from tenureclient.osc.novas import life_of, named

FIELDS = (
    "id", "status", "market", "flavor", "node", "at", "lifetime_s", "eviction_probability", "reason", "ended_at",
    "project", "owner",
)  # fmt: skip


def with_promise(life: Mapping[str, Any]) -> dict[str, Any]:
    """Return a life with the probability that holds for it: the policy's, where its start asked for none of its own."""
    held = (life.get("quote") or {}).get("eviction_probability")
    return {**life, "eviction_probability": life["eviction_probability"] if held is None else held}


class ListServers(TenureLister):
    """List servers as Tenure knows them, also those that it refused"""

    columns = ("id", "name", "status", "market", "flavor", "node", "at", "lifetime_s", "eviction_probability", "reason")
    nothing = "There is no such server."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--status", metavar="<status>", help="running, rejected, stopped or evicted")
        parser.add_argument("--market", choices=["on_demand", "spot"], help="Servers of this market")
        parser.add_argument("--project", metavar="<project>", help="Servers of this project, by its id")
        parser.add_argument("--limit", metavar="<n>", type=count, default=1000, help="At most so many, default: 1000")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the list."""
        asked = {"status": given.status, "market": given.market, "project": given.project}
        found = islice(tenure.every("/instances", "instances", **asked), given.limit)
        return self.rows(named(self.app.client_manager, map(with_promise, found), "at"))


class _OfServer(TenureShow):
    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Name or id of a server, also of one that has ended")
        return parser


class ShowServer(_OfServer):
    """Show the promise to a server, and what became of it"""

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the server's newest life."""
        return shown(with_promise(life_of(self.app.client_manager, tenure, given.server)), FIELDS)


class ExplainServer(_OfServer):
    """Explain in words why a server was admitted, refused or evicted"""

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the explanation of the server's newest life."""
        life = life_of(self.app.client_manager, tenure, given.server)
        explained = tenure.get(f"/instances/{part(life['id'])}/explanation")
        told = {**explained["instance"], "explanation": "\n".join(explained["sentences"])}
        return shown(told, ("id", "status", "market", "flavor", "node", "reason", "explanation"))
