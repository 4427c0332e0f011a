"""The command `openstack tenure server create`: Nova's own, with a lifetime, and an answer that tells the promise."""

from __future__ import annotations

import argparse
import time
from typing import Any

from osc_lib import exceptions

from tenureclient.api import NOT_FOUND, RequestRefused, TenureApi
from tenureclient.osc.answers import TenureShow, duration_s, lifetime_s, probability, shown
from tenureclient.osc.novas import check_spot, is_known
from tenureclient.osc.ordering import add_options, order_of
from tenureclient.osc.servers import FIELDS, with_promise

_LOOK_S = 1.0


class CreateSpotServer(TenureShow):
    """Create a spot server in Nova for a lifetime, and tell what is promised; a refused one is deleted again"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name of the server")
        parser.add_argument("--flavor", metavar="<flavor>", required=True, help="A spot flavor, by name or id")
        parser.add_argument("--lifetime", metavar="<time>", type=lifetime_s, help="Lifetime, such as 2h")
        parser.add_argument("--probability", metavar="<p>", type=probability, help="Acceptable risk of an eviction")
        parser.add_argument("--keep", action="store_true", help="Keep a server that was refused, in state ERROR")
        parser.add_argument(
            "--timeout", metavar="<time>", type=duration_s, default=300.0, help="Wait so long, default: 5m"
        )
        add_options(parser)
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Create the server, wait for it, and ask for the promise."""
        connection = self.app.client_manager.sdk_connection
        compute = connection.compute
        check_spot(compute, given.flavor)
        asked = {"tenure:lifetime": given.lifetime, "tenure:probability": given.probability}
        hints = {name: f"{value:.12g}" for name, value in asked.items() if value is not None}
        server = compute.create_server(**order_of(connection, given, hints))
        server = self._wait(compute, server.id, given.timeout)
        if server.status == "ERROR":
            why = (server.fault or {}).get("message") or "Nova does not say why"
            kept = self._end(compute, server.id, keep=given.keep)
            raise exceptions.CommandError(
                f"Server {server.id} was refused, {kept}: {why.rstrip('.')}.{_explained_by(tenure, server.id)}"
            )
        life = self._life(tenure, server.id)
        if life["market"] != "spot":
            kept = self._end(compute, server.id, keep=given.keep)
            raise exceptions.CommandError(
                f"Server {server.id} is no spot server, {kept}: {given.flavor} is no spot flavor, which could not be"
                " seen before, as this cloud hides the extra specs of its flavors"
            )
        return shown(with_promise(life), FIELDS)

    def _end(self, compute: Any, server: str, *, keep: bool) -> str:  # noqa: ANN401 - of openstacksdk
        """Delete a server that is not what was asked for, unless the user keeps it. Return what became of it."""
        if keep:
            return "it is kept"
        compute.delete_server(server)
        return "it is deleted again"

    def _life(self, tenure: TenureApi, server: str) -> dict[str, Any]:
        try:
            return tenure.instance_of(server)
        except RequestRefused as refused:
            if refused.code != NOT_FOUND:
                raise
            why = f"Server {server} runs, but Tenure was not asked for it, so nothing is promised"
            raise RequestRefused(refused.status, refused.code, why) from refused

    def _wait(self, compute: Any, server: str, timeout_s: float) -> Any:  # noqa: ANN401 - of openstacksdk
        """Return the server once it is built, or was not."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = compute.get_server(server)
            if found.status in ("ACTIVE", "ERROR"):
                return found
            if time.monotonic() > deadline:
                raise exceptions.CommandError(f"Server {server} is still in state {found.status} after {timeout_s:g} s")
            time.sleep(_LOOK_S)


def _explained_by(tenure: TenureApi, server: str) -> str:
    """Return where a refusal is explained. Of what Nova, or Tenure's filter in it, refused, Tenure may know nothing."""
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 - `openstack --help` loads no HTTP library

    try:
        is_explained = is_known(tenure, server)
    except (RequestRefused, ClientException):  # Nova's reason is told all the same
        is_explained = True
    return f" It is explained by: openstack tenure server explain {server}" if is_explained else ""
