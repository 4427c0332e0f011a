"""The time at which a request is decided: that of the server's clock, or the one that the request brings."""

from __future__ import annotations

from app.domain.errors import TimeAhead, TimeBackwards, TimeMissing, TimeUnexpected
from app.domain.times import DAY_US, LONGEST_LIFETIME_US, SECOND_US, to_datetime
from app.domain.values import Clock
from app.engine.cloud import Cloud

_JUMP = '{"policy": {}, "at": TIME, "jump": true}'
_BORN = "; a cloud that is created with `at` begins there, and not in 1970"


LONGEST_STEP_US = LONGEST_LIFETIME_US
"""The furthest that any request moves an external clock: some ten years. Tables go through all of a cloud's time."""


def is_external(cloud: Cloud) -> bool:
    """Return True if the times of the cloud are those that requests bring."""
    return cloud.policy.clock is Clock.EXTERNAL


def time_of_change(cloud: Cloud, requested_us: int | None, server_us: int, *, jump: bool) -> int:
    """Return the time of an operator's change. With `jump` it may be further ahead than the policy's step."""
    return _any_time_of(cloud, requested_us, server_us) if jump else time_of(cloud, requested_us, server_us)


def time_of(cloud: Cloud, requested_us: int | None, server_us: int) -> int:
    """Return the time at which a request is decided. Raise TimeAhead if it exceeds the policy's step of the clock."""
    at_us, step_us = _any_time_of(cloud, requested_us, server_us), cloud.policy.clock_step_us
    if step_us is not None and is_ahead(cloud, at_us):
        raise TimeAhead(
            f"the cloud's time is {to_datetime(cloud.at_us).isoformat()}; one request may move it by"
            f" {step_us / SECOND_US:g} s at most (the policy's clock_step_s); an admin moves it further with a PATCH"
            f" of the cloud, {_JUMP}{_BORN if cloud.created_us == 0 else ''}"
        )
    return at_us


def check_clock(cloud: Cloud, requested_us: int | None) -> None:
    """Check that a request brings a time if the cloud's clock is external, and none if it is the system's.

    Raise TimeUnexpected or TimeMissing.
    """
    if is_external(cloud) and requested_us is None:
        raise TimeMissing("this cloud has an external clock: the request must carry its time")
    if not is_external(cloud) and requested_us is not None:
        raise TimeUnexpected("this cloud runs on the system clock: leave the time out")


def is_ahead(cloud: Cloud, at_us: int) -> bool:
    """Return True if this time is further ahead of an external clock than one request may move it."""
    step_us = min(cloud.policy.clock_step_us or LONGEST_STEP_US, LONGEST_STEP_US)
    return is_external(cloud) and at_us - cloud.at_us > step_us


def _any_time_of(cloud: Cloud, requested_us: int | None, server_us: int) -> int:
    """Return the time that a request means. A log's time never runs backwards, even if the server's clock does.

    Raise TimeAhead if it is further ahead than any request may move an external clock.
    """
    check_clock(cloud, requested_us)
    if requested_us is None:
        return cloud.present_us(server_us)
    if requested_us < cloud.at_us:
        raise TimeBackwards(f"the cloud's time is {to_datetime(cloud.at_us).isoformat()} already")
    if requested_us - cloud.at_us > LONGEST_STEP_US:
        raise TimeAhead(
            f"the cloud's time is {to_datetime(cloud.at_us).isoformat()}; no request moves it by more than"
            f" {LONGEST_STEP_US // DAY_US} days{_BORN if cloud.created_us == 0 else ''}"
        )
    return requested_us
