"""A sentence for people about all instances that were given one promise."""

from __future__ import annotations

from app.domain.numbers import number_text, share_text
from app.judging.attainment import Attainment


def standing_in_words(standing: Attainment | None, share: str) -> str:
    """Say how many of all with this promise were evicted in time, and if those are too many."""
    allowed = f"at most {share} of those with this promise may be evicted within their lifetime"
    if standing is None or standing.ratio is None:
        return f"{allowed[0].upper()}{allowed[1:]}."
    happened = f"{number_text(standing.evicted)} of {number_text(standing.admitted)} ({share_text(standing.ratio)})"
    verdict = "the promise is kept so far" if standing.is_kept else "that is more than was promised"
    return f"{allowed[0].upper()}{allowed[1:]}; so far {happened} were: {verdict}."
