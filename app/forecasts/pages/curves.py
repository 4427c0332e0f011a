"""The page of a flavor's quantile curves and of the evidence for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import FlavorNotFound
from app.domain.times import from_datetime
from app.engine.cloud import Cloud
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable
from app.forecasts.evidence import estimates_by_lifetime, evidence_rows, lifetimes_by_slots, samples_by_slots, spread
from app.forecasts.pages.quotes import warming_until_us
from app.forecasts.table_reads import TableReads
from app.platform.http.reached import reached
from app.platform.pages.asking import server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler

_PROBABILITIES = (0.01, 0.05, 0.1)


async def show(request: Request) -> Response:
    """Show the curves of the requested flavor, or of the first one with evidence."""
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud = await reached(request, Scheduler).state(name)
    flavor = _flavor(request, table)
    shown: dict[str, Any] = {"buckets": [], "bucket_count": 0, "charts": None, "slots_now": 0}
    if table is not None and flavor is not None:
        shown |= _curves(table, cloud, flavor)
    return render(
        request,
        "curves.html",
        table=table,
        flavor=flavor,
        flavors=table.flavors if table else (),
        policy=cloud.policy,
        warming_until_us=warming_until_us(cloud, from_datetime(server_time(request))),
        live=f"/ui/clouds/{name}/live",
        **shown,
    )


def _flavor(request: Request, table: QuantileTable | None) -> str | None:
    wanted = request.query_params.get("flavor")
    if table is None or (wanted is None and not table.flavors):
        return None
    if wanted is None:
        return next((flavor for flavor in table.flavors if table.curve(flavor).buckets), table.flavors[0])
    if wanted not in table.flavors:
        raise FlavorNotFound(f"the table has no flavor {wanted!r}")
    return wanted


def _curves(table: QuantileTable, cloud: Cloud, flavor: str) -> dict[str, Any]:
    buckets = table.curve(flavor).buckets
    now = cloud.available_slots(flavor)
    if not buckets:
        return {"slots_now": now}
    own = cloud.policy.eviction_probability
    probabilities = sorted({*_PROBABILITIES, own})
    longest_us = max(bucket.longest_us for bucket in buckets)
    charts = (
        lifetimes_by_slots(buckets, probabilities, now),
        samples_by_slots(buckets, now),
        estimates_by_lifetime(table, flavor, _slots_shown(buckets, now), longest_us),
    )
    return {
        "slots_now": now,
        "buckets": evidence_rows(buckets),
        "bucket_count": len(buckets),
        "charts": charts,
    }


def _slots_shown(buckets: Sequence[Bucket], now: int) -> list[int]:
    """Return a few numbers of slots from the fewest seen to the most, and the present one."""
    chosen = {bucket.slots for bucket in spread(buckets, 4)}
    return sorted(chosen | ({now} if 0 < now <= buckets[-1].slots else set()))[:5]
