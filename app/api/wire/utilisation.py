"""What of a cloud's cores was in use over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import Answer, Name, Query, Time
from app.domain.times import SECOND_US, to_datetime
from app.services.utilisation import MOST_POINTS, Point, Utilisation


class UtilisationQuery(Query):
    begin_us: Annotated[
        Time | None, Field(alias="begin_at", description="From then on; by default a day's length.")
    ] = None
    end_us: Annotated[Time | None, Field(alias="end_at", description="Up to then; by default up to now.")] = None
    points: Annotated[int, Field(ge=1, le=MOST_POINTS, description="Give at most so many points, or two more.")] = 300
    node: Annotated[Name | None, Field(description="Of this node alone; by default of the whole cloud.")] = None


@dataclass(slots=True, kw_only=True)
class PointAnswer(Answer):
    """A bucket of time: means are exact and weighted by time, peaks are the highest after any event."""

    at: datetime
    on_demand_mean: Annotated[float, Field(description="Cores that on-demand instances had.")]
    spot_mean: float
    total_mean: Annotated[float, Field(description="Cores that there were, on nodes that were not removed.")]
    on_demand_peak: int
    spot_peak: int
    used_peak: Annotated[int, Field(description="Of both markets together.")]
    on_demand_admitted: int
    on_demand_rejected: int
    spot_admitted: int
    spot_rejected: int
    evicted: int


@dataclass(slots=True, kw_only=True)
class UtilisationAnswer(Answer):
    begin_at: datetime
    as_of: Annotated[datetime, Field(description="The last point's mean goes up to then at most.")]
    width_s: Annotated[int, Field(description="How long each point's bucket is.")]
    seq: Annotated[int, Field(description="The events that are in it.")]
    log_seq: Annotated[int, Field(description="The end of the log: a worker brings `seq` up to it in a moment.")]
    points: list[PointAnswer]


def utilisation_answer(found: Utilisation) -> UtilisationAnswer:
    """The wire form."""
    return UtilisationAnswer(
        begin_at=to_datetime(found.begin_us),
        as_of=to_datetime(found.as_of_us),
        width_s=found.width_us // SECOND_US,
        seq=found.seq,
        log_seq=found.log_seq,
        points=[_point(point) for point in found.points],
    )


def _point(point: Point) -> PointAnswer:
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
