"""The endpoints of venues with their handlers, a part of the table of all endpoints."""

from __future__ import annotations

from app.clusters.http import venue_advice as advice
from app.clusters.wire.venue_advice import BidAdviceQuery
from app.domain import errors
from app.domain.values import Role
from app.platform.http.page_forms import PageQuery
from app.platform.http.serving import Served
from app.venues import http as venues
from app.venues import wire as venue_wire
from tenure_client import endpoints

_SEEN = {
    "provider": "aws", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "c3.xlarge",
    "product": "Linux/UNIX", "id": "i-0a1b",
}  # fmt: skip
VENUES = (
    Served(
        endpoints.VENUES,
        venues.list_venues,
        role=Role.READER,
        query=PageQuery,
        query_example={"limit": 100},
    ),
    Served(endpoints.VENUE, venues.show_venue, role=Role.READER),
    Served(endpoints.REMOVE_VENUE, venues.remove_venue, role=Role.ADMIN, errors=(errors.VenueBusy,)),
    Served(
        endpoints.POOLS,
        venues.list_pools,
        role=Role.READER,
        query=venue_wire.PoolsQuery,
        query_example={"type": "c3.xlarge", "limit": 50},
    ),
    Served(
        endpoints.POOL_SURVIVAL,
        venues.read_pool_survival,
        role=Role.READER,
        query=venue_wire.PoolSurvivalQuery,
        errors=(errors.PricesStale, errors.HistoryTooShort, errors.TimeAhead),
        query_example={"bid": "0.05,0.21"},
    ),
    Served(
        endpoints.OBSERVE,
        venues.observe_machines,
        role=Role.SERVICE,
        body=venue_wire.ObservationsBody,
        errors=(errors.TimeAhead, errors.TooManyPools),
        example={"observations": [_SEEN | {"at": "2026-01-01T00:00:00Z", "kind": "started"}]},
    ),
    Served(
        endpoints.PRICES,
        venues.list_prices,
        role=Role.READER,
        query=venue_wire.PricesQuery,
        errors=(errors.PoolNotFound,),
        query_example={"type": "c3.xlarge", "zone": "us-east-1a", "from": "2015-07-01T00:00:00Z"},
    ),
    Served(
        endpoints.VENUE_CHECKPOINT_ADVICE,
        advice.advise_venue_checkpoint,
        role=Role.READER,
        query=BidAdviceQuery,
        errors=(errors.PoolNotFound, errors.HistoryTooShort, errors.AdviceImpossible, errors.AdviceTermsInvalid),
        query_example={
            "type": "c3.xlarge",
            "zone": "us-east-1a",
            "bid": 0.21,
            "age_s": 600,
            "lifetime_s": 21600,
            "pause_s": 30,
        },
    ),
    Served(
        endpoints.VENUE_QUOTES,
        venues.read_venue_quotes,
        role=Role.READER,
        query=venue_wire.VenueQuotesQuery,
        errors=(errors.PricesStale, errors.HistoryTooShort, errors.TimeAhead),
        query_example={"lifetime_s": 21600, "probability": 0.95},
    ),
)
