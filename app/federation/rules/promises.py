"""Promises of hosts, as a peer reads them: the host is not trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from app.domain.times import SECOND_US

_MOST_POINTS, _MOST_SLOTS, _LONGEST_S = 256, 1_000_000, 1e10
_SAID = 40


class Unpromised(StrEnum):
    """The reasons for which a host promises a peer nothing, and those for which the peer has not heard of any."""

    PEER_PAUSED = "peer_paused"
    NO_FLAVOR = "no_flavor"
    NO_FORECAST = "no_forecast"
    NO_ROOM = "no_room"
    PEER_UNREACHABLE = "peer_unreachable"
    PEER_REFUSED = "peer_refused"


TOLD_BY_HOSTS = (Unpromised.PEER_PAUSED, Unpromised.NO_FLAVOR, Unpromised.NO_FORECAST, Unpromised.NO_ROOM)


class NoPromise(NamedTuple):
    """The reason for which there is none, and a sentence for people."""

    why: Unpromised
    detail: str


@dataclass(frozen=True, slots=True)
class PeerPromise:
    """The share alive (never rising) after each of times_us (rising), for `slots` instances that start now.

    `longest_us`: the longest that they may run. `windows` and `at_least`: the evidence and a lower bound.
    """

    slots: int
    times_us: Sequence[int]
    alive: Sequence[float]
    windows: float
    at_least: float | None
    longest_us: int


def read_promise(body: Mapping[str, Any]) -> PeerPromise | NoPromise:
    """Return what an answer promises, or that it is no promise."""
    refused = body.get("refused")
    if isinstance(refused, str):
        known = {str(one): one for one in TOLD_BY_HOSTS}.get(refused, Unpromised.PEER_REFUSED)
        return NoPromise(known, f"it said {refused[:_SAID]!r}")
    points, slots, at_least = body.get("points"), body.get("slots"), body.get("at_least")
    told = points if isinstance(points, list) and 0 < len(points) <= _MOST_POINTS else []
    times_s = [_number(one, "lifetime_s", _LONGEST_S) for one in told]
    shares = [_number(one, "survival", 1.0) for one in told]
    windows, longest_s = _number(body, "windows", 1e15), _number(body, "longest_s", _LONGEST_S)
    bound = None if at_least is None else _number(body, "at_least", 1.0)
    is_whole = isinstance(slots, int) and not isinstance(slots, bool) and 0 < slots <= _MOST_SLOTS
    is_bounded = (bound is None) == (at_least is None)
    if not (told and is_whole and is_bounded) or None in {*times_s, *shares, windows, longest_s}:
        return NoPromise(Unpromised.PEER_REFUSED, "its answer is no promise")
    times_us = [round(one * SECOND_US) for one in times_s if one is not None]
    if any(first >= then for first, then in pairwise(times_us)):
        return NoPromise(Unpromised.PEER_REFUSED, "its answer is no promise")
    alive = [min(one for one in shares[: at + 1] if one is not None) for at in range(len(shares))]
    return PeerPromise(int(slots or 0), times_us, alive, windows or 0.0, bound, round((longest_s or 0.0) * SECOND_US))


def _number(found: object, name: str, most: float) -> float | None:
    """Return a number from 0 to `most` of an object; None if it has none there."""
    value = found.get(name) if isinstance(found, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None
