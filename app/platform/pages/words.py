"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from app.domain.numbers import number_text, share_text
from app.domain.times import SECOND_US, length_text, to_datetime

NOTHING = "\N{EN DASH}"
"""Stands where there is no value."""


def duration(us: int | None) -> str:
    """A length of time, in the unit that suits it."""
    return NOTHING if us is None else length_text(us)


def percent(share: float | None) -> str:
    """A share as per cent."""
    return NOTHING if share is None else share_text(share)


def count(number: float | None) -> str:
    """A number with its thousands apart."""
    return NOTHING if number is None else number_text(number)


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def when(at: int | datetime | None) -> str:
    """A moment in UTC, to the second."""
    return NOTHING if at is None else f"{_datetime(at):%Y-%m-%d %H:%M:%S}"


def iso(at: int | datetime) -> str:
    """A moment as machines read it."""
    return _datetime(at).astimezone(UTC).isoformat()


def ago(seconds: float | None) -> str:
    """How long ago something was."""
    if seconds is None:
        return "never"
    return "just now" if seconds < 5 else f"{duration(int(seconds) * SECOND_US)} ago"


def label(name: object) -> str:
    """A value of the interface as words: `on_demand` is `on-demand`."""
    text = str(getattr(name, "value", name))
    return {"on_demand": "on-demand", "on_demand_start": "on-demand start", "sla_unattainable": "SLA unattainable"}.get(
        text, text.replace("_", " ")
    )


def _datetime(at: int | datetime) -> datetime:
    return at if isinstance(at, datetime) else to_datetime(at)
