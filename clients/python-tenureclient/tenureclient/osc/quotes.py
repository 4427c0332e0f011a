"""The command `openstack tenure quote`."""

from __future__ import annotations

import argparse
from typing import Any

from tenureclient.api import TenureApi
from tenureclient.osc.answers import TenureLister, lifetime_s, probability
from tenureclient.osc.novas import flavor_name


class ListQuotes(TenureLister):
    """Tell the lifetime that a spot server of each flavor would be promised now, or the risk of one asked for"""

    columns = (
        "flavor", "slots", "eviction_probability", "lifetime_s", "asked_lifetime_s", "estimated_eviction_probability",
        "eviction_probability_bound",
    )  # fmt: skip
    nothing = "Nothing is quoted for this."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--flavor", metavar="<flavor>", help="Name of a flavor, or name or id of one of Nova's")
        parser.add_argument("--lifetime", metavar="<time>", type=lifetime_s, help="Lifetime to ask for, such as 2h")
        parser.add_argument("--probability", metavar="<p>", type=probability, help="Acceptable risk of an eviction")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the quotes of the newest table."""
        flavor = given.flavor
        if flavor is not None:
            known = {one["name"] for one in tenure.every("/flavors", "flavors")}
            flavor = flavor_name(self.app.client_manager, flavor, known)
        asked = {"lifetime_s": given.lifetime, "eviction_probability": given.probability}
        quotes = tenure.get("/quotes", flavor=flavor, **asked)["quotes"]
        for quote in quotes:
            if quote.get("displaced_count"):  # services before there was one do not tell it
                self.note(
                    f"{quote['flavor']}: no room is free, but that of servers beyond their lifetimes would be taken"
                )
            if not quote["slots"]:
                self.note(f"{quote['flavor']}: no room for one more now, so none would be admitted")
        return self.rows(quotes)
