"""Refusals in plain words, short enough for the fault of a server. Pure: no Nova, no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure_nova_filter.wanted import LIFETIME, PROBABILITY, ServerWish, length_text

LONGEST = 255
"""Bytes of a fault's message that Nova keeps."""
_NOT_LET_IN = (401, 403)
_BEFORE = len("No valid host was found. ")
UNREACHABLE = (
    "Tenure cannot be reached, so no spot server is admitted now. Try again later, or take an on-demand flavor."
)
BUSY = "Tenure is asked too often, so no spot server is admitted now. Try again in a minute."
RESIZED = "Tenure: a spot server keeps its flavor, for its promise is for that. Create another one, and delete this."
MARKET_CHANGED = "Tenure: a server does not change between spot and on-demand. Create another one, and delete this."
ENDING = (
    "Tenure: this spot server has been evicted or ended, so it moves nowhere and keeps its flavor. Create another one."
)
NO_ROOM_ELSEWHERE = "Tenure: no other host has room for this spot server, and a spot server's move evicts nobody."
NOT_KNOWN_YET = (
    "Tenure does not know the flavor {flavor} yet. Try again in a minute; tenure nova check tells why if it stays so."
)
NOT_LET_IN = "Tenure does not let this cloud's scheduler in, so no spot server is admitted. An operator must look."
PINNED = (
    "Tenure: the image asks for {asked}, which takes room of the host itself, and a spot server has none of its own."
    " Take another image, or an on-demand flavor."
)
MANY_IN_A_GROUP = "Tenure: spot servers of a server group are created one at a time."
_REASONS = {
    "no_capacity": "no host has room for a spot server of {flavor} now",
    "sla_unattainable": "{lifetime} without an eviction cannot be promised{at}",
    "no_history": "this cloud has no forecast yet to promise anything by",
    "quotes_stale": "the forecast is too old to promise anything; it will be renewed",
    "budget_exhausted": "{lifetime} without an eviction cannot be promised{at} beside what was promised before",
    "too_few_windows": "too little is known of spans as long as {lifetime} to promise them",
    "quota_exceeded": "the quota of the project for spot servers is used up",
    "overrunning": "too many spot servers of the project run past their declared lifetimes",
}


def refusal(answer: Mapping[str, Any], wish: ServerWish) -> str:
    """Return the sentence of a start that Tenure rejected, with what would be accepted and where to ask."""
    reason = str(answer.get("reason"))
    at = answer.get("eviction_probability") or (answer.get("quote") or {}).get("eviction_probability")
    words = {
        "flavor": wish.plain_flavor[:40],
        "lifetime": length_text(wish.lifetime_s or 0),
        "at": "" if at is None else f" at {100 * at:.3g} %",
    }
    sentence = _REASONS.get(reason, f"the start was rejected ({reason[:40]})").format(**words)
    return f"Tenure: {sentence}.{_instead(answer.get('acceptable') or {})} Ask: openstack tenure quote"


def refused_request(status: int, body: Mapping[str, Any]) -> str:
    """Return the sentence of a request that Tenure refused as a whole."""
    if status in _NOT_LET_IN:
        return NOT_LET_IN
    errors = body.get("errors") or [{}]
    detail = str(errors[0].get("detail") or f"the request was refused with status {status}")
    return f"Tenure: {detail}"


def fit(sentence: str) -> str:
    """Return a sentence cut so that Nova's own words and it are no longer than a fault's message may be."""
    room = LONGEST - _BEFORE
    encoded = sentence.encode()
    return sentence if len(encoded) <= room else encoded[: room - 3].decode(errors="ignore") + "..."


def _instead(acceptable: Mapping[str, Any]) -> str:
    lifetime_s, probability = acceptable.get("lifetime_s"), acceptable.get("eviction_probability")
    offers = []
    if lifetime_s:
        offers.append(f"{LIFETIME}={int(lifetime_s)}" if lifetime_s >= 1 else f"{LIFETIME}={lifetime_s:.3g}")
    if probability:
        offers.append(f"{PROBABILITY}={_rounded_up(probability)}")
    return f" Accepted would be: {' or '.join(offers)}." if offers else ""


def _rounded_up(probability: float) -> str:
    """Return a probability with three digits that is not below the one given."""
    text = f"{probability:.3g}"
    return text if float(text) >= probability else f"{probability * 1.005:.3g}"
