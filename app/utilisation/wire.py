"""The answer with a cloud's history of utilisation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.domain.times import SECOND_US, to_datetime
from app.platform.http.fields import Name, Query, Time
from app.utilisation.service import MOST_POINTS, Utilisation, UtilisationPoint
from tenure_client.forms.promises import PointAnswer, UtilisationAnswer


class UtilisationQuery(Query):
    begin_us: Annotated[
        Time | None, Field(alias="begin_at", description="The beginning; by default a day before the end.")
    ] = None
    end_us: Annotated[Time | None, Field(alias="end_at", description="The end; by default now.")] = None
    points: Annotated[
        int, Field(ge=1, le=MOST_POINTS, description="The largest number of points, give or take two.")
    ] = 300
    node: Annotated[Name | None, Field(description="Only this node; by default the whole cloud.")] = None


def utilisation_answer(found: Utilisation) -> UtilisationAnswer:
    """Return the wire form of the history."""
    return UtilisationAnswer(
        begin_at=to_datetime(found.begin_us),
        as_of=to_datetime(found.as_of_us),
        width_s=found.width_us // SECOND_US,
        seq=found.seq,
        log_seq=found.log_seq,
        points=[_point(point) for point in found.points],
    )


def _point(point: UtilisationPoint) -> PointAnswer:
    """Return the wire form of a point, field by field: an answer has up to a thousand."""
    return PointAnswer(
        at=to_datetime(point.at_us),
        on_demand_mean=point.on_demand_mean,
        spot_mean=point.spot_mean,
        total_mean=point.total_mean,
        on_demand_peak=point.on_demand_peak,
        spot_peak=point.spot_peak,
        used_peak=point.used_peak,
        on_demand_admitted=point.on_demand_admitted,
        on_demand_rejected=point.on_demand_rejected,
        spot_admitted=point.spot_admitted,
        spot_rejected=point.spot_rejected,
        evicted=point.evicted,
    )
