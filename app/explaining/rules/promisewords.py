"""The outcome of the promise to one instance, in words."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.events import InstanceEvicted, StartDecision
from app.domain.numbers import share_text
from app.domain.times import at_least_text, time_text
from app.domain.values import EvictionReason
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
            yield f"The promise, an eviction probability of at most {share}, holds until {time_text(until_us)}."
