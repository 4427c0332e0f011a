"""Commands of a whole cloud: `openstack tenure cloud list`, `status`, `sla show`, `reliability`, `policy`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tenureclient.api import TenureApi
from tenureclient.osc.answers import TenureLister, TenureShow, shown

_STATUS = (
    "name", "at", "seq", "policy.guarantee", "policy.eviction_probability", "policy.grace_s",
    "counts.on_demand_requested", "counts.on_demand_admitted", "counts.spot_requested", "counts.spot_admitted",
    "counts.spot_evicted", "nodes", "cores", "cores_free",
)  # fmt: skip


class ListClouds(TenureLister):
    """List the clouds that you may see"""

    columns = ("name",)
    nothing = "There is no cloud that you may see."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the clouds."""
        return self.rows(tenure.pages("/v1/clouds", "clouds"))


class ShowStatus(TenureShow):
    """Show what the cloud holds now, and what it has admitted and evicted"""

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the cloud and its nodes."""
        nodes = list(tenure.every("/nodes", "nodes"))
        room = {
            "nodes": len(nodes),
            "cores": sum(node["capacity"]["cores"] for node in nodes),
            "cores_free": sum(node["free"]["cores"] for node in nodes),
        }
        return shown(tenure.get("") | room, _STATUS)


class ListSlaClasses(TenureLister):
    """Show how each class of promises stands. The verdict judges; is_kept only compares the share with the promise"""

    columns = ("promised", "admitted", "running", "evicted", "ratio", "low", "high", "verdict", "is_kept", "sentence")
    nothing = "No promise has been given yet."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the classes."""
        return self.rows(tenure.get("/sla")["classes"])


class ListReliability(TenureLister):
    """Compare what was said of admitted servers with what happened"""

    columns = ("by", "name", "cases", "evicted", "said", "happened", "low", "high", "sentence")
    nothing = "No promise has ended yet, so there is nothing to compare."

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the verdicts."""
        return self.rows(tenure.get("/reliability").get("truths", ()))


class ShowPolicy(TenureShow):
    """Show the policy in force"""

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401, ARG002 - of cliff
        """Ask for the policy."""
        policy = tenure.get("")["policy"]
        return shown(policy, sorted(policy))


class SetPolicy(TenureShow):
    """Change fields of the policy, from now on (admin)"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "fields",
            metavar="<field=value>",
            nargs="+",
            type=_field,
            help="Such as eviction_probability=0.02; openstack tenure policy show lists the fields",
        )
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Change the policy, and return it."""
        policy = tenure.patch("", policy=dict(given.fields))["policy"]
        return shown(policy, sorted(policy))


def _field(text: str) -> tuple[str, Any]:
    """Return the name and the value of a field; a value that is no JSON is a text."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not written FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
