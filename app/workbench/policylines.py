"""Bounds of the figures on the lines of a log that tell a policy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from app.domain.times import seconds_text
from app.workbench.logcsv import LogRow


def policy_fault(row: LogRow) -> str | None:
    """Return what no policy can have on this line, None if all can be."""
    for name, fits in _BOUNDS.items():
        value = getattr(row, name)
        if value is not None and not fits(value):
            return f"no policy has the {name.removesuffix('_us')} {_shown(name, value)}"
    return None


def _shown(name: str, value: Any) -> str:  # noqa: ANN401 - whatever a column holds
    if isinstance(value, tuple):
        return ", ".join(f"{seconds_text(one)} s" for one in value)
    return f"{seconds_text(value)} s" if name.endswith("_us") else f"{value}"


def _is_whole(value: int) -> bool:
    return value >= 0


def _is_probability(value: float) -> bool:
    return 0 < value < 1


def _rises(boundaries_us: tuple[int, ...]) -> bool:
    return all(low < high for low, high in pairwise((0, *boundaries_us)))


_BOUNDS: dict[str, Callable[[Any], bool]] = {
    "probability": _is_probability,
    "threshold": _is_probability,
    "grace_us": _is_whole,
    "min_windows": _is_whole,
    "owner_cores": _is_whole,
    "overrunning_cores": _is_whole,
    "owner_share": lambda share: 0 < share <= 1,
    "overrun_share": lambda share: 0 <= share <= 1,
    "strata_us": _rises,
}
"""The bounds of each field, those that the service sets for the policies of its clouds."""
