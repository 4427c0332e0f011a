"""An offer to a cluster's pool tells what is guaranteed and what is asked for, and no more than a quote knows."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from app.clusters.rules.wanted import ClusterWanted, PoolWanted
from app.managing.buying import Buyer

QUOTED = "16 slots; guaranteed at 0.01 for 2.04 h"
BEYOND = f"{QUOTED}, and asked for 2.5 h; a start may be accepted beyond its quote"


@pytest.mark.parametrize(
    ("slots", "lifetime_s", "least_s", "says", "is_sold"),
    [
        (16, 7_200, None, QUOTED, True),
        (16, 9_000, None, BEYOND, None),
        (16, 9_000, 3_600, QUOTED, True),
        (0, 9_000, None, "no room at present", False),
    ],
)
def test_a_quote_that_is_too_short_is_no_refusal(
    slots: int, lifetime_s: int, least_s: int | None, says: str, is_sold: bool | None
):
    pool = PoolWanted(name="spot", cloud="c", flavor="f", lifetime_s=lifetime_s, min_lease_s=least_s)
    client = Mock()
    client.flavor.return_value = SimpleNamespace(available_slots=slots)
    client.cloud.return_value = SimpleNamespace(policy=SimpleNamespace(guarantee="pooled"))
    client.quotes.return_value = SimpleNamespace(quotes=[SimpleNamespace(lifetime_s=7344.9, eviction_probability=0.01)])
    buyer = Buyer(ClusterWanted(name="lab", shared="/srv/lab", pools=(pool,)), client)
    assert [*buyer.offers()] == [(pool, says, is_sold)]
