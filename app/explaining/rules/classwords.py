"""A sentence for people about all instances that were given one promise."""

from __future__ import annotations

from app.domain.numbers import number_text, share_text
from app.judging.attainment import Attainment
from app.judging.verdicts import Judged

_VERDICTS = {
    Judged.KEPT: ": the promise is kept so far",
    Judged.KEPT_SO_FAR: ": the promise is kept so far",
    Judged.ABOVE: ": that is more than was promised, perhaps by chance",
    Judged.BROKEN: ": that is more than was promised",
    Judged.TOO_FEW: ", too few instances to judge",
}


def standing_in_words(standing: Attainment | None, share: str) -> str:
    """Say how many of all with this promise were evicted in time, and if those are too many."""
    allowed = f"at most {share} of those with this promise may be evicted within their lifetime"
    if standing is None or standing.ratio is None:
        return f"{allowed[0].upper()}{allowed[1:]}."
    happened = f"{number_text(standing.evicted)} of {number_text(standing.admitted)} ({share_text(standing.ratio)})"
    return f"{allowed[0].upper()}{allowed[1:]}; so far {happened} were{_VERDICTS[standing.judgement.verdict]}."
