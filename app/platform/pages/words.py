"""Numbers and times in a form for people."""

from __future__ import annotations

from datetime import UTC, datetime

from app.domain.numbers import figure_text, number_text, share_text
from app.domain.risks import windows_in_words, windows_text
from app.domain.times import SECOND_US, age_text, at_least_text, length_text, to_datetime

NOTHING = "\N{EN DASH}"
"""The text shown if there is no value."""


def duration(us: int | None) -> str:
    """Return a length of time, in a suitable unit."""
    return NOTHING if us is None else length_text(us)


def guaranteed(us: int | None) -> str:
    """Return a guaranteed lifetime, rounded down, so that one as long as told is guaranteed."""
    return NOTHING if us is None else at_least_text(us)


def age(us: int) -> str:
    """Return how old something is, in a suitable unit."""
    return age_text(us)


def figure(value: float | None) -> str:
    """Return a price or a cost with the digits that count."""
    return NOTHING if value is None else figure_text(value)


def percent(share: float | None) -> str:
    """Return a share in per cent."""
    return NOTHING if share is None else share_text(share)


def estimate(probability: float | None) -> str:
    """Return the estimate of an eviction probability; 1 stands for a lifetime that nothing observed has reached."""
    return "not certified" if probability is not None and probability >= 1 else percent(probability)


def count(number: float | None) -> str:
    """Return a number with separated thousands."""
    return NOTHING if number is None else number_text(number)


def windows(number: float | None, needed: int | None = None) -> str:
    """Return a number of windows, pieces of evidence; of a refusal for want of them beside the number `needed`."""
    return NOTHING if number is None else windows_text(number, needed)


def on_windows(number: float | None) -> str:
    """Return the evidence of a bound as the end of a clause."""
    return "" if number is None else f", on {windows_in_words(number)}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def when(at: int | datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return NOTHING if at is None else f"{_datetime(at):%Y-%m-%d %H:%M:%S}"


def iso(at: int | datetime) -> str:
    """Return a time in ISO 8601."""
    return _datetime(at).astimezone(UTC).isoformat()


def ago(seconds: float | None) -> str:
    """Return the time that has passed as text."""
    if seconds is None:
        return "never"
    return "just now" if seconds < 5 else f"{duration(int(seconds) * SECOND_US)} ago"


def label(name: object) -> str:
    """Return a value of the interface as words: `on_demand` becomes `on-demand`."""
    text = str(getattr(name, "value", name))
    return {"on_demand": "on-demand", "on_demand_start": "on-demand start", "sla_unattainable": "SLA unattainable"}.get(
        text, text.replace("_", " ")
    )


def _datetime(at: int | datetime) -> datetime:
    return at if isinstance(at, datetime) else to_datetime(at)
