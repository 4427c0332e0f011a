"""The commands `openstack tenure webhook list`, `create`, `delete` and `test`."""

from __future__ import annotations

import argparse
from typing import Any

from tenureclient.api import TenureApi, part
from tenureclient.osc.answers import TenureCommand, TenureLister, TenureShow, shown


class ListReceivers(TenureLister):
    """List the webhooks of the cloud with their progress (admin)"""

    columns = ("id", "url", "status", "kinds", "delivered_count", "delivered_at", "last_error", "dead_count")
    nothing = "There is no webhook."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the webhooks."""
        return self.rows(tenure.every("/webhooks", "webhooks"))


class CreateReceiver(TenureShow):
    """Create a webhook; its secret is shown only now (admin)"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("url", metavar="<url>", help="Address that events are sent to")
        parser.add_argument("--kind", metavar="<kind>", action="append", help="A kind of event; all if none is given")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Create the webhook."""
        return shown(tenure.post("/webhooks", url=given.url, kinds=given.kind), ("id", "url", "kinds", "secret"))


class DeleteReceiver(TenureCommand):
    """Delete a webhook (admin)"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("webhook", metavar="<webhook>", help="Id of the webhook")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Delete the webhook."""
        tenure.delete(f"/webhooks/{part(given.webhook)}")


class TestReceiver(TenureShow):
    """Send a message to a webhook's receiver, and tell its answer (admin)"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("webhook", metavar="<webhook>", help="Id of the webhook")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Send the message."""
        return shown(tenure.post(f"/webhooks/{part(given.webhook)}/test"), ("taken", "status", "error"))
