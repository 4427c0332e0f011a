"""The evidence for a quantile table's curves, reduced to what a page can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from app.admission.quote import Quotes
from app.domain.values import Forecast, Policy
from app.forecast.survival import Bucket
from app.forecast.table import QuantileTable
from app.forecasts.rules import Evidence

T = TypeVar("T")

_POINTS = 160
_BUCKETS = 60


def evidence_at(table: QuantileTable, flavor: str, slots: int) -> list[Evidence]:
    """Return the bucket of these slots, or its nearest neighbours with samples. Zero slots need no evidence."""
    around = table.curve(flavor).around(slots) if flavor in table.flavors else ()
    return [_evidence(bucket) for bucket in around if bucket.slots]


def evidence_in_force(table: QuantileTable, policy: Policy, flavor: str, slots: int) -> list[Evidence]:
    """Return the samples that a quote rests on, or would at this number of slots.

    None of them if the policy's forecast is not made of samples.
    """
    return evidence_at(table, flavor, slots) if policy.forecast is Forecast.REPLAY else []


def guaranteed_bound(table: Quotes, flavor: str, slots: int, probability: float, confidence: float) -> float | None:
    """Return the upper bound of the eviction probability of what a quote guarantees; None if it guarantees nothing."""
    lifetime_us = table.lifetime_us(flavor, slots, probability)
    return table.bound(flavor, slots, lifetime_us - 1, confidence) if lifetime_us else None


def guaranteed_windows(table: Quotes, flavor: str, slots: int, probability: float) -> float | None:
    """Return the windows that what a quote guarantees rests on; None if it guarantees nothing."""
    lifetime_us = table.lifetime_us(flavor, slots, probability)
    return table.windows(flavor, slots, lifetime_us - 1) if lifetime_us else None


def spread(items: Sequence[T], most: int = _BUCKETS) -> list[T]:
    """Return at most `most` items, evenly chosen, with the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(at)] for at in np.linspace(0, len(items) - 1, most)]


def evidence_rows(buckets: Sequence[Bucket]) -> list[Evidence]:
    """Return the rows of buckets shown in a table."""
    return [_evidence(bucket) for bucket in spread(buckets)]


def samples_by_slots(buckets: Sequence[Bucket], now: int) -> dict[str, object]:
    """Return a chart of the samples, and of those that were evicted, by available slots."""
    shown = spread(buckets, _POINTS)
    series = [
        {"label": "samples", "colour": "edge", "shape": "bars", "values": [one.sample_count for one in shown]},
        {"label": "evicted", "colour": "evicted", "shape": "bars", "values": [one.evicted_count for one in shown]},
    ]
    return {"x": _slots_axis(shown, now), "y": {"kind": "number", "label": "samples"}, "series": series}


def _slots_axis(shown: Sequence[Bucket], now: int) -> dict[str, object]:
    """Return the axis of available slots; the legend first tells of the number that is nearest to the present one."""
    slots = [bucket.slots for bucket in shown]
    nearest = min(range(len(slots)), key=lambda at: abs(slots[at] - now))
    return {"kind": "number", "name": "slots", "label": "available slots", "values": slots, "shown": nearest}


def _evidence(bucket: Bucket) -> Evidence:
    return Evidence(bucket.slots, bucket.sample_count, bucket.evicted_count, bucket.longest_us)
