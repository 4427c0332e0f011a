"""The history of utilisation as charts, as a table, and as a strip for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.utilisation.service import Utilisation, UtilisationPoint

RANGES = {"hour": HOUR_US, "day": DAY_US, "week": 7 * DAY_US, "month": 30 * DAY_US, "all": None}
DEFAULT_RANGE = "day"


@dataclass(frozen=True, slots=True)
class Cell:
    """A node in one bucket of time: its place in the strip, and the share of its cores in use."""

    left: float
    width: float
    share: float
    at_us: int


def utilisation_chart(found: Utilisation) -> dict[str, object]:
    """Draw cores in use by market, stacked, below the cores present."""
    points = _closed(found)
    return {
        "x": {"kind": "time", "name": "UTC", "values": [point.at_us / SECOND_US for point in points]},
        "y": {"kind": "number", "label": "cores"},
        "series": [
            _stacked("on-demand", "on-demand", [round(p.on_demand_mean, 3) for p in points]),
            _stacked("spot", "spot", [round(p.spot_mean, 3) for p in points]),
            _stacked("free", "free", [round(_free(p), 3) for p in points]),
            {
                "label": "peak in use",
                "colour": "ink-2",
                "thin": True,
                "shape": "step",
                "values": [p.used_peak for p in points],
            },
        ],
    }


def decisions_chart(found: Utilisation) -> dict[str, object]:
    """Draw spot starts by outcome, and evictions."""
    points = _closed(found)
    return {
        "x": {"kind": "time", "name": "UTC", "values": [point.at_us / SECOND_US for point in points]},
        "y": {"kind": "number", "label": "instances"},
        "series": [
            _stacked("spot admitted", "spot", [p.spot_admitted for p in points]),
            _stacked("spot rejected", "rejected", [p.spot_rejected for p in points]),
            _stacked("evicted", "evicted", [p.evicted for p in points]),
        ],
    }


def _stacked(label: str, colour: str, values: Sequence[float]) -> dict[str, object]:
    return {"label": label, "colour": colour, "stack": True, "values": values}


def summary(found: Utilisation) -> str:
    """Describe the chart in one sentence, for people who cannot see it."""
    if not found.points:
        return "Nothing yet"
    peak = max(point.used_peak for point in found.points)
    evicted = sum(point.evicted for point in found.points)
    last = found.points[-1]
    return (
        f"Utilisation over time: at most {peak} cores were in use at once, {evicted} evictions; in the last point "
        f"{last.on_demand_mean + last.spot_mean:.1f} of {last.total_mean:.0f} cores on average"
    )


def strips(found: Mapping[str, Utilisation]) -> dict[str, list[Cell]]:
    """Return for each node a cell for each bucket, placed in a picture that is 1,000 wide."""
    return {name: _cells(one.points) for name, one in found.items()}


def _cells(points: Sequence[UtilisationPoint]) -> list[Cell]:
    width = 1000 / max(1, len(points))
    return [
        Cell(number * width, width, (p.on_demand_mean + p.spot_mean) / p.total_mean if p.total_mean else 0.0, p.at_us)
        for number, p in enumerate(points)
    ]


def _closed(found: Utilisation) -> list[UtilisationPoint]:
    """Repeat the last point at its end, so that it is as broad as the others."""
    if not found.points:
        return []
    last = found.points[-1]
    end_us = max(last.at_us + SECOND_US, min(found.as_of_us, last.at_us + found.width_us))
    return [*found.points, replace(last, at_us=end_us)]


def _free(point: UtilisationPoint) -> float:
    return max(0.0, point.total_mean - point.on_demand_mean - point.spot_mean)
