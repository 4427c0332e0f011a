"""Rate limits: for requests of a token, for messages of a peer, for requests of an address without a valid token.

They are counted in this process, by the library `limits` on a clock that is never set. A token's requests are reserved
in portions of a hundredth of the limit: asking the library for each would cost a start or stop some three per cent
(docs/decisions/0027-rate-limits.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.strategies import FixedWindowRateLimiter
from starlette.types import Scope

from app.platform.http.addresses import place_of
from app.platform.http.errors import RateExceeded
from app.platform.http.windows import Windows
from app.platform.telemetry.metrics import PAGE

_PARTS = 100
_TOO_MANY = "the token sends more requests than it may, of which some count as several"
COSTS = {
    PAGE: 10,
    "advise_checkpoint": 5,
    "advise_flavor_checkpoint": 5,
    "advise_venue_checkpoint": 20,
    "explain_instance": 10,
    "extend_instance": 5,
    "check_readiness": 20,
    "list_cluster_checkpoints": 10,
    "list_cluster_events": 10,
    "list_cluster_jobs": 10,
    "list_cluster_nodes": 10,
    "award_job": 10,
    "offer_job": 10,
    "show_offer": 2,
    "show_outputs": 5,
    "release_outputs": 10,
    "withdraw_offer": 10,
    "list_attempts": 5,
    "list_clusters": 10,
    "list_dead_letters": 10,
    "list_decisions": 10,
    "list_events": 10,
    "list_flavors": 10,
    "list_handovers": 10,
    "list_instances": 10,
    "list_jobs": 10,
    "list_nodes": 10,
    "list_owners": 10,
    "list_prices": 10,
    "list_proposals": 20,
    "list_runs": 10,
    "list_tables": 10,
    "list_peers": 10,
    "list_plans": 10,
    "list_pools": 10,
    "list_tokens": 10,
    "list_venues": 10,
    "observe_machines": 20,
    "list_webhooks": 10,
    "make_plan": 50,
    "quote_extension": 5,
    "read_cloud_metrics": 100,
    "read_cluster_cost": 20,
    "read_cluster_metrics": 100,
    "read_peer_metrics": 100,
    "read_process_metrics": 100,
    "read_standing": 20,
    "read_curves": 20,
    "promise_peer": 5,
    "read_peer_reliability": 20,
    "read_pool_survival": 20,
    "read_quotes": 5,
    "read_next_move": 5,
    "read_reliability": 50,
    "read_sla": 5,
    "read_utilisation": 20,
    "read_venue_quotes": 20,
    "read_venue_reliability": 20,
    "report_cluster_events": 2,
    "request_table": 50,
    "show_drill_victim": 10,
    "show_newest_table": 10,
    "show_plan": 20,
    "show_table": 10,
    "tell_outcome": 5,
    "test_peer": 50,
    "test_webhook": 50,
}
"""The number of requests that one counts as, by operation. These read or compute much more than a start does.

All others count as one; a test lists them, so that every new operation is thought of.
"""
PEER_MESSAGES = frozenset({"offer_job", "award_job", "withdraw_offer"})
"""The operations by which a peer has something decided and written down."""


class Rates:
    """The counters of one process."""

    def __init__(
        self,
        token_requests_per_s: int,
        address_requests_per_min: int,
        ticks_s: Callable[[], float] = monotonic,
        *,
        peer_messages_per_s: int = 100,
    ) -> None:
        self._of_token = RateLimitItemPerSecond(token_requests_per_s)
        self._of_peer = RateLimitItemPerSecond(peer_messages_per_s)
        self._of_address = RateLimitItemPerMinute(address_requests_per_min)
        self._part = max(1, token_requests_per_s // _PARTS)
        self._left: dict[int, int] = {}
        self._shut: dict[str, float] = {}
        self._ticks_s = ticks_s
        self._limiter = FixedWindowRateLimiter(Windows(ticks_s))

    def is_shut(self, scope: Scope) -> bool:
        """Return True if the address has used up its requests without a valid token."""
        return bool(self._shut) and self._shut.get(address_of(scope), 0.0) > self._ticks_s()

    def count_token(self, token_id: int, cost: int = 1) -> None:
        """Count a request with this token. Raise RateExceeded if those of this second are used up."""
        cost = min(cost, self._of_token.amount)
        left = self._left.get(token_id, 0)
        if left < cost:
            part = max(self._part, cost - left)
            if not self._limiter.hit(self._of_token, str(token_id), cost=part):
                raise self._exceeded(self._of_token, str(token_id), _TOO_MANY)
            left += part
        self._left[token_id] = left - cost

    def count_peer(self, name: str) -> None:
        """Count a message of a peer, which may have several tokens. Raise RateExceeded beyond those of this second."""
        if not self._limiter.hit(self._of_peer, name):
            raise self._exceeded(self._of_peer, name, "the peer sends more messages than it may")

    def count_probe(self, scope: Scope) -> None:
        """Count a request for the service's health. It has a limit of its own, which wrong tokens cannot use up."""
        address = f"probe {address_of(scope)}"
        if not self._limiter.hit(self._of_address, address):
            raise self._exceeded(self._of_address, address, "too many probes")

    def count_address(self, scope: Scope) -> None:
        """Count a request without a valid token. Raise RateExceeded if the address's of this minute are used up."""
        self.check_address(scope)
        address = address_of(scope)
        if not self._limiter.hit(self._of_address, address):
            error = self._exceeded(self._of_address, address, "too many requests without a valid token")
            now = self._ticks_s()
            self._shut = {shut: until for shut, until in self._shut.items() if until > now}
            self._shut[address] = now + error.retry_after_s
            raise error

    def check_address(self, scope: Scope) -> None:
        """Raise RateExceeded if the address's requests without a valid token are used up."""
        rest_s = self._shut.get(address_of(scope), 0.0) - self._ticks_s() if self._shut else 0.0
        if rest_s > 0:
            raise RateExceeded("too many requests without a valid token", math.ceil(rest_s))

    def _exceeded(self, item: RateLimitItem, key: str, why: str) -> RateExceeded:
        rest_s = self._limiter.get_window_stats(item, key).reset_time - self._ticks_s()
        return RateExceeded(f"{why}: {item}", max(1, math.ceil(rest_s)))


def address_of(scope: Scope) -> str:
    """Return the address of a caller, or the network of one that has a whole network."""
    client = scope.get("client")
    return place_of(None if client is None else client[0])
