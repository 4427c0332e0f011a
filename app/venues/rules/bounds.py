"""Lower bounds of survival: from windows that do not overlap, divided by how far epochs differ.

Past starts a lifetime apart share no future, but next week's prices are not drawn from the same urn as last month's.
So the number of windows is divided by a *design effect*, which a venue learns from its own past weeks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.domain.times import HOUR_US
from app.engine.cluster import Ints
from app.forecast.bound import count_windows, upper_bound
from app.venues.rules.history import Dollars

DESIGN_EFFECTS = (1, 2, 4, 8, 16)
FIRST_EFFECT = 8
"""The design effect of a venue whose past weeks have not been looked at."""
LIFETIMES_US = (HOUR_US, 3 * HOUR_US, 6 * HOUR_US, 12 * HOUR_US)
"""The lifetimes at which past weeks are looked at."""


def windows_of(highest: Dollars, starts_us: Ints, lifetime_us: int) -> int:
    """Return how many wholly observed starts, a lifetime apart, there are; `highest` is that of `highest_within`."""
    return int(count_windows(starts_us[~np.isnan(highest)], lifetime_us))


def least_survival(share: float, windows: int, effect: int, confidence: float) -> float:
    """Return what a survival is at least, of which a share was seen over so many windows; 0 without any."""
    return 1.0 - float(upper_bound(1.0 - share, windows / effect, confidence)) if windows else 0.0


def most_survival(share: float, windows: int, effect: int, confidence: float) -> float:
    """Return what a survival is at most, of which a share was seen over so many windows; 1 without any."""
    return float(upper_bound(share, windows / effect, confidence)) if windows else 1.0


def design_effect(covered: Sequence[Sequence[bool]], confidence: float) -> int:
    """Return the least design effect whose bounds covered what happened often enough, the largest if none did.

    `covered` has a row for each past week of a pool and a lifetime: if the bound with each effect covered.
    """
    if not covered:
        return FIRST_EFFECT
    shares = np.mean(np.asarray(covered, np.float64), axis=0).tolist()
    fit = [effect for effect, share in zip(DESIGN_EFFECTS, shares, strict=True) if share >= confidence]
    return fit[0] if fit else DESIGN_EFFECTS[-1]
