"""Answers on the curves of the forecast in force."""

from __future__ import annotations

from pydantic import Field

from app.domain.times import LONGEST_LIFETIME_US, seconds, to_datetime
from app.domain.values import Policy
from app.forecast.table import QuantileTable
from app.forecasts.curves import FEW_WINDOWS, CurvePoint, CurveSheet
from app.platform.http.fields import Name, Query
from tenure_client.forms.forecasts import CurvePointAnswer, CurvesAnswer, GuaranteedAnswer, LifetimeCurveAnswer


class CurvesQuery(Query):
    flavor: Name = Field(description="The flavor.")


def curves_answer(
    policy: Policy, table: QuantileTable, flavor: str, slots: int, sheet: CurveSheet | None
) -> CurvesAnswer:
    """Return the wire form of a flavor's curves; without any if nothing is known of it."""
    guaranteed = [] if sheet is None else sheet.by_slots
    return CurvesAnswer(
        flavor=flavor,
        forecast=policy.forecast,
        epoch=table.epoch,
        epoch_at=to_datetime(table.epoch_us),
        slots=slots if sheet is None else sheet.slots_now,
        confidence=policy.confidence,
        few_windows=FEW_WINDOWS,
        probabilities=[] if sheet is None else [*sheet.probabilities],
        guaranteed=[
            GuaranteedAnswer(
                slots=one.slots, lifetimes_s=[seconds(min(us, LONGEST_LIFETIME_US)) for us in one.lifetimes_us]
            )
            for one in guaranteed
        ],
        curves=[
            LifetimeCurveAnswer(slots=one.slots, points=[_point(point) for point in one.points])
            for one in (() if sheet is None else sheet.by_lifetime)
        ],
    )


def _point(point: CurvePoint) -> CurvePointAnswer:
    return CurvePointAnswer(
        lifetime_s=seconds(point.lifetime_us),
        estimated_eviction_probability=point.estimate,
        eviction_probability_bound=point.bound,
        window_count=point.window_count,
        is_thin=point.is_thin,
    )
