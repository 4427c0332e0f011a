"""A filter of OpenStack Nova's scheduler that asks Tenure which host takes a server.

It runs in Nova's own environment and needs nothing but nova and keystoneauth1.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TenureFilter"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """Load the filter, and Nova with it, when it is asked for: the rules beside it need neither."""
    if name != "TenureFilter":
        raise AttributeError(name)
    from tenure_nova_filter.filter import TenureFilter  # noqa: PLC0415 - said above

    return TenureFilter
