"""The policy of a new cloud, where its maker names nothing else.

The defaults of `Policy` say what a log means that does not hold a field, so they never change. What new clouds get is
said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.domain.events.formats import LOG_FORMAT
from app.domain.values import Forecast, Guarantee, Policy, value_since

FORECAST = Forecast.CALIBRATED
"""The forecast of a new cloud."""
GUARANTEES = {Forecast.CALIBRATED: Guarantee.STRATIFIED, Forecast.REPLAY: Guarantee.PER_INSTANCE}
"""The guarantee of a new cloud, by its forecast. The second pair is the published method."""


def new_policy(named: Mapping[str, Any], log_format: int = LOG_FORMAT) -> Policy:
    """Return the policy of a new cloud: the fields that are named, and for the others what new clouds get.

    While a log format is in force that cannot hold this, a cloud that names no forecast gets the published method.
    """
    can_hold = log_format >= value_since(GUARANTEES[FORECAST])
    forecast = named.get("forecast", FORECAST if can_hold else Forecast.REPLAY)
    return Policy(**{"forecast": forecast, "guarantee": GUARANTEES[forecast]} | dict(named))
