"""The commands `openstack tenure eviction list` and `confirm`, and `openstack tenure drill`."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import exceptions

from tenureclient.api import TenureApi, part
from tenureclient.osc.answers import TenureCommand, TenureLister, TenureShow, shown
from tenureclient.osc.novas import life_of, named, status_on_host
from tenureclient.osc.servers import with_promise


class ListEvictions(TenureLister):
    """List servers that are being evicted, with the time until which each may go on"""

    columns = ("id", "name", "node", "flavor", "reason", "scheduled_at", "deadline", "status")
    nothing = "No server is being evicted."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the hand-overs."""
        return self.rows(named(self.app.client_manager, tenure.every("/handovers", "handovers"), "scheduled_at"))


class ConfirmEviction(TenureCommand):
    """Confirm that an evicted server is gone, before its time is up"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Name or id of the server")
        parser.add_argument("--yes", action="store_true", help="Do so though it is there still: that ends it now")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Confirm the hand-over of the server's newest life."""
        life = life_of(self.app.client_manager, tenure, given.server)
        if life["status"] == "evicted" and not given.yes:
            self._check_gone(life["id"].partition(".")[0])
        tenure.post(f"/handovers/{part(life['id'])}/confirm")

    def _check_gone(self, server: str) -> None:
        """Raise CommandError if a server is on a host of Nova's still: a daemon would end it before its time."""
        status = status_on_host(self.app.client_manager, server)
        if status is not None:
            raise exceptions.CommandError(
                f"Server {server} is still on a host of Nova's, in state {status}. A confirmation ends it now, before"
                f" its time is up. To do it all the same: openstack tenure eviction confirm {server} --yes"
            )


class DrillEviction(TenureShow):
    """Evict a spot server as a drill, the one started last if none is named (admin; without --yes reader)"""

    needs = "This command needs the role admin with --yes, and the role reader without. "

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", nargs="?", help="Name or id of a server")
        parser.add_argument("--yes", action="store_true", help="Evict it; without this, tell only which it would be")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Evict, or tell the victim."""
        manager = self.app.client_manager
        instance = None if given.server is None else life_of(manager, tenure, given.server)["id"]
        if given.yes:
            return shown(tenure.post("/drill", instance=instance), ("id", "seq", "at"))
        victim = tenure.get("/drill", instance=instance)
        if not victim:
            raise exceptions.CommandError("No spot server runs")
        self.note(f"Nobody was evicted. To do it: openstack tenure drill {victim['id']} --yes")
        return shown(with_promise(victim), ("id", "flavor", "node", "at", "lifetime_s", "eviction_probability"))
