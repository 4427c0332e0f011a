"""The outcome of the promise to one instance, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.domain.events import InstanceEvicted, StartDecision
from app.domain.numbers import share_text
from app.domain.risks import risk_beside
from app.domain.times import at_least_text, time_text
from app.domain.values import Basis, EvictionReason
from app.explaining.rules.bookwords import stratum_in_words
from app.explaining.rules.classwords import standing_in_words
from app.explaining.rules.explanations import Explanation, PromiseStatus


def promise_in_words(explanation: Explanation, decision: StartDecision) -> Iterator[str]:
    """Tell what became of the promise to an instance."""
    end = explanation.instance.end
    if explanation.promise is PromiseStatus.NONE or decision.lifetime_us is None or decision.basis is None:
        return
    until_us = decision.at_us + decision.lifetime_us
    ran, declared = (
        at_least_text((end.at_us if end else explanation.as_of_us) - decision.at_us),
        at_least_text(decision.lifetime_us),
    )
    share = "-" if decision.basis.probability is None else share_text(decision.basis.probability)
    match explanation.promise:
        case PromiseStatus.BROKEN:
            yield f"It had run for {ran} of its declared {declared}, so the promise to it counts as broken."
            yield standing_in_words(explanation.standing, share)
        case PromiseStatus.KEPT if isinstance(end, InstanceEvicted) and end.reason is EvictionReason.DRILL:
            yield "The promise does not count as broken: a drill is to the SLA what a stop is."
        case PromiseStatus.KEPT if isinstance(end, InstanceEvicted):
            yield f"It had run for {ran}, longer than the {declared} it declared: the promise was kept."
        case PromiseStatus.KEPT:
            past_us = (end.at_us if end else explanation.as_of_us) - until_us
            overrun = f" It overran that by {at_least_text(past_us)}." if past_us > 0 else ""
            yield f"The promise was kept: it was not evicted within its declared lifetime.{overrun}"
        case _:
            yield _holding(explanation, decision.basis, share, time_text(until_us))


def _holding(explanation: Explanation, basis: Basis, share: str, until: str) -> str:
    """Tell until when a promise holds, and that it is to all such starts together if this one risks more."""
    extension = explanation.instance.extension
    basis = basis if extension is None else replace(basis, estimated_probability=extension.total_risk)
    if basis.book is None or not basis.is_beyond:
        return f"The promise, an eviction probability of at most {share}, holds until {until}."
    risk = risk_beside(basis.estimated_probability or 0.0, basis.probability)
    return (
        f"The promise holds until {until}. It is made to all starts with this promise ({stratum_in_words(basis.book)}) "
        f"together: at most {share} of them are evicted. For this one alone {risk} is expected."
    )
