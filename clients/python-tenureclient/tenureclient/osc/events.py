"""The commands `openstack tenure decision list` and `event list`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import islice
from typing import Any

from tenureclient.api import RequestRefused, TenureApi
from tenureclient.osc.answers import TenureLister, count

_FOLLOW_S = 1.0


class ListDecisions(TenureLister):
    """List the newest decisions, with a sentence for each"""

    columns = ("seq", "at", "outcome", "id", "market", "flavor", "node", "reason", "sentence")
    nothing = "There is no such decision."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--outcome", metavar="<outcome>", help="accepted, rejected, stopped, evicted and so on")
        parser.add_argument("--market", choices=["on_demand", "spot"], help="Decisions on this market")
        parser.add_argument("--limit", metavar="<n>", type=count, default=20, help="At most so many, default: 20")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the decisions."""
        asked = {"outcome": given.outcome, "market": given.market}
        return self.rows(islice(tenure.every("/decisions", "decisions", **asked), given.limit))


class ListEvents(TenureLister):
    """List the newest events of the log; with --follow go on, with a line of JSON for each, until Ctrl-C"""

    columns = ("seq", "at", "kind", "id", "node", "flavor")
    nothing = "There is no such event."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--after",
            metavar="<seq>",
            type=int,
            help="Events after this one, 0: from the first on; default: the newest",
        )
        parser.add_argument("--limit", metavar="<n>", type=count, default=1000, help="At most so many, default: 1000")
        parser.add_argument("--follow", action="store_true", help="Go on with what comes")
        return parser

    def tell(self, tenure: TenureApi, given: argparse.Namespace) -> Any:  # noqa: ANN401 - of cliff
        """Ask for the events."""
        after = _before_newest(tenure, given.limit) if given.after is None else given.after
        if given.follow:
            self._follow(tenure, after)
        return self.rows(islice(tenure.every("/events", "events", after_seq=after), given.limit))

    def _follow(self, tenure: TenureApi, after: int) -> None:
        """Write what comes until the user ends it."""
        try:
            while True:
                for event in tenure.every("/events", "events", after_seq=after):
                    sys.stdout.write(json.dumps(event) + "\n")
                    after = event["seq"]
                sys.stdout.flush()
                time.sleep(_FOLLOW_S)
        except KeyboardInterrupt:
            raise SystemExit(130) from None


def _before_newest(tenure: TenureApi, wanted: int) -> int:
    """Return the seq after which the log has so many events."""
    try:
        return max(0, int(tenure.get("")["seq"]) - wanted)
    except RequestRefused:  # the log is refused as well, with the role that it needs
        return 0
