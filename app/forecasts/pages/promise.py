"""The page of SLA classes, and of promised probabilities against outcomes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.values import Guarantee
from app.forecasts.reliability import LONGEST_STRETCH, Reliabilities
from app.judging.intervals import CONFIDENCE
from app.judging.outcomes import largest
from app.judging.reliability import Calibration, Reliability
from app.platform.http.reached import reached
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler

_LOOKED_AT = 5_000
"""The number of newest events from which admitted spot instances are compared."""
_FLAVORS, _WEEKS = 20, 12
"""So many flavors, those with most admissions, and so many of the newest weeks are shown."""
_OTHER = "all others"


async def show(request: Request) -> Response:
    """Show classes with their budgets, and compare estimates with outcomes in the newest part of the log."""
    name = request.path_params["cloud"]
    standing = await reached(request, Scheduler).attainments(name)
    policy, at_us = standing.policy, standing.at_us
    stretch = await reached(request, Reliabilities).read(name, max(0, standing.seq - _LOOKED_AT), at_us)
    return render(
        request,
        "promise.html",
        policy=policy,
        pooled=policy.guarantee is Guarantee.POOLED,
        classes=standing.classes,
        outcomes=standing.outcomes,
        flavors=largest(standing.outcomes.flavors, _FLAVORS, _OTHER),
        weeks=standing.outcomes.weeks[: -_WEEKS - 1 : -1],
        confidence=CONFIDENCE,
        at_us=at_us,
        stretch=stretch,
        longest_stretch=LONGEST_STRETCH,
        estimates=stretch.reliability.estimates,
        truths=stretch.reliability.truths,
        chart=calibration_chart(stretch.reliability),
        live=f"/ui/clouds/{name}/live",
    )


def calibration_chart(found: Reliability) -> dict[str, object] | None:
    """Return a chart of outcomes by estimates, with the line on which both are equal; None without evidence."""
    settled = [line for line in found.estimates if line.settled and line.promised is not None]
    if len(settled) < 2:
        return None
    values = [_promised(line) for line in settled]
    return {
        "x": {"kind": "share", "name": "estimated", "label": "estimated", "values": values},
        "y": {"kind": "share", "label": "happened"},
        "series": [
            {"label": "happened", "colour": "line-2", "dots": True, "values": [line.happened for line in settled]},
            {"label": "from", "colour": "edge", "dash": [3, 4], "values": [line.low for line in settled]},
            {"label": "to", "colour": "edge", "dash": [3, 4], "values": [line.high for line in settled]},
            {"label": "equal", "colour": "line-1", "values": values},
        ],
    }


def _promised(line: Calibration) -> float:
    assert line.promised is not None
    return line.promised
