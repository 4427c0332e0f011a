"""The page of a flavor's curves: what the forecast in force says by available slots and by lifetime, as of now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import FlavorNotFound
from app.domain.times import SECOND_US, from_datetime
from app.domain.values import Forecast
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.curves import FEW_WINDOWS, TOLD_US, CurveSheet, curves_now
from app.forecasts.evidence import evidence_rows, samples_by_slots, spread
from app.forecasts.pages.quotes import warming_until_us
from app.forecasts.table_reads import TableReads
from app.platform.http.reached import reached
from app.platform.pages.asking import server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import beside

_ROWS = 12
"""So many numbers of slots are told in a table, and the present one."""


async def show(request: Request) -> Response:
    """Show the curves of the requested flavor, or of the first one."""
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud, now_us = await reached(request, Scheduler).present(name)
    flavors = flavors_of(cloud, table)
    flavor, sheet = _flavor(request, flavors, table, cloud), None
    if table is not None and flavor is not None:
        sheet = await beside(curves_now(cloud, table, flavor, now_us))
    return render(
        request,
        "curves.html",
        table=table,
        flavor=flavor,
        flavors=flavors,
        policy=cloud.policy,
        few=FEW_WINDOWS,
        told_us=TOLD_US,
        warming_until_us=warming_until_us(cloud, from_datetime(server_time(request))),
        first_due_us=cloud.policy.first_due_us(cloud.created_us),
        live=f"/ui/clouds/{name}/live",
        sheet=sheet,
        **_shown(sheet, table),
    )


def flavors_of(cloud: Cloud, table: QuantileTable | None) -> Sequence[str]:
    """Return the flavors that have curves by the forecast in force."""
    if table is None:
        return ()
    return table.flavors if cloud.policy.forecast is Forecast.REPLAY else [*cloud.flavors]


def _flavor(request: Request, flavors: Sequence[str], table: QuantileTable | None, cloud: Cloud) -> str | None:
    wanted = request.query_params.get("flavor")
    if not flavors or table is None:
        return None
    if wanted is not None:
        if wanted not in flavors:
            raise FlavorNotFound(f"there are no curves of a flavor {wanted!r}")
        return wanted
    if cloud.policy.forecast is Forecast.REPLAY:
        return next((flavor for flavor in flavors if table.curve(flavor).buckets), flavors[0])
    return flavors[0]


def _shown(sheet: CurveSheet | None, table: QuantileTable | None) -> dict[str, Any]:
    """Return the charts and the rows of their tables."""
    if sheet is None or table is None:
        return {"charts": None, "rows": [], "buckets": [], "bucket_count": 0}
    charts = [lifetimes_by_slots(sheet), estimates_by_lifetime(sheet)]
    few = {one.slots for one in spread(sheet.by_slots, _ROWS)} | {sheet.slots_now}
    rows = [one for one in sheet.by_slots if one.slots in few]
    shown: dict[str, Any] = {"charts": charts, "rows": rows, "buckets": [], "bucket_count": 0}
    if sheet.forecast is Forecast.REPLAY:
        buckets = table.curve(sheet.flavor).buckets
        charts.append(samples_by_slots(buckets, sheet.slots_now))
        shown |= {"buckets": evidence_rows(buckets), "bucket_count": len(buckets)}
    return shown


def lifetimes_by_slots(sheet: CurveSheet) -> dict[str, Any]:
    """Return a chart of the lifetime guaranteed at each probability by available slots."""
    shown, most_us = sheet.by_slots, sheet.by_lifetime[0].points[-1].lifetime_us
    series = [
        _series(
            f"at {100 * probability:g} %",
            number,
            [min(one.lifetimes_us[number], most_us) / SECOND_US for one in shown],
            dots=len(shown) < _ROWS,
            shows="guaranteed",
        )
        for number, probability in reversed([*enumerate(sheet.probabilities)])
    ]
    slots = [one.slots for one in shown]
    here = slots.index(sheet.slots_now) if sheet.slots_now in slots else None
    x = {"kind": "number", "name": "slots", "label": "available slots", "values": slots}
    return {
        "x": x | ({} if here is None else {"shown": here, "here": sheet.slots_now}),
        "y": {"kind": "length", "label": "guaranteed lifetime", "lowest": _lowest_us(sheet) / SECOND_US} | _thin(sheet),
        "series": series,
    }


def estimates_by_lifetime(sheet: CurveSheet) -> dict[str, Any]:
    """Return a chart of the estimate by lifetime at a few numbers of slots, and of the bound at the present ones."""
    times = [point.lifetime_us / SECOND_US for point in sheet.by_lifetime[0].points]
    series = [
        _series(f"{one.slots} slot{'' if one.slots == 1 else 's'}", number, [point.estimate for point in one.points])
        for number, one in enumerate(sheet.by_lifetime)
    ]
    for one in sheet.by_lifetime:
        if one.slots != sheet.slots_now:
            continue
        values = [point.bound for point in one.points]
        series.append({"label": f"bound at {one.slots}", "colour": "edge", "dash": [3, 4], "values": values})
    return {
        "x": {"kind": "length", "name": "lifetime", "label": "lifetime", "lowest": times[0], "values": times}
        | _thin(sheet),
        "y": {"kind": "share", "label": "estimate"},
        "series": series,
    }


def _lowest_us(sheet: CurveSheet) -> int:
    """Return where an axis of powers begins on which every lifetime that is guaranteed stands at its place."""
    shortest = sheet.by_lifetime[0].points[0].lifetime_us
    told = [us for one in sheet.by_slots for us in one.lifetimes_us if us >= SECOND_US]
    return min([shortest, *told])


def _thin(sheet: CurveSheet) -> dict[str, float]:
    """Return where the evidence begins to be thin, on an axis of lifetimes."""
    return {} if sheet.thin_us is None else {"thin": sheet.thin_us / SECOND_US}


def _series(label: str, number: int, values: Sequence[float | None], **look: object) -> dict[str, Any]:
    return {"label": label, "colour": f"line-{number % 5 + 1}", **look, "values": values}
